"""Headlines of five papers beside the stored results: docs/results/papers.md.

templates/papers.txt has a line for each paper (short name = citation = machine) and for each of its headlines: name,
section, the paper's words, the number compared (with > where more is better), its name, the measure with arguments,
and an explanation of a miss. The texts at hand are scans: where only a figure has a number, the words are given.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from bench import plots, rendering
from bench.history_load import loading_ratio
from bench.rendering import group
from bench.report import Report, Row
from bench.stored_reports import NotMeasuredError, Reports, select, settings
from bench.tables import DASH, power, ratio, seconds, size

FAST, LOADED, QUERIES = "results/fast", "results/history", "characterization/queries"
WINDOWS, HISTORY = "characterization/windows", "characterization/history"
SOURCES = (FAST, LOADED, WINDOWS, QUERIES, HISTORY)
VERDICTS, LEAST = ("passed", "equal", "missed", "not measured"), 1.1  # rates differ by as much from run to run
BUILT, DEFAULT = "as built", "CASU online"
Found = tuple[float, str, str]  # the number that is compared, its text, and the setting


@dataclass(frozen=True)
class Headline:
    """A headline: the paper's `number` is compared with `measure`; `more`: more is better; `why` explains a miss."""

    paper: str
    name: str
    where: str
    says: str
    number: float
    against: str
    measure: Callable[[Reports], Found]
    more: bool = False
    why: str = ""

    def line(self, reports: Reports) -> Row:
        """Return the headline with the measured value, its ratio and a verdict."""
        try:
            value, text, setting = self.measure(reports)
        except NotMeasuredError:
            return {**vars(self), "text": DASH, "setting": DASH, "number": None, "ratio": DASH, "verdict": VERDICTS[3]}
        times = value / self.number if self.more else self.number / value if value else math.inf
        verdict = "passed" if times >= LEAST else "missed" if times <= 1 / LEAST else "equal"
        shown = f"{times:.2g}" if times < 0.1 else ratio(times)
        return {**vars(self), "text": text, "setting": setting, "number": times, "ratio": shown, "verdict": verdict}


@cache
def read() -> tuple[dict[str, tuple[str, str]], list[Headline]]:
    """Return the papers, with citation and machine, and all headlines."""
    papers, headlines = dict[str, tuple[str, str]](), list[Headline]()
    for line in (rendering.TEMPLATES / "papers.txt").read_text(encoding="utf-8").splitlines():
        if " | " not in line:
            short, cited, machine = line.split(" = ")
            papers[short] = (cited, machine)
            continue
        name, where, says, number, against, call, *why = line.split(" | ")
        function, *arguments = call.split()
        measure = lambda reports, function=function, arguments=arguments: globals()[function](reports, *arguments)  # noqa: E731
        more = number.startswith(">")
        headlines.append(Headline(short, name, where, says, float(number.lstrip(">")), against, measure, more, *why))
    return papers, headlines


def render(reports: Reports) -> dict[str, str]:
    """Return the page and its figure by file name."""
    papers, headlines = read()
    lines = [headline.line(reports) for headline in headlines]
    counts = Counter(line["verdict"] for line in lines)
    told: Row = {"lines": lines, "least": LEAST, "orders": _orders(reports)}
    told["counted"] = ", ".join(f"{counts[word]} {word}" for word in VERDICTS if counts[word])
    own = group(lines, "paper")
    told["papers"] = [{"short": s, "cited": c, "machine": m, "lines": own[s]} for s, (c, m) in papers.items()]
    told["runs"] = [_run(name, reports[name]) for name in SOURCES if name in reports]
    drawn = [(f"{line['paper']}: {line['name']}", line["number"], line["verdict"]) for line in lines]
    figure = plots.ratios(
        [one for one in drawn if one[1] is not None and math.isfinite(one[1])], "Ratio to the paper, every headline"
    )
    page = rendering.RENDERED.format(command="results") + rendering.render("results/papers.md", **told)
    return {"papers.md": page, "papers.svg": figure}


