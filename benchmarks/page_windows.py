"""The page about windows; a run that ended early has the parts it came to."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

RATES = """Values a second, float64, from an empty window of {size:,} on: {values:,} values in blocks of {block:,}, or
    {singles:,} one by one, `update(x)` in a plain Python loop. Tables have a time, a key and a value; the window is
    `last({size}) & where(key < 0.6)`, and the rows that the filter leaves out are counted, too. Best of {rounds}
    rounds. SlidingWindow keeps the values themselves where summaries would be no smaller: so it does at eps = 0.001.
    Bar: what was to be reached."""
QUESTIONS = """One quantile after each of {questions} changes: another block of {block:,}, or one more value. Again: the
    same question once more, nothing having arrived."""
QUESTION_BARS = "Bars, RecentWindow at eps = 0.01: 5 ms when something arrived, 50 microseconds again."
PEERS = """The 0.99-quantile of the last values, wanted after every value or after every block of {block:,}; values a
    second, full windows, the best of {peer_rounds} rounds, one thread. Error: the largest rank error of up to {checked}
    answers of each, counted among the values of the window, as a fraction of it. Ours has eps = {peer_eps:g}; all
    others are exact and keep every value of the window, 8 bytes at least: river's RollingQuantile in a sorted list, for
    one quantile that is chosen beforehand; the numpy ring in an array that is partitioned when asked; pandas
    (`rolling(n).quantile`, with `step` for blocks) and polars (`rolling_quantile`; for blocks the quantile of a slice)
    see the whole column at once and are no streams. River and pandas are left out beyond windows of {slow_size:,},
    where they take minutes."""
SPACE = """{space_values:,} float64 values through windows of {space_size:,}; the most that was held once they were
    full, counted after every block of {block:,}. Answers were checked: every value was made again and counted; error /
    eps is the largest for nine phis from 0.001 to 0.999, for RecentWindow over the last {spans}."""
BOUNDS = """The papers' bounds, constants included. SW (Lin and others, ICDE 2004): 2/eps buckets of 2/eps + 2 tuples
    and an open one, a sketch of Greenwald and Khanna for eps/4, of 11/(2 eps') log2(2 eps' n) tuples. Any n of N (the
    same paper, and the framework of Xu and others): up to ceil(2/eps) + 1 buckets of each size 1, 2, 4, ..., each with
    a sketch of Greenwald and Khanna for eps/2 of everything since its start, counted with the values it covers and
    never with more tuples than those; it may come to more than the window itself. A tuple is counted with 16 bytes, a
    value and two numbers of 32 bits. Ours: all values held, the raw ones included, and all bytes."""


def rates_table(report: Report) -> str:
    body = [
        [
            *(row["window"], f"{row['eps']:g}", row["fed"], table.millions(row["values_per_s"])),
            *(table.millions(row["values_per_s_median"]), table.millions(row["bar"])),
            *(table.ratio(row["values_per_s"] / row["bar"]), f"{row['tuples']:,}", table.size(row["bytes"])),
        ]
        for row in report.rows["rates"]
    ]
    header = ("window", "eps", "fed", "M values/s", "median", "bar", "it / bar", "tuples", "bytes")
    return table.markdown(header, body)


def questions_table(report: Report) -> str:
    body = [
        [
            *(row["window"], f"{row['eps']:g}", row["change"], f"{row['span']:,}", f"{row['median'] * 1e3:.2f} ms"),
            *(f"{row['worst'] * 1e3:.2f} ms", f"{row['again_median'] * 1e6:.0f} µs"),
        ]
        for row in report.rows["questions"]
    ]
    return table.markdown(("window", "eps", "after", "last", "median", "worst", "again"), body)


def peers_table(report: Report) -> str:
    body = []
    for (size, method), by in _pairs(report).items():
        every, block = by["every value"], by["every block"]
        rates = [f"{every['values_per_s']:,}", table.millions(block["values_per_s"])]
        error = table.plain(max(every["error"], block["error"]))
        body.append([f"{size:,}", method, *rates, error, table.size(block["bytes"])])
    header = ("window", "method", "values/s, asked every value", "M values/s, every block", "error", "holds")
    return table.markdown(header, body)


def space_table(report: Report) -> str:
    body = [
        [
            *(row["window"], f"{row['eps']:g}", f"{row['tuples']:,}", f"{row['paper_tuples']:,}"),
            *(f"{row['ratio']:.4f}", table.size(row["bytes"]), table.size(row["paper_bytes"])),
            *(f"{row['bytes_ratio']:.4f}", table.ratio(row["error"] / row["eps"])),
        ]
        for row in report.rows["space"]
    ]
    ours = ("window", "eps", "tuples", "paper's bound", "ours / bound")
    return table.markdown((*ours, "bytes", "paper's bound", "ours / bound", "error / eps"), body)


def render(report: Report) -> str:
    settings = {**report.settings, "spans": _spans(report)}
    parts = ["# Windows"]
    if "rates" in report.rows:
        parts += ["## Feeding", RATES, rates_table(report)]
    if "questions" in report.rows:
        parts += ["## Questions", QUESTIONS, questions_table(report), QUESTION_BARS]
    if "peers" in report.rows:
        parts += ["## Peers", PEERS, peers_table(report), winners(report)]
    if "space" in report.rows:
        parts += ["## Space", SPACE, space_table(report), BOUNDS]
    told = [part if part.startswith(("|", "#")) else prose(part.format(**settings)) for part in parts]
    return sections(told)


def winners(report: Report) -> str:
    """Who is fastest where."""
    lines = []
    for asked in ("every value", "every block"):
        sizes: dict[int, list[tuple[int, str]]] = {}
        for (size, method), by in _pairs(report).items():
            sizes.setdefault(size, []).append((by[asked]["values_per_s"], method))
        best = ", ".join(f"{max(found)[1]} ({size:,})" for size, found in sizes.items())
        lines.append(f"Fastest when asked after {asked}, by window: {best}.")
    said = "The others know one quantile of one window; ours know all, and RecentWindow all shorter windows as well."
    return " ".join([*lines, said])


def headlines(report: Report) -> list[str]:
    out = []
    for row in report.rows.get("rates", []):
        if row["fed"] == "blocks":
            rate = f"**{table.millions(row['values_per_s'])} M** values/s into {row['window']}"
            out.append(f"{rate}, eps = {row['eps']:g}, the last {report.settings['size']:,}")
    if slowest := slowest_question(report):
        out.append(
            f"a question of a changed RecentWindow takes {slowest['median'] * 1e3:.1f} ms at eps = "
            f"{slowest['eps']:g}, again {slowest['again_median'] * 1e6:.0f} microseconds (medians, the slowest span)"
        )
    out += [
        f"{row['window']} holds {row['tuples']:,} values for the last {row['size']:,} at eps = {row['eps']:g}: "
        f"{table.ratio(1 / row['ratio'])} times fewer than the paper's bound"
        for row in report.rows.get("space", [])
    ]
    return out


def slowest_question(report: Report) -> Row | None:
    """That with the largest median of those with a bar."""
    rows = report.rows.get("questions", [])
    barred = [row for row in rows if row["window"] == "RecentWindow" and row["eps"] >= 0.01]
    return max(barred, key=lambda row: float(row["median"]), default=None)


def _spans(report: Report) -> str:
    return ", ".join(f"{span:,}" for span in report.settings["space_spans"])


def _pairs(report: Report) -> dict[tuple[int, str], dict[str, Row]]:
    """For every window and method the two ways it is asked."""
    out: dict[tuple[int, str], dict[str, Row]] = {}
    for row in report.rows["peers"]:
        out.setdefault((row["size"], row["method"]), {})[row["asked"]] = row
    return out
