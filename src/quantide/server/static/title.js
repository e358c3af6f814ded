// Title of the page: the selected stream and the number of firing alarms, visible from other tabs.

const parts = { stream: "", firing: 0 };

export function updateTitle(change) {
  Object.assign(parts, change);
  document.title = `${parts.firing ? `(${parts.firing}) ` : ""}${parts.stream ? `${parts.stream} · ` : ""}Quantide`;
}
