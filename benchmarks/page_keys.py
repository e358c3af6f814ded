"""The page about many keys."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report

HOW = """{rows:,} rows of (key, float64), eps = {eps:g}, three quantiles for each key (0.5, 0.9, 0.99), one
    thread, best of {rounds} rounds. Ratio: the time of the method divided by ours for the same work,
    *of + quantiles*. Merge joins the summaries of two halves of the rows. Error: the largest rank
    error over all keys and phis, as a fraction of the key's rows."""


def keys_table(report: Report) -> str:
    body = [
        [
            row["kind"],
            f"{row['keys']:,}",
            row["method"],
            table.ratio(row["ratio"]),
            table.millions(row["rows_per_s"]),
            table.seconds(row["seconds"]),
            table.plain(row["observed_error"]),
        ]
        for row in report.rows["rows"]
    ]
    return table.markdown(["keys of", "keys", "method", "ours / it", "M rows/s", "time", "error"], body)


def render(report: Report) -> str:
    return sections(["# Many keys at once", prose(HOW.format(**report.settings)), keys_table(report)])


def headlines(report: Report) -> list[str]:
    return [
        f"{table.millions(row['rows_per_s'])} M rows/s into summaries of {row['keys']:,} {row['kind']} keys"
        for row in report.rows["rows"]
        if row["method"] == "Summaries.of"
    ]
