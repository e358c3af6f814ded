"""The page about the FAST paper."""

from benchmarks import plot, table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

PAPER = """Zhang and Wang, *A Fast Algorithm for Approximate Quantiles in High Speed Data Streams*, SSDBM 2007,
    report 60 to 300 times the speed of GK01 (section 4, Figures 2 and 3). Here: StreamSketch beside our compiled
    GKSketch, float32 as in the paper: **{span} times**. GKSketch keeps its tuples in one array, so an insert
    costs what lies behind it: nothing on sorted input, where the ratio is smallest, everything on reversed."""
TIME = """The best of {rounds} rounds for StreamSketch, one for GKSketch. Projected: stopped after
    {patience:g} s and continued at the speed of its last piece."""
MEMORY = """Our bound is `StreamSketch.max_nbytes(0.001, n, itemsize=4)`: everything the sketch holds, with
    its open block and the summary it answers from. The paper's counts 12 bytes a tuple, and no block.
    Held: `nbytes` after so many random values, right after an answer."""


def fast_times(report: Report) -> str:
    body = [
        [
            row["order"],
            f"{row['eps']:g}",
            f"{row['n']:,}",
            table.ratio(row["ratio"]),
            table.seconds(row["stream_s"]),
            table.seconds(row["gk_s"]) + (" (projected)" if row["gk_projected"] else ""),
        ]
        for row in report.rows["times"]
    ]
    return table.markdown(["order", "eps", "n", "GKSketch / StreamSketch", "StreamSketch", "GKSketch"], body)


def fast_memory(report: Report) -> str:
    body = [
        [
            table.power(row["n"]),
            table.ratio(row["ratio"]),
            table.size(row["bound_bytes"]),
            table.size(row["paper_bytes"]),
            f"{row['paper_tuples']:,}" if row["paper_tuples"] else table.DASH,
            table.size(row["held_bytes"]),
        ]
        for row in report.rows["memory"]
    ]
    header = ["n", "our bound / the paper's", "our bound", "the paper's bound", "its tuples", "held when fed"]
    return table.markdown(header, body)


def figures(report: Report) -> dict[str, str]:
    """The paper's Figures 2 and 3: time by stream size and by eps."""
    rows = report.rows["times"]
    sizes, epsilons = report.settings["sizes"], report.settings["epsilons"]
    by_size = [row for row in rows if row["eps"] == 0.001]
    by_eps = [row for row in rows if row["n"] == sizes[-1] and row["eps"] in epsilons]
    panels = [
        plot.Panel("eps = 0.001", "values", "seconds", _lines(by_size, "n")),
        plot.Panel(f"{sizes[-1]:,} values", "eps", "seconds", _lines(by_eps, "eps")),
    ]
    return {"fast.svg": plot.svg(panels, "Seconds to sketch a stream, StreamSketch and GKSketch, logarithmic axes")}


def _lines(rows: list[Row], x: str) -> list[plot.Line]:
    lines = []
    for colour, (name, column) in enumerate((("GKSketch", "gk_s"), ("StreamSketch", "stream_s"))):
        orders = dict.fromkeys(row["order"] for row in rows)
        for order, dashes in zip(orders, ("", "6 3", "2 3"), strict=False):
            points = sorted((row[x], row[column]) for row in rows if row["order"] == order)
            lines.append(plot.Line(f"{name}, {order}", points, 1 - colour, dashes))
    return lines


def render(report: Report) -> str:
    return sections(
        [
            "# The figures of the FAST paper",
            prose(PAPER.format(span=_span(report))),
            "![Seconds by stream size and by eps](fast.svg)",
            "## Time",
            prose(TIME.format(**report.settings)),
            fast_times(report),
            "## Memory at eps = 0.001 (the paper's Table 1, sections 4.1.1 and 4.2)",
            prose(MEMORY),
            fast_memory(report),
        ]
    )


def headlines(report: Report) -> list[str]:
    sizes = report.settings["sizes"]
    return [f"{_span(report)} times the speed of our own compiled GK01 (float32, {sizes[0]:,} to {sizes[-1]:,} values)"]


def _span(report: Report) -> str:
    ratios = [row["ratio"] for row in report.rows["times"]]
    return f"{table.ratio(min(ratios))} to {table.ratio(max(ratios))}"
