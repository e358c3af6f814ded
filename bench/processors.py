"""Processors side by side: docs/results/processors.md.

Columns are the folders in docs/results/processors, written by `python -m bench ... --output FOLDER`.
"""

from pathlib import Path

from bench import rendering, tables
from bench.collection import DOCS, NotMeasuredError, Reports
from bench.papers import measure
from bench.report import Report

FOLDER = DOCS / "results" / "processors"


def read(folder: Path) -> dict[str, Report]:
    return {f"results/{path.stem}": Report.read(path) for path in sorted(folder.glob("*.json"))}


def column(reports: Reports) -> str:
    """Return the head of a column: the processor and the date of its first result."""
    first = reports["results/stream"].about
    off = ", np.sort without AVX-512" if first["machine"].get("numpy_disabled") else ""
    return f"{first['machine']['cpu']}{off}, {first['date'][:10]}"


def page() -> str:
    columns = [read(folder) for folder in sorted(FOLDER.iterdir())]
    body = []
    for line in (rendering.TEMPLATES / "processors.txt").read_text(encoding="utf-8").splitlines():
        text, bar, *formula = line.split(" | ")
        body.append([text, bar, *(cell(reports, *formula) for reports in columns)])
    table = tables.markdown(["", "bar", *map(column, columns)], body)
    return rendering.RENDERED.format(command="results") + rendering.render("results/processors.md", table=table)


def cell(reports: Reports, rows: str, value: str, shown: str) -> str:
    try:
        return measure(rows, value, shown, more=True, reports=reports)[1]
    except NotMeasuredError:
        return tables.DASH
