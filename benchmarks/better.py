"""Where a peer is better than we are, found in the rows of a report."""

from collections.abc import Callable, Iterable, Iterator

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report, Row

KEPT = """An engine that keeps all rows can be asked what nobody thought of before: any filter, any join, any key,
    exactly. Ours keeps summaries, and history for what its streams declare."""
SPREAD = """DataSketches has the same sketches, and the same bytes, in Java, C++ and Python; Spark, DuckDB and
    ClickHouse run on clusters or on laptops of every kind. Ours is Python on Linux."""

SPEED = "Who has the column in memory and wants a few numbers once needs no sketch: exact engines are fast."
SIZE = "Others hold less: ours keeps whole blocks, to be fast."
TAIL = "REQ and t-digest spend their precision on the tails, ours the same everywhere."
VALUES = "Ours bounds ranks; DDSketch bounds values."

FEW = ("river P2",)  # three phis


def told(report: Report) -> str:
    return "\n".join(f"- {prose(line)}" for line in (*_found(report), KEPT, SPREAD))


def _found(report: Report) -> Iterator[str]:
    rows = report.rows
    if rows.get("column"):
        yield from _column(rows["column"])
    if rows.get("merge"):
        yield _than(rows["merge"], "Merging, time", _get("seconds"), _seconds)
    if rows.get("windows"):
        yield from _windows(rows["windows"])
    if rows.get("groups"):
        yield _than(rows["groups"], "By key, time", _get("seconds"), _seconds)
    if rows.get("spark"):
        yield _than(rows["spark"], "On Spark, time", _get("seconds"), _seconds)


def _column(rows: list[Row]) -> Iterator[str]:
    """Each topic, on every input."""
    inputs = {
        name: [row for row in rows if row["input"] == name] for name in dict.fromkeys(row["input"] for row in rows)
    }
    held = [row for row in rows if row["bytes"] and row["input"] == rows[0]["input"]]
    topics = (
        (SPEED, "values a second", lambda row: row["n"] == rows[0]["n"], lambda row: -row["values_per_s"], _rate),
        (TAIL, "error from p99 on", _comparable, _get("observed_tail_error"), _plain("observed_tail_error")),
        (VALUES, "error of values", _comparable, _get("observed_value_error"), _short("observed_value_error")),
    )
    yield _than(held, f"{SIZE} Held ({table.size(rows[0]['stored_bytes'])} when ours is stored)", _get("bytes"), _bytes)
    for lead, what, wanted, key, show in topics:
        told = [
            _than(filter(wanted, found), f"{name.capitalize()}, {what}", key, show) for name, found in inputs.items()
        ]
        yield " ".join([lead, *told])


def _comparable(row: Row) -> bool:
    """Approximate, and checked at as many phis as ours."""
    return row["guarantee"] != "exact" and row["method"] not in FEW


def _windows(rows: list[Row]) -> Iterator[str]:
    for asked in ("every value", "every block"):
        found = [row for row in rows if row["asked"] == asked]
        ours = max((row for row in found if row["method"].endswith("Window")), key=_get("values_per_s"))
        others = [ours, *(row for row in found if not row["method"].endswith("Window"))]
        yield _than(others, f"Windows asked after {asked}, values a second", lambda row: -row["values_per_s"], _rate)


def _than(rows: Iterable[Row], title: str, key: Callable[[Row], float], show: Callable[[Row], str]) -> str:
    """Those that come before the first row, which is ours, best first."""
    ours, *others = rows
    ahead = sorted((row for row in others if key(row) < key(ours)), key=key)
    names = ", ".join(f"{named(row)} ({show(row)})" for row in ahead)
    return f"{title}, ours {show(ours)}; better: {names or 'none in this run'}."


def named(row: Row) -> str:
    """With the size where there are two of a name."""
    return f"{row['method']} {row['setting']}" if row["method"] == "t-digest" else str(row["method"])


def _get(name: str) -> Callable[[Row], float]:
    return lambda row: float(row[name])


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: table.plain(row[name])


def _short(name: str) -> Callable[[Row], str]:
    return lambda row: f"{row[name]:.2g}"


def _rate(row: Row) -> str:
    return f"{row['values_per_s']:,}" if row["values_per_s"] < 1e6 else f"{table.millions(row['values_per_s'])} M"


def _bytes(row: Row) -> str:
    return table.size(row["bytes"])


def _seconds(row: Row) -> str:
    return table.seconds(row["seconds"])
