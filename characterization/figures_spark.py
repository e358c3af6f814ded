"""The curves about Spark, and the figures that show them."""

from benchmarks.report import Report, Row
from characterization.curves import Curve, figure
from characterization.growth import Points


def figures(report: Report) -> dict[str, str]:
    grown = "Time of a question and memory of its tasks, by rows, files and keys, logarithmic axes"
    tasks = "Memory of one task by the rows it reads, measured and stated, logarithmic axes"
    return {"spark.svg": figure(curves(report), grown), "spark-tasks.svg": figure(task_curves(report), tasks)}


def curves(report: Report) -> list[Curve]:
    """By rows, files and keys, panel by panel."""
    rows, files, keys = (report.rows[name] for name in ("rows", "files", "keys"))
    kinds = {kind: [row for row in rows if kind_of(row) == kind] for kind in map(kind_of, rows)}
    by_rows = list(enumerate(kinds.items()))
    whole, keyed, merging = kind_of({"keys": 0}), "by keys", "by keys, merging"
    return [
        *(Curve("time by rows", "rows", "seconds", kind, i, _seconds(some, "rows")) for i, (kind, some) in by_rows),
        Curve("time by files", "files", "seconds", whole, 0, _seconds(files, "files")),
        Curve("time by keys", "keys", "seconds", keyed, 2, _seconds(keys, "keys")),
        *(_memory("memory of a task by rows", "rows", kind, i, some) for i, (kind, some) in by_rows),
        _memory("memory of a task by keys", "keys", keyed, 2, keys),
        _memory("memory of a task by keys", "keys", merging, 3, keys, "merge_"),
        Curve("bytes that leave a task by keys", "keys", "MB", keyed, 2, _megabytes(keys, "keys", "left")),
    ]


def task_curves(report: Report) -> list[Curve]:
    """A panel for each kind of rows."""
    rows = report.rows["tasks"]
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return [_memory(kind, "rows", "a task", 0, [row for row in rows if row["kind"] == kind]) for kind in kinds]


def kind_of(row: Row) -> str:
    return f"{row['keys']:,} keys" if row["keys"] else "no keys"


def _memory(panel: str, by: str, name: str, colour: int, rows: list[Row], prefix: str = "") -> Curve:
    peak, stated = (_megabytes(rows, by, prefix + column) for column in ("peak", "stated"))
    return Curve(panel, by, "MB", name, colour, peak, stated)


def _seconds(rows: list[Row], by: str) -> Points:
    return [(row[by], row["seconds"]) for row in rows]


def _megabytes(rows: list[Row], by: str, column: str) -> Points:
    """At least a page: logarithms know no zero."""
    return [(row[by], max(row[column], 4096) / 1e6) for row in rows]
