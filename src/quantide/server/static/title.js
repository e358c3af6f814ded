// Title of the page: the selection, and the number of firing alarms, visible from other tabs.

const told = { what: "", firing: 0 };

export function title(change) {
  Object.assign(told, change);
  document.title = `${told.firing ? `(${told.firing}) ` : ""}${told.what ? `${told.what} · ` : ""}Quantide`;
}
