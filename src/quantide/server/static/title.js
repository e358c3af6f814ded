// The title of the page: what is looked at, and how many alarms fire, for those who have another page before them.

const told = { what: "", firing: 0 };

export function title(change) {
  Object.assign(told, change);
  document.title = `${told.firing ? `(${told.firing}) ` : ""}${told.what ? `${told.what} · ` : ""}Quantide`;
}
