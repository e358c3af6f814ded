"""The tables about windows. Errors are fractions of eps * n, what is allowed."""

from collections.abc import Iterable

from benchmarks import table
from benchmarks.report import Report, Row

MEASURED = ("mean error", "worst", "exact", "tuples", "mean", "paper's bound")
CHECKED = ("epsilons", "kinds", "sizes", "parts", "times", "ages", "time_epsilons", "filters")


def epsilons(report: Report) -> str:
    rows = report.rows["epsilons"]
    body = [[row["layout"], f"{row['size']:,}", row["window"], f"{row['eps']:g}", *_measured(row)] for row in rows]
    return table.markdown(("layout", "window of", "window", "eps", *MEASURED), body)


def kinds(report: Report) -> str:
    rows = report.rows["kinds"]
    body = [[row["layout"], f"{row['size']:,}", row["kind"], row["window"], *_measured(row)] for row in rows]
    return table.markdown(("layout", "window of", "data", "window", *MEASURED), body)


def sizes(report: Report) -> str:
    rows = report.rows["sizes"]
    body = [[row["layout"], f"{row['size']:,}", row["window"], *_measured(row)] for row in rows]
    return table.markdown(("layout", "window of", "window", *MEASURED), body)


def parts(report: Report) -> str:
    rows = report.rows["parts"]
    body = [
        [row["layout"], f"{row['size']:,}", row["window"], f"{row['n']:,}", *_measured(row)[:3], f"{row['tuples']:,}"]
        for row in rows
    ]
    return table.markdown(("layout", "window of", "window", "n", *MEASURED[:4]), body)


def times(report: Report) -> str:
    body = [[row["layout"], row["kind"], f"{row['span']} s", *_measured(row)] for row in report.rows["times"]]
    return table.markdown(("layout", "data", "within", *MEASURED), body)


def ages(report: Report) -> str:
    body = [[row["layout"], f"{row['age']} s", *_measured(row)] for row in report.rows["ages"]]
    return table.markdown(("layout", "longest span", *MEASURED), body)


def time_epsilons(report: Report) -> str:
    body = [[row["layout"], f"{row['eps']:g}", *_measured(row)] for row in report.rows["time_epsilons"]]
    return table.markdown(("layout", "eps", *MEASURED), body)


def filters(report: Report) -> str:
    body = [[row["layout"], f"{row['size']:,}", *_measured(row)] for row in report.rows["filters"]]
    return table.markdown(("layout", "of the last", *MEASURED), body)


def updates(report: Report) -> str:
    body = [
        [
            *(f"{row['eps']:g}", f"{row['batch']:,}", f"{row['values_per_s']:,}"),
            *(f"{row[name] * 1e6:,.0f} µs" for name in ("mean", "median", "p999", "worst")),
        ]
        for row in report.rows["updates"]
    ]
    return table.markdown(("eps", "values at once", "values/s", "an update, mean", "median", "99.9%", "worst"), body)


def worst(report: Report) -> float:
    """The largest error of all answers."""
    return max(float(row["worst"]) for row in checked(report))


def checked(report: Report) -> Iterable[Row]:
    return (row for name in CHECKED for row in report.rows[name])


def above_bound(report: Report) -> list[str]:
    """Where more is held than the paper's structure may, and how much of each."""
    found = {
        f"{row['window']} of {row['size']:,} ({row['layout']}), eps = {row['eps']:g}, {row['tuples']:,} and "
        f"{row['paper_tuples']:,}": None
        for row in checked(report)
        if row["tuples"] > row["paper_tuples"]
    }
    return list(found)


def _measured(row: Row) -> list[str]:
    errors = [f"{row['mean']:.3f}", f"{row['worst']:.3f}", "yes" if row["exact"] else "no"]
    return [*errors, *(f"{row[name]:,}" for name in ("tuples", "mean_tuples", "paper_tuples"))]
