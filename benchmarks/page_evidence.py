"""The page about the last `make evidence`: what ran, for how long, and whether it ended well."""

from benchmarks import table
from benchmarks.page import about, page, prose
from benchmarks.report import Report, Row

ABOUT = """What the last `make evidence` ran, and how long each part took ({total} in all, at the size for {size}).
    Loop: how long a fixed piece of Python and numpy took right before the part; parts that ran while a shared machine
    was slow can be told by it. A part may have been measured again since, by itself: its own page tells when and how.
    What they found: [results](index.md), [characterization](../characterization/index.md)."""


def render(report: Report) -> str:
    rows = report.rows["parts"]
    size = "long runs" if "--full" in report.about["command"] else "an hour"
    words = prose(ABOUT.format(total=duration(sum(row["seconds"] for row in rows)), size=size))
    return page(["# Evidence", words, told(rows), *about(report)], "benchmarks")


def told(rows: list[Row]) -> str:
    lines = [
        [
            f"[{row['part']}]({'../characterization/' if row['family'] == 'characterization' else ''}{row['part']}.md)",
            row["family"],
            duration(row["seconds"]),
            "yes" if row["done"] else "FAILED",
            table.seconds(row["loop"]),
        ]
        for row in rows
    ]
    return table.markdown(["part", "of", "took", "ended well", "loop"], lines)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
