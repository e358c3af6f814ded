"""The page about Spark."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report

HOW = """{rows:,} rows of Parquet in {files} files, random float64 beside the key columns; Spark local[{cores}],
    everything warm, best of {rounds} rounds for ours and of {other_rounds} for the others. Ratio: the time of the
    method divided by the time of the first line of the same question, which is ours on files. The exact methods have
    {exact_rows:,} rows."""


def spark_table(report: Report) -> str:
    body = [
        [row["question"], row["method"], table.ratio(row["ratio"]), table.seconds(row["seconds"])]
        for row in report.rows["rows"]
    ]
    return table.markdown(["question", "method", "its time / ours", "time"], body)


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