def _run(name: str, report: Report) -> str:
    folder, part = name.split("/")
    joined = f"; **joined from several runs**: {report.about['joined']}" if "joined" in report.about else ""
    machine = report.about["machine"]["cpu"] if "machine" in report.about else DASH
    return f"[{name}]({part if folder == 'results' else f'../{name}'}.md): {report.about['date']}, {machine}{joined}"


def _orders(reports: Reports) -> list[Row]:
    try:
        pairs = [_kinds(reports, window) for window in ("SlidingWindow", "RecentWindow")]
    except NotMeasuredError:
        return []
    return [{"kind": a["kind"], "a": a, "b": b} for a, b in zip(*pairs, strict=True)]


def _range(ratios: list[float]) -> str:
    return " to ".join(dict.fromkeys(ratio(one) for one in (min(ratios), max(ratios))))


# FAST


def speedup(reports: Reports, order: str) -> Found:
    """Compare speed over GK01 by the size of the stream, at the smallest eps; the least counts."""
    eps = min(row["eps"] for row in select(reports, FAST, "times"))
    found = select(reports, FAST, "times", order=order, eps=eps)
    sizes, ratios = [row["n"] for row in found], [row["ratio"] for row in found]
    setting = f"n = {min(sizes):,} to {max(sizes):,}, eps = {eps:g}, {order}, float32"
    return min(ratios), f"{_range(ratios)} times the speed", setting


def speedup_at(reports: Reports, which: str) -> Found:
    """Compare speed on sorted and reversed input at the smallest (0) or the largest (-1) eps; the least counts."""
    eps = sorted({row["eps"] for row in select(reports, FAST, "times")})[int(which)]
    found = [row for row in select(reports, FAST, "times", eps=eps) if row["order"] in ("sorted", "reversed")]
    largest = max((row["n"] for row in found), default=0)
    ratios = [row["ratio"] for row in found if row["n"] == largest]
    if not ratios:
        raise NotMeasuredError(f"eps = {eps:g}")
    return min(ratios), f"{_range(ratios)} times the speed", f"n = {largest:,}, eps = {eps:g}, sorted and reversed"


def tightening(reports: Reports) -> Found:
    """Compare the time at the smallest eps with that at the largest, random input."""
    epsilons = sorted({row["eps"] for row in select(reports, FAST, "times")})
    tight, loose = (select(reports, FAST, "times", order="random", eps=eps)[-1] for eps in (epsilons[0], epsilons[-1]))
    value = tight["stream_s"] / loose["stream_s"]
    text = f"{ratio(value)} times the time"
    return value, text, f"n = {tight['n']:,}, eps = {loose['eps']:g} to {tight['eps']:g}, random"


def fast_bound(reports: Reports, n: str) -> Found:
    row = select(reports, FAST, "memory", n=int(n))[0]
    held = f", held {size(row['held_bytes'])}" if row["held_bytes"] else ""
    text = f"at most {size(row['bound_bytes'])}{held}"
    return row["bound_bytes"], text, f"n = {power(int(n))}, eps = 0.001, float32; the whole sketch"


# RECENT and CONSTRAINED: errors are in units of eps


def _kinds(reports: Reports, window: str) -> list[Row]:
    return select(reports, WINDOWS, "kinds", layout=BUILT, window=window)


def window_error(reports: Reports, window: str, column: str) -> Found:
    return _error(_kinds(reports, window), column, "kind")


def part_error(reports: Reports, part: str, by: str, *window: str) -> Found:
    return _error(
        select(reports, WINDOWS, part, layout=BUILT, **dict(zip(["window"], window, strict=False))), "worst", by
    )


