// Panel of worst keys: keys with the largest or smallest quantile in the selected window, with proved bounds.
import { make, setOptions, setText } from "./dom.js";
import { createRefresher } from "./refresher.js";
import { isSelectable, sameKey } from "./series.js";
import * as format from "./format.js";

const MIN_INTERVAL = 3000; // milliseconds between two requests
const MAX_KEYS = 10; // that are listed
const PHIS = ["0.5", "0.9", "0.99", "0.999"];
const ENDS = [["largest", "largest"], ["smallest", "smallest"]];
const MIN_PERCENT = 0.5; // of the width of a bar: a thinner lighter end is invisible
const CLICK_HINT = "A click shows the key above.";
const BAND_HINT = "The lighter end of a bar is the proved range of the quantile. ";

export function mount(element, { api, state, streams, onCommit }) {
  const phi = make("select", { "aria-label": "Quantile to compare", change: refreshNow });
  const end = make("select", { "aria-label": "Largest or smallest", change: refreshNow });
  const note = make("p", { class: "hint" });
  const scopeLine = make("p", { class: "hint about" });
  const hint = make("p", { class: "hint" }, CLICK_HINT);
  const errorLine = make("p", { class: "error", role: "status" });
  const tableBody = make("tbody");
  const heads = ["Key", "", "Value", "Proved between", "Position", "Values"];
  const table = make("table", { class: "table worst" }, make("caption", { class: "unseen" }, "Worst keys"));
  table.append(make("thead", {}, make("tr", {}, heads.map((text, i) => make("th", { scope: "col", class: i > 1 ? "num" : null }, text)))), tableBody);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Worst keys" }, table);
  element.append(make("div", { class: "row" }, phi, end, scopeLine), errorLine, scroll, note, hint);
  setOptions(phi, PHIS.map((one) => [one, format.phi(Number(one))]), "0.99");
  setOptions(end, ENDS);
  const refresher = createRefresher(element, refresh, MIN_INTERVAL);
  let shownContent = null; // of the rows

  function refreshNow() {
    refresher.refreshNow();
  }

  async function refresh() {
    const stream = streams.selected();
    if (!stream?.ready || !stream.key_columns?.length) return;
    const { window, filter } = state.get();
    setText(scopeLine, `of each key, ${format.window(window)}${filter ? `, only ${filter}` : ""}`);
    const query = { phi: phi.value, most: MAX_KEYS, window, filter };
    if (end.value === "smallest") query.smallest = true;
    try {
      const result = await api.get(`/api/streams/${encodeURIComponent(stream.name)}/worst-keys`, query);
      if (state.get().stream !== result.stream) return;
      show(result);
      setText(errorLine, "");
    } catch (error) {
      tableBody.replaceChildren();
      shownContent = null;
      setText(note, "");
      setText(errorLine, error.code === "empty" ? "No key has a value in this window." : error.message);
    }
  }

  function show(result) {
    const bounds = result.listed.flatMap(({ low, high }) => [format.drawable(low), format.drawable(high)]);
    const scale = [Math.min(0, ...bounds), Math.max(0, ...bounds)];
    const content = JSON.stringify([result.listed, state.get().key, streams.unit()]);
    if (content !== shownContent) replaceRows(result.listed, scale);
    shownContent = content;
    const widestBand = Math.max(...result.listed.map((row) => percentAt(row.high, scale) - percentAt(row.low, scale)));
    setText(hint, widestBand > MIN_PERCENT ? BAND_HINT + CLICK_HINT : CLICK_HINT);
    const proved = result.listed.filter((row) => row.proved).length;
    const contenders = result.contenders ? ` ${format.counted(result.contenders, "more key")} may belong to them.` : "";
    const provedNote = result.listed.length < result.most ? "" : `, ${proved} of them proved to be among the ${result.most} ${result.smallest ? "smallest" : "largest"}`;
    setText(note, `${result.listed.length} of ${format.counted(result.keys, "key")}${provedNote}.${contenders}`);
  }

  // Replacing a row loses the focus: restore it to the same key.
  function replaceRows(listed, scale) {
    const focused = tableBody.contains(document.activeElement) ? document.activeElement.textContent : null;
    const values = listed.map(({ value }) => value);
    tableBody.replaceChildren(...listed.map((row) => makeRow(row, scale, values)));
    if (focused === null) return;
    const buttons = [...tableBody.querySelectorAll("button")];
    (buttons.find((button) => button.textContent === focused) ?? scroll).focus({ preventScroll: true });
  }

  function makeRow(row, scale, values) {
    const { key } = row;
    const selectKey = () => state.set({ key });
    const label = format.key([key].flat().map((part) => part ?? "null"));
    const name = isSelectable(key) ? make("button", { type: "button", class: "link", click: selectKey }, label) : label;
    const position = row.position_lo === row.position_hi ? `${row.position_lo}` : `${row.position_lo} to ${row.position_hi}`;
    const between = row.low === row.high ? "exact" : format.bounds(row.low, row.high).join(" and ") + streams.unit();
    const cells = [format.steady(row.value, values) + streams.unit(), between, position, format.count(row.n)];
    return make("tr", { "aria-current": isSelectable(key) && sameKey(key, state.get().key) ? "true" : null },
      make("th", { scope: "row" }, name),
      make("td", {}, bar(row, scale)),
      cells.map((text) => make("td", { class: "num" }, text)));
  }

  state.subscribe(
    (_, changed) => ["stream", "window", "filter", "key"].some((name) => changed.has(name)) && refreshNow(),
  );
  streams.onChange(refreshNow);
  onCommit(refresher.schedule);
}

const percentAt = (value, [least, most]) =>
  most === least ? 0 : ((format.drawable(value) - least) / (most - least)) * 100;

// A bar from zero to the value; the range of the bounds is drawn lighter.
function bar({ low, high, value }, scale) {
  const percent = (v) => percentAt(v, scale);
  const element = make("span", { class: "worst-bar", "aria-hidden": "true" });
  for (const [kind, from, to] of [["band", Math.min(percent(0), percent(low)), Math.max(percent(0), percent(high))], ["sure", Math.min(percent(0), percent(value)), Math.max(percent(0), percent(value))]]) {
    const piece = make("span", { class: kind });
    piece.style.left = `${from}%`;
    piece.style.width = `${to - from}%`;
    element.append(piece);
  }
  return element;
}
