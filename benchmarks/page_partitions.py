"""The page about many partitions."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report

HOW = """Nanoseconds of wall time a row, the median of {rows:,} rows, by the number of partitions (of
    files, for the first line) they come in: with more partitions there are more sketches to merge. The last line
    reads the same partitions and only adds the values up."""


def partitions_table(report: Report) -> str:
    """A line a method, a column a number of partitions."""
    rows = report.rows["rows"]
    numbers = sorted({row["partitions"] for row in rows})
    found = {(row["method"], row["partitions"]): f"{row['ns_a_row']:,.0f}" for row in rows}
    body = [
        [method, *(found[method, number] for number in numbers)]
        for method in dict.fromkeys(row["method"] for row in rows)
    ]
    return table.markdown(["method", *(f"{number:,} partitions" for number in numbers)], body)


def render(report: Report) -> str:
    words = prose(HOW.format(**report.settings))
    return sections(["# Many partitions (SPARK-47836)", words, partitions_table(report)])


def headlines(report: Report) -> list[str]:
    rows = report.rows["rows"]
    most = max(row["partitions"] for row in rows)
    return [
        f"{row['ns_a_row']:,.0f} ns a row in {most:,} partitions: {row['method']}"
        for row in rows
        if row["partitions"] == most
    ]
