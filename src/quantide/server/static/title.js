// Title of the page: the selection, and the number of firing alarms, visible from other tabs.

const parts = { what: "", firing: 0 };

export function title(change) {
  Object.assign(parts, change);
  document.title = `${parts.firing ? `(${parts.firing}) ` : ""}${parts.what ? `${parts.what} · ` : ""}Quantide`;
}
