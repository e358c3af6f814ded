"""The plots of the page against today's peers."""

from benchmarks import plot_names
from benchmarks.better import named
from benchmarks.page_peers import promise
from benchmarks.report import Report, Row

OURS = ("StreamSketch", "Summaries: of + quantiles")
KINDS = {"Quantide": 0, "sketches": 1, "engines, approximate": 3, "exact": 2}
TITLES = {"random": "Random values", "heavy": "A heavy tail with ties, ascending"}
RATE, ERROR = "values a second, one core", "largest rank error found"


def figures(report: Report) -> dict[str, str]:
    made, rows = {}, report.rows
    if rows.get("column"):
        panels = [_column(name, rows["column"], report.settings["n"]) for name in TITLES]
        made["peers-column.svg"] = plot_names.scatter(panels, KINDS, "Speed and error of every method on a column")
        made["peers-error.svg"] = _errors(rows["column"])
    if rows.get("groups"):
        points = [_point(row, "rows_per_s") for row in rows["groups"]]
        title = f"{report.settings['rows']:,} rows by {report.settings['keys']:,} keys"
        floor = 1.5 * report.settings["keys"] / report.settings["rows"]
        panel = plot_names.Panel(title, "rows a second, one core", ERROR, points, floor)
        made["peers-groups.svg"] = plot_names.scatter([panel], KINDS, "Speed and error of every method by key")
    return made


def kind(row: Row) -> str:
    if row["method"] in OURS:
        return "Quantide"
    if row.get("guarantee") == "exact" or row["method"].endswith("exact"):
        return "exact"
    return "engines, approximate" if row["method"].startswith(("DuckDB", "ClickHouse")) else "sketches"


def _point(row: Row, rate: str) -> plot_names.Point:
    return plot_names.Point(_name(row), row[rate], row["observed_error"], kind(row))


def _name(row: Row) -> str:
    return "Quantide" if row["method"] in OURS else named(row)


def _column(name: str, rows: list[Row], n: int) -> plot_names.Panel:
    points = [_point(row, "values_per_s") for row in rows if row["input"] == name]
    return plot_names.Panel(TITLES[name], RATE, ERROR, points, 1.5 / n)


def _errors(rows: list[Row]) -> str:
    """Of the approximate methods: what was found on both columns, and what was promised."""
    by: dict[str, dict[str, Row]] = {}
    for row in rows:
        if kind(row) != "exact":
            by.setdefault(_name(row), {})[row["input"]] = row
    marks = [_marks(name, found) for name, found in by.items()]
    kinds = {word: colour for word, colour in KINDS.items() if word != "exact"}
    names = ("found, random", "found, heavy")
    label = "rank error, as a fraction of n"
    return plot_names.rows(marks, kinds, names, label, "Rank errors that were found and promised, by method")


def _marks(name: str, found: dict[str, Row]) -> plot_names.Marks:
    row = found["random"]
    promised = row["guaranteed_error"] if row["guarantee"] in ("certified", "99%", "stated") else None
    word = promise(row).split()[-1] if promised else {"value": "of values"}.get(row["guarantee"], "none")
    errors = [found[given]["observed_error"] for given in TITLES]
    return plot_names.Marks(name, kind(row), errors, promised, word)
