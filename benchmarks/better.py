"""Where a peer is better than we are, found in the rows of a report."""

from collections.abc import Callable, Iterable, Iterator

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report, Row

KEPT = """An engine that keeps all rows can be asked what nobody thought of before: any filter, any join, any key,
    exactly. Ours keeps summaries, and history for what its streams declare."""
SPREAD = """DataSketches has the same sketches, and the same bytes, in Java, C++ and Python; Spark, DuckDB
    and ClickHouse run on clusters or on laptops of every kind. Ours is Python on Linux."""


def told(report: Report) -> str:
    return "\n".join(f"- {prose(line)}" for line in (*_found(report), KEPT, SPREAD))


def _found(report: Report) -> Iterator[str]:
    rows = report.rows
    for name in ("random", "heavy"):
        found = [row for row in rows.get("column", []) if row["input"] == name]
        if found:
            yield from _column(name, found)
    if rows.get("merge"):
        yield _than(rows["merge"], "Merging takes less time", lambda row: row["seconds"], _seconds)
    if rows.get("windows"):
        yield from _windows(rows["windows"])
    if rows.get("groups"):
        yield _than(rows["groups"], "Groups are faster", lambda row: row["seconds"], _seconds)
    if rows.get("spark"):
        yield _than(rows["spark"], "On Spark, faster", lambda row: row["seconds"], _seconds)


def _column(name: str, rows: list[Row]) -> Iterator[str]:
    whole = [row for row in rows if row["n"] == rows[0]["n"]]
    yield _than(whole, f"Speed, {name} column", lambda row: -row["values_per_s"], _rate)
    held = [row for row in rows if row["bytes"]]
    yield _than(
        held, f"Smaller in memory, {name} column", lambda row: row["bytes"], lambda row: table.size(row["bytes"])
    )
    stated = [row for row in rows if row["guarantee"] != "exact"]
    yield _than(
        stated, f"Error found, approximate methods, {name} column", _get("observed_error"), _plain("observed_error")
    )
    tail = "observed_tail_error"
    yield _than(stated, f"The same in the tail, from p99 on, {name} column", _get(tail), _plain(tail))
    of_values = "observed_value_error"
    yield _than(stated, f"Error of values, {name} column", _get(of_values), lambda row: f"{row[of_values]:.2g}")


def _windows(rows: list[Row]) -> Iterator[str]:
    for asked in ("every value", "every block"):
        found = [row for row in rows if row["asked"] == asked]
        ours = max(row["values_per_s"] for row in found if row["method"].endswith("Window"))
        first = next(row for row in found if row["values_per_s"] == ours)
        others = [first, *(row for row in found if not row["method"].endswith("Window"))]
        yield _than(others, f"Windows asked after {asked}", lambda row: -row["values_per_s"], _rate)


def _than(rows: Iterable[Row], title: str, key: Callable[[Row], float], show: Callable[[Row], str]) -> str:
    """Those that come before the first row, which is ours, best first."""
    ours, *others = rows
    ahead = sorted((row for row in others if key(row) < key(ours)), key=key)
    names = ", ".join(f"{named(row)} ({show(row)})" for row in ahead)
    return f"{title}, ours {show(ours)}: {names or 'none in this run'}."


def named(row: Row) -> str:
    """With the size where there are two of a name."""
    return f"{row['method']} {row['setting']}" if row["method"] == "t-digest" else str(row["method"])


def _get(name: str) -> Callable[[Row], float]:
    return lambda row: float(row[name])


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: table.plain(row[name])


def _rate(row: Row) -> str:
    return f"{table.millions(row['values_per_s'])} M/s"


def _seconds(row: Row) -> str:
    return table.seconds(row["seconds"])
