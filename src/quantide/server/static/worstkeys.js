// Worst keys: the keys with the largest or smallest quantile of the selected window, with their proved bounds.
import { make, setOptions, setText } from "./dom.js";
import { createRefresher } from "./refresher.js";
import * as format from "./format.js";

const MIN_INTERVAL = 3000; // milliseconds between two requests
const MOST = 10; // keys that are listed
const PHIS = ["0.5", "0.9", "0.99", "0.999"];
const ENDS = [["largest", "largest"], ["smallest", "smallest"]];
const THIN = 0.5; // percent of a bar: a lighter end that is thinner cannot be seen
const CLICK = "A click shows the key above.";
const LIGHTER = "The lighter end of a bar is the proved range of the quantile. ";

export function mount(element, { api, state, streams, onCommit }) {
  const phi = make("select", { "aria-label": "Quantile to compare", change: again });
  const end = make("select", { "aria-label": "Largest or smallest", change: again });
  const note = make("p", { class: "hint" });
  const about = make("p", { class: "hint about" });
  const meant = make("p", { class: "hint" }, CLICK);
  const errorLine = make("p", { class: "error", role: "status" });
  const body = make("tbody");
  const heads = ["Key", "", "Value", "Proved between", "Position", "Values"];
  const table = make("table", { class: "table worst" }, make("caption", { class: "unseen" }, "Worst keys"));
  table.append(make("thead", {}, make("tr", {}, heads.map((text, i) => make("th", { scope: "col", class: i > 1 ? "num" : null }, text)))), body);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Worst keys" }, table);
  element.append(make("div", { class: "row" }, phi, end, about), errorLine, scroll, note, meant);
  setOptions(phi, PHIS.map((one) => [one, format.phi(Number(one))]), "0.99");
  setOptions(end, ENDS);
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);
  let shown = null; // the content of the rows

  function again() {
    refresher.refreshNow();
  }

  async function refresh() {
    const stream = streams.selected();
    if (!stream?.ready || !stream.key_columns?.length) return;
    const { window, filter } = state.get();
    setText(about, `of each key, ${format.window(window)}${filter ? `, only ${filter}` : ""}`);
    const query = { phi: phi.value, most: MOST, window, filter };
    if (end.value === "smallest") query.smallest = true;
    try {
      const found = await api.get(`/api/streams/${encodeURIComponent(stream.name)}/worst-keys`, query);
      if (state.get().stream !== found.stream) return;
      show(found);
      setText(errorLine, "");
    } catch (error) {
      body.replaceChildren();
      shown = null;
      setText(note, "");
      setText(errorLine, error.code === "empty" ? "No key has a value in this window." : error.message);
    }
  }

  function show(found) {
    const ends = found.listed.flatMap(({ low, high }) => [format.drawable(low), format.drawable(high)]);
    const scale = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const content = JSON.stringify([found.listed, state.get().key, streams.unit()]);
    if (content !== shown) replaceRows(found.listed, scale);
    shown = content;
    const widest = Math.max(...found.listed.map((row) => percentAt(row.high, scale) - percentAt(row.low, scale)));
    setText(meant, widest > THIN ? LIGHTER + CLICK : CLICK);
    const proved = found.listed.filter((row) => row.proved).length;
    const more = found.contenders ? ` ${format.counted(found.contenders, "more key")} may belong to them.` : "";
    const those = found.listed.length < found.most ? "" : `, ${proved} of them proved to be among the ${found.most} ${found.smallest ? "smallest" : "largest"}`;
    setText(note, `${found.listed.length} of ${format.counted(found.keys, "key")}${those}.${more}`);
  }

  // A row that is replaced loses the focus: return it to the same key.
  function replaceRows(listed, scale) {
    const focused = body.contains(document.activeElement) ? document.activeElement.textContent : null;
    const values = listed.map(({ value }) => value);
    body.replaceChildren(...listed.map((row) => line(row, scale, values)));
    if (focused === null) return;
    const buttons = [...body.querySelectorAll("button")];
    (buttons.find((button) => button.textContent === focused) ?? scroll).focus({ preventScroll: true });
  }

  function line(row, scale, values) {
    const { key } = row;
    const choose = () => state.set({ key });
    const name = make("button", { type: "button", class: "link", click: choose }, key === null ? "null" : format.key(key));
    const place = row.position_lo === row.position_hi ? `${row.position_lo}` : `${row.position_lo} to ${row.position_hi}`;
    const between = row.low === row.high ? "exact" : format.bounds(row.low, row.high).join(" and ") + streams.unit();
    const cells = [format.steady(row.value, values) + streams.unit(), between, place, format.count(row.n)];
    return make("tr", { "aria-current": same(key, state.get().key) ? "true" : null },
      make("th", { scope: "row" }, name),
      make("td", {}, bar(row, scale)),
      cells.map((text) => make("td", { class: "num" }, text)));
  }

  state.subscribe((_, changed) => ["stream", "window", "filter", "key"].some((name) => changed.has(name)) && again());
  streams.onChange(again);
  onCommit(refresher.schedule);
}

const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

const percentAt = (value, [least, most]) =>
  most === least ? 0 : ((format.drawable(value) - least) / (most - least)) * 100;

// A bar from zero to the value; the range of the bounds is drawn lighter.
function bar({ low, high, value }, scale) {
  const at = (v) => percentAt(v, scale);
  const whole = make("span", { class: "worst-bar", "aria-hidden": "true" });
  for (const [kind, from, to] of [["band", Math.min(at(0), at(low)), Math.max(at(0), at(high))], ["sure", Math.min(at(0), at(value)), Math.max(at(0), at(value))]]) {
    const piece = make("span", { class: kind });
    piece.style.left = `${from}%`;
    piece.style.width = `${to - from}%`;
    whole.append(piece);
  }
  return whole;
}
