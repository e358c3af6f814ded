"""The page about Spark: tables and words. Its figures are in figures_spark.py."""

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report, Row
from characterization.curves import Curve
from characterization.figures_spark import curves, figures, kind_of
from characterization.growth import exponent, last_exponent, last_step

__all__ = ["figures", "headlines", "render"]

TASK = ("memory of a task", "stated", "left")
HOW = """`quantiles` of two phis on Parquet files of random float64: eps = {eps:g} without keys, {keys_eps:g} with.
    Time is that of the whole question on Spark local[{cores}], everything warm, best of {rounds} rounds. Memory is what
    one task needs beyond the {base} that Python takes with everything loaded: the functions that Spark sends to its
    tasks, run in a process of their own, resident bytes at the worst moment. Stated: what the rules in
    [docs/spark.md](../spark.md), which were found by measuring, give for the same task. Left: bytes that leave it."""
GROWTH = """The exponent c of y ~ x^c (0: does not grow; 1: grows in proportion), over the whole range and between the
    last two points; and what one more costs there, which leaves out what every question costs."""
FILES = """{files_rows:,} rows, without keys. Small files are packed into tasks of at least 8 MB."""
KEYS = """{keys_rows:,} rows in one file, int64 keys. The last three columns are of the task that merges most:
    bytes that come to it, and its memory."""
TASKS = """One task that reads more and more rows, as far as they fit the largest split. All values are different, or
    there are only {few_values}: Parquet packs those into a few bits each, memory does not. One file with row groups of
    {group:,} rows, or small files of {group:,} rows."""


def render(report: Report) -> str:
    base = table.size(max(row["base"] for row in report.rows["tasks"]))
    parts = [
        "# Percentiles of a lake: how they grow",
        prose(HOW.format(base=base, **report.settings)),
        "![Time and memory by rows, files and keys](spark.svg)",
        prose(GROWTH),
        growth_table(report),
        "## Rows",
        rows_table(report),
        "## Files",
        prose(FILES.format(**report.settings)),
        files_table(report),
        "## Keys",
        prose(KEYS.format(**report.settings)),
        keys_table(report),
        "## What a task holds",
        prose(TASKS.format(**report.settings)),
        "![Memory of a task by its rows](spark-tasks.svg)",
        tasks_table(report),
    ]
    return "\n\n".join(part.strip("\n") for part in parts)


def headlines(report: Report) -> list[str]:
    times = [curve for curve in curves(report) if curve.unit == "seconds"]
    most = max(row["rows"] for row in report.rows["rows"])
    usual = [row for row in report.rows["rows"] if row["rows"] == most]
    worst = max(report.rows["tasks"], key=lambda row: int(row["peak"]))
    return [
        *(
            f"{_one_more(c)} for each further {c.by.removesuffix('s')} at the end of {_range(c)}, {c.name}"
            for c in times
        ),
        *(f"{table.size(row['peak'])} in a task of {most:,} rows in all, {kind_of(row)}" for row in usual),
        f"{table.size(worst['peak'])} in the worst task found: {worst['rows']:,} rows, {worst['kind']}",
    ]


def growth_table(report: Report) -> str:
    body = [
        [c.panel, c.name, _range(c), f"{exponent(c.points):.2f}", f"{last_exponent(c.points):.2f}", _one_more(c)]
        for c in curves(report)
    ]
    return table.markdown(["what", "of", "range", "exponent", "at the end", "one more costs"], body)


def rows_table(report: Report) -> str:
    body = [
        [kind_of(row), f"{row['rows']:,}", table.seconds(row["seconds"]), f"{row['tasks']:,}", *_task(row)]
        for row in sorted(report.rows["rows"], key=lambda row: (row["keys"], row["rows"]))
    ]
    return table.markdown(["question", "rows", "time", "tasks", *TASK], body)


def files_table(report: Report) -> str:
    rows = report.rows["files"]
    body = [[f"{row['files']:,}", table.seconds(row["seconds"]), f"{row['tasks']:,}"] for row in rows]
    return table.markdown(["files", "time", "tasks"], body)


def keys_table(report: Report) -> str:
    body = [
        [
            *(f"{row['keys']:,}", table.seconds(row["seconds"]), f"{row['tasks']:,}", *_task(row)),
            *(table.size(row[f"merge_{name}"]) for name in ("came", "peak", "stated")),
        ]
        for row in report.rows["keys"]
    ]
    return table.markdown(["keys", "time", "tasks", *TASK, "came", "memory of a merge", "stated"], body)


def tasks_table(report: Report) -> str:
    body = [[row["kind"], f"{row['rows']:,}", *_task(row)] for row in report.rows["tasks"]]
    return table.markdown(["rows of", "rows", *TASK], body)


def _task(row: Row) -> list[str]:
    return [table.size(row[name]) for name in ("peak", "stated", "left")]


def _one_more(curve: Curve) -> str:
    step = last_step(curve.points)
    if curve.unit == "MB":
        return f"{step * 1e6:,.1f} B"
    return f"{step * 1e6:,.1f} us" if step >= 1e-6 else f"{step * 1e9:,.1f} ns"


def _range(curve: Curve) -> str:
    return f"{curve.points[0][0]:,.0f} to {curve.points[-1][0]:,.0f} {curve.by}"
