"""The page about Spark."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report

HOW = """{rows:,} rows of Parquet in {files} files, random float64 beside the key columns; Spark local[{cores}],
    everything warm, best of {rounds} rounds for ours and of {other_rounds} for the others. Ratio: the time of the
    method divided by the time of the first line of the same question, which is ours on files. The exact methods have
    {exact_rows:,} rows."""

PARTITIONS = """Nanoseconds of wall time a row, the median of {rows:,} rows, by the number of partitions (of
    files, for the first line) they come in: with more partitions there are more sketches to merge. The last line
    reads the same partitions and only adds the values up."""


def spark_table(report: Report) -> str:
    body = [
        [row["question"], row["method"], table.ratio(row["ratio"]), table.seconds(row["seconds"])]
        for row in report.rows["rows"]
    ]
    return table.markdown(["question", "method", "its time / ours", "time"], body)


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
    return sections(
        [
            "# Percentiles of a lake, on Spark",
            prose(HOW.format(**report.settings)),
            spark_table(report),
        ]
    )


def headlines(report: Report) -> list[str]:
    return [
        f"**{table.ratio(row['ratio'])}** times as fast as {row['method']} ({row['question']}, {row['rows']:,} rows)"
        for row in report.rows["rows"]
        if row["ratio"] and not row["method"].startswith("quantide")
    ]


def render_partitions(report: Report) -> str:
    words = prose(PARTITIONS.format(**report.settings))
    return sections(["# Many partitions (SPARK-47836)", words, partitions_table(report)])


def headlines_partitions(report: Report) -> list[str]:
    rows = report.rows["rows"]
    most = max(row["partitions"] for row in rows)
    return [
        f"{row['ns_a_row']:,.0f} ns a row in {most:,} partitions: {row['method']}"
        for row in rows
        if row["partitions"] == most
    ]
