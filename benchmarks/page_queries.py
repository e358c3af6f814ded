"""The page about standing queries."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report

HOW = """{queries:,} queries, phi uniform in (0, 1], precision uniform in a range, eps = {eps:g}. Then {values:,}
    uniform float64 values in blocks of {block:,}, with `changes()` read after every block, with the ids in it, or not
    at all, beside a bare StreamSketch fed with the same blocks. One thread, interleaved, best of {rounds} rounds."""
METHODS = """The same with every clustering and every kind of update, precision as in the first line above, read after
    every block."""
REGISTERING = """At once: `register_many` and the first clustering. One: the average of {singles:,} `register` or
    `drop` calls among the others."""
CHECKED = """At the end of every block {checked:,} answers were compared with the sorted values: the largest distance
    from the target, as a part of what the query allows."""
KEYS = """`MonitorGroup`, eps = 0.01, three queries a key of precision 0.05; {keyed_blocks} blocks of {block:,} rows
    with uniform keys, `changes()` read after every block."""


def stream_table(report: Report) -> str:
    body = [
        [
            row["precision"],
            table.ratio(row["ratio"]),
            table.ratio(row["ids_ratio"]),
            table.ratio(row["unread_ratio"]),
            table.seconds(row["bare"]),
            table.seconds(row["read"]),
            f"{row['clusters']:,}",
            f"{row['evaluations']:,}",
            f"{row['summaries']}",
        ]
        for row in report.rows["stream"]
    ]
    ratios = ("read / bare", "with ids / bare", "not read / bare")
    head = ["precision", *ratios, "bare", "read", "clusters", "evaluations", "summaries made"]
    return table.markdown(head, body)


def methods_table(report: Report) -> str:
    body = [
        [
            row["clustering"],
            row["updates"],
            table.ratio(row["ratio"]),
            table.seconds(row["seconds"]),
            f"{row['clusters']:,}",
            f"{row['evaluations']:,}",
        ]
        for row in report.rows["methods"]
    ]
    return table.markdown(["clustering", "updates", "time / bare", "time", "clusters", "evaluations"], body)


def registering_table(report: Report) -> str:
    body = [
        [row["precision"], table.seconds(row["many"]), _micro(row["register"]), _micro(row["drop"])]
        for row in report.rows["registering"]
    ]
    return table.markdown(["precision", "at once", "one registered", "one dropped"], body)


def checked_table(report: Report) -> str:
    body = [
        [row["precision"], f"{row['answers']:,}", f"{row['worst']:.3f}", "yes" if row["holds"] else "NO"]
        for row in report.rows["checked"]
    ]
    return table.markdown(["precision", "answers", "largest part used", "all within"], body)


def keys_table(report: Report) -> str:
    body = [
        [
            f"{row['keys']:,}",
            f"{row['queries']:,}",
            f"{row['rows']:,}",
            table.millions(row["rows_per_s"]),
            table.seconds(row["register"]),
            table.seconds(row["update"]),
            table.seconds(row["changes"]),
            f"{row['evaluations']:,}",
        ]
        for row in report.rows["keys"]
    ]
    head = ["keys", "queries", "rows", "M rows/s", "registered in", "updates", "changes", "evaluations"]
    return table.markdown(head, body)


def render(report: Report) -> str:
    tables = (
        (HOW, stream_table),
        (METHODS, methods_table),
        (REGISTERING, registering_table),
        (CHECKED, checked_table),
        (KEYS, keys_table),
    )
    parts = [part for text, make in tables for part in (prose(text.format(**report.settings)), make(report))]
    return sections(["# Standing queries", *parts])


def headlines(report: Report) -> list[str]:
    s = report.settings
    narrow = report.rows["stream"][0]
    registered = report.rows["registering"][0]
    return [
        f"{narrow['ratio']:.2f} times the time of a bare sketch for a stream with {s['queries']:,} standing queries, "
        f"read after every {s['block']:,} values; {table.seconds(registered['many'])} to register them"
    ]


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"
