"""The curves about windows, and the figures that show them. Errors are fractions of eps * n, on a linear axis."""

from collections.abc import Iterable
from itertools import pairwise

from benchmarks.report import Report, Row
from characterization.curves import Curve, figure
from characterization.figures_history import grouped
from characterization.growth import Points
from characterization.windows_layout import BUILT, SHRUNK

WINDOWS = ("SlidingWindow", "RecentWindow")
RANDOM = ("uniform", "normal", "exponential")
ERROR, TUPLES, PAPER = "error / (eps n)", "tuples", "paper's bound"
STEPS = 32  # places on an axis of phis


def figures(report: Report) -> dict[str, str]:
    made = {
        "epsilons": figure(epsilon_curves(report), "Error and space by eps", 2),
        "sizes": figure(size_curves(report), "Error and space by the size of the window", 2),
        "parts": figure(part_curves(report), "Error by n of N", 2),
        "ranks": figure(rank_curves(report), "Error by phi, seven kinds of data", 2),
        "times": figure(time_curves(report), "Error by phi over spans of time", 2),
        "space": figure(space_curves(report), "Space by the longest span and by eps", 2),
    }
    return {f"windows-{name}.svg": text for name, text in made.items()}


def epsilon_curves(report: Report) -> list[Curve]:
    out = []
    for layout, rows in grouped(report.rows["epsilons"], "layout").items():
        what = f"{layout}, the last {rows[0]['size']:,}"
        out += [*_errors(f"error, {what}", "eps", rows), *_space(f"space, {what}", "eps", rows)]
    return out


def size_curves(report: Report) -> list[Curve]:
    out = []
    for layout, rows in grouped(report.rows["sizes"], "layout").items():
        out += [*_errors(f"error, {layout}", "size", rows), *_space(f"space, {layout}", "size", rows)]
    return out


def part_curves(report: Report) -> list[Curve]:
    out = []
    for layout, rows in grouped(report.rows["parts"], "layout").items():
        out += _errors(f"{layout}, N = {rows[0]['size']:,}", "n", rows)
    return out


def rank_curves(report: Report) -> list[Curve]:
    """Random and sorted kinds apart; the larger windows as they are built."""
    rows = [row for row in report.rows["ranks"] if row["layout"] == BUILT]
    out = []
    for window, some in grouped(rows, "window").items():
        kinds = grouped(some, "kind")
        for word, names in (("random", RANDOM), ("sorted", [kind for kind in kinds if kind not in RANDOM])):
            panel = f"{window}, {word}, mean"
            out += [
                Curve(panel, "phi", ERROR, kind, list(kinds).index(kind) % 6, coarse(kinds[kind]), linear="xy")
                for kind in names
            ]
    return out


def time_curves(report: Report) -> list[Curve]:
    """Figure 5: two spans, and other data; summaries alone, from the smaller layout."""
    rows = [row for row in report.rows["time_ranks"] if row["layout"] == SHRUNK]
    kinds = grouped(rows, "kind")
    spans = grouped(kinds["uniform"], "span")
    longest = max(row["span"] for row in rows)
    out = [
        Curve("uniform, two spans", "phi", ERROR, f"within {span} s", i, coarse(some), linear="xy")
        for i, (span, some) in enumerate(spans.items())
    ]
    for i, (kind, some) in enumerate(kinds.items(), 2):
        points = coarse([row for row in some if row["span"] == longest])
        out.append(Curve(f"other data, within {longest} s", "phi", ERROR, kind, i, points, linear="xy"))
    return out


def space_curves(report: Report) -> list[Curve]:
    """Figure 6."""
    out = []
    for panel, name, by in (("by the longest span", "ages", "age"), ("by eps", "time_epsilons", "eps")):
        for i, (layout, rows) in enumerate(grouped(report.rows[name], "layout").items()):
            bound = _points(rows, by, "paper_tuples") if layout == SHRUNK else ()
            out.append(Curve(panel, by, TUPLES, f"{layout}, most", i, _points(rows, by, "tuples"), bound, PAPER))
            out.append(Curve(panel, by, TUPLES, f"{layout}, mean", 2 + i, _points(rows, by, "mean_tuples")))
    return out


def coarse(rows: list[Row]) -> Points:
    """Means over neighbouring phis, so that the line can be followed."""
    points = _points(rows, "phi", "mean")
    places = sorted({round(i * len(points) / STEPS) for i in range(STEPS + 1)})
    groups = [points[first:end] for first, end in pairwise(places)]
    return [(sum(x for x, _ in some) / len(some), sum(y for _, y in some) / len(some)) for some in groups]


def _errors(panel: str, by: str, rows: Iterable[Row]) -> list[Curve]:
    return [
        Curve(panel, by, ERROR, f"{window}, {name}", 2 * i + j, _points(some, by, name), linear="y")
        for i, window in enumerate(WINDOWS)
        for j, name in enumerate(("mean", "worst"))
        if (some := [row for row in rows if row["window"] == window])
    ]


def _space(panel: str, by: str, rows: Iterable[Row]) -> list[Curve]:
    return [
        Curve(panel, by, TUPLES, window, 4 + i, _points(some, by, "tuples"), _points(some, by, "paper_tuples"), PAPER)
        for i, window in enumerate(WINDOWS)
        if (some := [row for row in rows if row["window"] == window])
    ]


def _points(rows: Iterable[Row], by: str, name: str) -> list[tuple[float, float]]:
    return [(row[by], row[name]) for row in rows]