def _error(found: list[Row], column: str, by: str) -> Found:
    worst = max(found, key=lambda row: float(row[column]))
    which = f"{worst[by]:,}" if isinstance(worst[by], int) else worst[by]
    kept = f"window of {worst['size']:,}" if "size" in worst else f"{worst['age']} s"
    text = f"{column} {worst[column]:.2f} eps ({which})"
    return worst[column], text, f"{kept}, eps = {worst['eps']:g}, {len(found)} settings"


def orders(reports: Reports, window: str) -> Found:
    """Compare the largest mean error of any order with the smallest."""
    first, *_, last = sorted(_kinds(reports, window), key=lambda row: float(row["mean"]))
    value = last["mean"] / first["mean"]
    return value, f"{ratio(value)} times ({last['kind']} over {first['kind']})", _window(first, "seven orders")


def _window(row: Row, what: str) -> str:
    return f"window of {row['size']:,}, eps = {row['eps']:g}, {what}"


def _space(found: list[Row], setting: str) -> Found:
    worst = max(found, key=lambda row: float(row["tuples"] / row["paper_tuples"]))
    return worst["tuples"] / worst["paper_tuples"], f"{worst['tuples']:,} values of {worst['paper_tuples']:,}", setting


def window_space(reports: Reports, window: str) -> Found:
    found = _kinds(reports, window)
    return _space(found, _window(found[0], "seven orders"))


def small_space(reports: Reports) -> Found:
    found = select(reports, WINDOWS, "sizes", layout=BUILT, window="SlidingWindow")
    worst = max(found, key=lambda row: float(row["tuples"] / row["paper_tuples"]))
    return _space([worst], _window(worst, "uniform"))


def span_space(reports: Reports) -> Found:
    found, s = select(reports, WINDOWS, "times", layout=BUILT), settings(reports, WINDOWS)
    return _space(found, f"{s['rate']} arrivals a second, {s['age']} s, eps = {found[0]['eps']:g}; raw values counted")


def span_growth(reports: Reports) -> Found:
    """Compare the growth of space with that of the span."""
    first, *_, last = select(reports, WINDOWS, "ages", layout=BUILT)
    grown, longer = last["tuples"] / first["tuples"], last["age"] / first["age"]
    setting = f"{first['age']} s to {last['age']} s, eps = {first['eps']:g}"
    return grown / longer, f"{ratio(grown)} times the tuples for {longer:g} times the span", setting


def filter_space(reports: Reports) -> Found:
    found = select(reports, WINDOWS, "filters", layout=BUILT)
    sizes = ", ".join(f"{row['size']:,}" for row in found)
    return _space(found, f"of the last {sizes}, {found[0]['passing']:g} pass, eps = {found[0]['eps']:g}")


def stream_rate(reports: Reports, batch: str) -> Found:
    s = settings(reports, WINDOWS)
    row = select(reports, WINDOWS, "updates", eps=s["time_eps"], batch=s[batch])[0]
    setting = f"{row['batch']:,} at once, eps = {row['eps']:g}, {s['age']} s stored"
    return row["values_per_s"], f"{row['values_per_s']:,} values a second", setting


# QUERIES: of several streams the worst


def _methods(reports: Reports, method: str, queries: int) -> list[Row]:
    return select(reports, QUERIES, "rows", method=method, queries=queries)


def _elements(reports: Reports) -> str:
    return f"{settings(reports, QUERIES)['elements']:,} elements one by one"


def instead_of_eager(reports: Reports, queries: str) -> Found:
    slowest, eager = (
        max(rows, key=lambda row: float(row["seconds"]))
        for rows in (_methods(reports, DEFAULT, int(queries)), select(reports, QUERIES, "eager", queries=int(queries)))
    )
    text = f"{seconds(slowest['seconds'])}; eager here {eager['seconds'] / 3600:.1f} h, projected"
    return slowest["seconds"], text, f"{_elements(reports)}, {int(queries):,} queries, {DEFAULT}"


