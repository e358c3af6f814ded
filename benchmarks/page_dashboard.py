"""The page about the dashboard; a run that ended early has the parts it came to."""

import statistics

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

HOW = """`quantide serve` over a store of {history_rows:,} rows of {keys} keys, a headless Chromium, and a writer of
    {commit_rows} rows a commit, all on the two cores of one machine."""
OPENING = """Opened {openings} times, by a browser that has not seen it and kept nothing: from the navigation to
    the first lines, which are drawn while the charts' library is read, and to the whole chart with axes; by the page's
    own clock. Bar: 2 s."""
UPDATES = """Commits as fast as told; the page is told of each, and draws what is newest. A gap is the time between two
    frames of the browser; a response the time
    from a move of the window's slider to the frame after its answer came."""
MEMORY = """The page is open for {calm_seconds:g} s at {calm_rate:g} commits a second; after a collection of garbage,
    what its scripts hold and how many nodes the document has. Bar: flat."""


def render(report: Report) -> str:
    parts = ["# The page", prose(HOW.format(**report.settings))]
    for name, (title, how, make) in PARTS.items():
        if name in report.rows:
            parts += [f"## {title}", prose(how.format(**report.settings)), make(report.rows[name])]
    return sections(parts)


def _opening(rows: list[Row]) -> str:
    told = {}
    for name, what in (("lines", "lines"), ("chart", "whole chart")):
        times = [row[name] for row in rows]
        told[f"{what}, median"] = table.seconds(statistics.median(times))
        told[f"{what}, worst"] = table.seconds(max(times))
    return _pairs(told)


def _updates(rows: list[Row]) -> str:
    row = rows[0]
    told = {
        "commits a second": f"{row['commits_per_s']:.0f}",
        "frames a second": f"{row['frames_per_s']:.0f}",
        "gap between frames, p99": table.seconds(row["gap_p99"]),
        "longest gap": table.seconds(row["gap_worst"]),
    }
    if "response_median" in row:
        told["response to the slider, median"] = table.seconds(row["response_median"])
        told["longest response"] = table.seconds(row["response_worst"])
    return _pairs(told)


def _memory(rows: list[Row]) -> str:
    shown = rows[:: max(1, (len(rows) - 1) // 10)]
    return table.markdown(
        ["after", "held by scripts", "nodes", "listeners"],
        [
            [f"{row['second']:.0f} s", table.size(row["heap"]), f"{row['nodes']:,}", f"{row['listeners']:,}"]
            for row in shown
        ],
    )


def _pairs(told: dict[str, str]) -> str:
    return table.markdown(["", "measured"], [list(pair) for pair in told.items()])


PARTS = {
    "opening": ("The first chart", OPENING, _opening),
    "updates": ("Many commits", UPDATES, _updates),
    "memory": ("Ten minutes", MEMORY, _memory),
}


def headlines(report: Report) -> list[str]:
    lines = []
    if opened := report.rows.get("opening"):
        first, whole = (table.seconds(statistics.median(row[name] for row in opened)) for name in ("lines", "chart"))
        lines.append(f"the page shows its first lines after {first}, and its first chart after {whole}")
    lines += [
        f"{row['commits_per_s']:.0f} commits a second leave it at {row['frames_per_s']:.0f} frames a second"
        for row in report.rows.get("updates", [])
    ]
    if rows := report.rows.get("memory"):
        first, last = (table.size(row["heap"]) for row in (rows[min(1, len(rows) - 1)], rows[-1]))
        lines.append(f"after {rows[-1]['second']:.0f} s its scripts hold {last}, near the start {first}")
    return lines
