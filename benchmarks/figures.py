"""The figures that hand-written documents tell, by the names that stand in their marks (see documents.py)."""

import math
from collections.abc import Callable

from benchmarks import page_readme, table
from benchmarks.report import Row
from benchmarks.stored import Reports, rows
from quantide import StreamSketch


def measured(reports: Reports) -> str:
    """The table of the README, on lines of its own."""
    own = {part: reports[f"results/{part}"] for part in page_readme.PARTS if f"results/{part}" in reports}
    return f"\n\n{page_readme.figures(own)}\n"


def cores(reports: Reports) -> str:
    return f"{next(iter(reports.values())).about['machine']['cores']} cores"


def stream_ask(reports: Reports) -> str:
    row = _stream(reports, "StreamSketch")
    return f"{table.seconds(row['ask_all_s'])} for many phis together at eps = {row['eps']:g}"


def stream_sort(reports: Reports) -> str:
    ours, sort = (_stream(reports, name)["values_per_s"] for name in ("StreamSketch", "np.sort 64K"))
    return f"{table.ratio(ours / sort)} times the speed of sorting blocks alone"


def windows_held(reports: Reports) -> str:
    found = rows(reports, "results/windows", "space", window="RecentWindow")
    return " and ".join(f"{row['tuples']:,} at eps = {row['eps']:g}" for row in found)


def windows_of(reports: Reports) -> str:
    return table.power(rows(reports, "results/windows", "space", window="RecentWindow")[0]["size"])


def buckets_held(reports: Reports) -> str:
    """By the formula of docs/guarantees/windows.md, for the windows that were measured."""
    told = []
    for row in rows(reports, "results/windows", "space", window="RecentWindow"):
        eps, n = row["eps"], row["size"]
        least = 2 / eps * math.log(eps * n / 2) * 0.67 / eps
        told.append(f"{_two_digits(least)} to {_two_digits(2 * least)} at eps = {eps:g}")
    return " and ".join(told)


def queries_ratio(reports: Reports) -> str:
    row = rows(reports, "results/queries", "stream")[0]
    return f"{table.ratio(row['ratio'])} times the time"


def levels_reach(reports: Reports) -> str:
    """Values that levels 0 to 5 stand for when they are full."""
    return f"{StreamSketch(0.001).leaf * 8**6 / 1e9:.0f} billion"


def task(name: str) -> Callable[[Reports], str]:
    """What characterization holds tasks of Spark to, which is what docs/spark.md states."""

    def told(reports: Reports) -> str:
        from characterization import spark_bound  # needs Spark, which those who read the figures alone may not have

        value = int(getattr(spark_bound, name))
        return f"{value / 1e6:.0f} MB" if value >= 1e6 else str(value)

    return told


FIGURES: dict[str, Callable[[Reports], str]] = {
    "measured": measured,
    "cores": cores,
    "stream-ask": stream_ask,
    "stream-sort": stream_sort,
    "levels-reach": levels_reach,
    "windows-held": windows_held,
    "windows-of": windows_of,
    "buckets-held": buckets_held,
    "queries-ratio": queries_ratio,
    **{f"task-{name.lower()}": task(name) for name in ("LITTLE", "READ", "GROUPED", "MERGED", "VALUE", "KEY", "MET")},
}


def _stream(reports: Reports, method: str) -> Row:
    found = rows(reports, "results/stream", "rows", type="float64", order="random", method=method)
    return next(row for row in found if row["eps"] in (0.001, None))


def _two_digits(value: float) -> str:
    step = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{round(value / step) * step:,}"