def query_growth(reports: Reports) -> Found:
    """Compare the growth of time with that of the queries."""
    counts = settings(reports, QUERIES)["queries"]
    few, many = (max(row["seconds"] for row in _methods(reports, DEFAULT, n)) for n in (counts[0], counts[-1]))
    more = counts[-1] / counts[0]
    text = f"{ratio(many / few)} times the time for {more:,.0f} times the queries: {seconds(many)}"
    return many / few / more, text, f"{_elements(reports)}, {counts[0]:,} to {counts[-1]:,} queries, {DEFAULT}"


def _pair(reports: Reports, one: str, other: str, queries: int, column: str) -> tuple[Row, Row]:
    """Return the rows of two methods for the stream with the smallest ratio."""
    pairs = zip(_methods(reports, one, queries), _methods(reports, other, queries), strict=True)
    return min(pairs, key=lambda pair: float(pair[0][column] / pair[1][column]))


def synchronous(reports: Reports, column: str) -> Found:
    most = settings(reports, QUERIES)["queries"][-1]
    csu, casu = _pair(reports, "CSU QC-A", "CASU QC-A", most, column)
    a, b = (seconds(row[column]) if column == "seconds" else f"{row[column]:,}" for row in (csu, casu))
    text = f"CSU {a}, CASU {b}"
    return csu[column] / casu[column], text, f"{_elements(reports)}, {most:,} queries, QC-A, {csu['stream']}"


def clustering(reports: Reports) -> Found:
    most = max(row["queries"] for row in select(reports, QUERIES, "rows", method="SU"))
    su, csu = _pair(reports, "SU", "CSU QC-A", most, "seconds")
    text = f"SU {seconds(su['seconds'])}, CSU {seconds(csu['seconds'])}"
    return su["seconds"] / csu["seconds"], text, f"{_elements(reports)}, {most:,} queries, QC-A, {su['stream']}"


def clusters(reports: Reports) -> Found:
    s = settings(reports, QUERIES)
    bound = 1 / (2 * (s["precision"][0] - s["eps"]))
    made = max(row["clusters"] for row in _methods(reports, "CASU QC-B", s["queries"][-1]))
    return made / bound, f"{made:,} clusters of {bound:,.0f}", f"{s['queries'][-1]:,} queries, eps = {s['eps']:g}"


def evaluations(reports: Reports) -> Found:
    worst = max(select(reports, QUERIES, "growth"), key=lambda row: float(row["evaluations"] / row["bound"]))
    setting = f"{settings(reports, QUERIES)['growth_queries']:,} queries, {worst['n']:,} elements, {worst['stream']}"
    return worst["evaluations"] / worst["bound"], f"{worst['evaluations']:,} of {worst['bound']:,}", setting


# HISTORY


def _against(reports: Reports, column: str, one: str, other: str) -> list[float]:
    """Return one method's values over another's, for every data and memory where that is not 0."""
    found = [select(reports, HISTORY, "memory", method=method) for method in (one, other)]
    return [a[column] / b[column] for a, b in zip(*found, strict=True) if b[column]]


def _steps(reports: Reports, values: str = "small_values") -> str:
    s = settings(reports, HISTORY)
    return f"{s['steps']} steps of {s[values]:,} values"


def _budgets(reports: Reports) -> str:
    budgets = settings(reports, HISTORY)["memories"]
    return f"{_steps(reports)}, {size(budgets[0])} to {size(budgets[-1])}, four kinds of data"


def accuracy(reports: Reports, peer: str) -> Found:
    ratios = _against(reports, "mean_error", peer, "accurate")
    return min(ratios), f"{_range(ratios)} times", _budgets(reports)


def quick_error(reports: Reports) -> Found:
    ratios = _against(reports, "mean_error", "quick", "q-digest")
    return max(ratios), f"{_range(ratios)} times the error of q-digest", _budgets(reports)


def query_time(reports: Reports) -> Found:
    ratios = _against(reports, "seconds", "accurate", "GK")
    slowest = max(row["seconds"] for row in select(reports, HISTORY, "memory", method="accurate"))
    return max(ratios), f"{_range(ratios)} times, {seconds(slowest)} at most", _budgets(reports)


def step_time(reports: Reports) -> Found:
    """Compare a step with the same step with GK, or q-digest, in place of sorting and summaries."""
    shared, found = ("load", "merge", "commit"), select(reports, HISTORY, "memory_updates")

    def total(row: Row, *names: str) -> float:
        return sum(float(row[name]) for name in (*shared, *names))

    ratios = {
        peer: max(total(row, "sort", "summary") / total(row, peer) for row in found) for peer in ("GK", "q-digest")
    }
    text = ", ".join(f"{ratio(one)} times with {peer}" for peer, one in ratios.items())
    return max(ratios.values()), text, f"{_steps(reports)}; most of either is the commit"


def loading(reports: Reports) -> Found:
    select(reports, LOADED, "steps")
    s, times = settings(reports, LOADED), loading_ratio(reports[LOADED])
    text = f"{ratio(times)} times a plain write"
    return times, text, f"{s['steps']} steps of {s['step_values']:,} values, merges included"


def block_reads(reports: Reports) -> Found:
    row = select(reports, LOADED, "asked")[0]
    text = f"at most {row['accurate_most_reads']} blocks, {seconds(row['accurate_median'])}"
    return row["accurate_most_reads"], text, f"{row['values']:,} values, {size(row['bytes'])} on disk"


def without_merge(reports: Reports) -> Found:
    found = sorted(select(reports, HISTORY, "accesses", kappa=10), key=lambda row: int(row["blocks"]))
    percent = 100 * found[0]["steps"] / sum(row["steps"] for row in found)
    return percent, f"{percent:.0f} percent", f"kappa = 10, {_steps(reports, 'step_values')}"


def largest_step(reports: Reports) -> Found:
    blocks = [row["blocks"] for row in select(reports, HISTORY, "accesses", kappa=9)]
    value = max(blocks) / min(blocks)
    text = f"{max(blocks):,} blocks over {min(blocks)}: {ratio(value)}"
    return value, text, f"kappa = 9, {_steps(reports, 'step_values')}"


def error_by_kappa(reports: Reports) -> Found:
    found = select(reports, HISTORY, "data_kappas", mode="accurate")
    errors = [[row["mean_error"] for row in rows] for rows in group(found, "data").values()]
    value, kappas = max(max(some) / min(some) for some in errors if min(some)), [row["kappa"] for row in found]
    return value, f"{ratio(value)} times", f"kappa = {min(kappas)} to {max(kappas)}"


def spans(reports: Reports, kappa: str) -> Found:
    found = select(reports, HISTORY, "spans", kappa=int(kappa))
    steps = [row["last_steps"].split() for row in found]
    text = f"{len(steps[-1])}: {', '.join(steps[-1])}; {max(map(len, steps))} after other steps"
    return len(steps[-1]), text, f"kappa = {kappa}, after {found[-1]['step']} steps"


def growth(reports: Reports, part: str, column: str, unit: str) -> Found:
    """Compare the largest history (or stream) with the first that has as many runs."""
    found, values = select(reports, HISTORY, part), "values" if part == "history" else "stream"
    last = found[-1]
    first = next(row for row in found if row["runs"] == last["runs"])
    setting = f"{first[values]:,} to {last[values]:,} values, {last['runs']} runs"
    return last[column] / first[column], f"{first[column]:,.0f} and {last[column]:,.0f} {unit}", setting


def stream_error(reports: Reports) -> Found:
    """Compare the certified error when the stream doubles for the last time."""
    before, last = select(reports, HISTORY, "stream")[-2:]
    more, (a, b) = last["stream"] / before["stream"], (row["accurate_certified"] for row in (before, last))
    text = f"{a:,.0f} to {b:,.0f} ranks for {more:g} times the values"
    return b / a / more, text, f"{before['stream']:,} to {last['stream']:,} values in the open step"
