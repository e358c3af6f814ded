"""The page about windows: words. Its tables are in tables_windows.py, its figures in figures_windows.py."""

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report
from characterization import tables_windows as tables
from characterization.figures_history import grouped
from characterization.figures_windows import figures
from characterization.windows_layout import BUILT, CHUNK, LEAST, SHRUNK
from characterization.windows_recent import RECENT, SLIDING

__all__ = ["figures", "headlines", "render"]

HOW = """The figures of two papers, for `quantide.windows`: Lin, Lu, Xu, Yu, "Continuously maintaining quantile
    summaries of the most recent N elements over a data stream" (ICDE 2004), here RECENT, and Xu, Lin, Zhou, "Space
    efficient quantile summary for constrained sliding windows on a data stream", here CONSTRAINED. Every answer was
    compared with the values themselves: an error is how many ranks lie between what was asked and what was found,
    divided by eps * n, n being the values of the window. So 1 is what is allowed. Tuples: the most values that were
    held at once, counted after every piece of the stream, and their mean; raw values are counted, too. Exact: every
    answer was proved to have no error at all."""
LAYOUTS = """SlidingWindow keeps windows of up to 131,072 values as they are, and RecentWindow the newest 65,536 or
    more, so windows of the papers' sizes are answered exactly, or nearly so, in more tuples than summaries would take.
    To show the summaries there, too, they are also measured *shrunk*: nothing is kept because a window is small, and
    chunks have {chunk:,} values instead of 65,536 (eps times the raw values is at least {least}, not 256). Everything
    else is *as built*. A SlidingWindow whose buckets would be too small to be worth summarising keeps its values in
    either layout."""
BOUND = """The papers' bounds are those of docs/results/windows.md: SW with 2/eps buckets of 2/eps + 2 tuples and one
    sketch of Greenwald and Khanna; n of N, spans and filters with such a sketch for every bucket."""
EPSILONS = """RECENT's first figures: uniform data, streams of {turns} windows, {moments} moments from when the window
    is full, {phis} - 1 evenly spaced phis. RecentWindow is asked for all n."""
KINDS = """The same at eps = {eps:g} for other data. Block-sorted: fifty blocks, each sorted. Semi-sorted: fifty blocks,
    each with smaller values than the next, in any order within."""
RANKS = """By phi, as built, the mean over all moments and over a few neighbouring phis."""
SIZES = """Uniform data, eps = {eps:g}."""
PARTS = """One RecentWindow, asked for the last n, beside SlidingWindow, which knows all n alone; eps = {eps:g}."""
TIMES = """CONSTRAINED's table 1: eps = {time_eps:g}, {rate} arrivals a second on average, at random, {age} s kept,
    streams of one and a half times that, {time_phis} - 1 phis; figure 5. Words, instead of the news stories of its
    figure 8: numbers that stand for words, some very frequent."""
AGES = """Figure 6 (a): the longest span that can be asked about, which is asked for."""
TIME_EPSILONS = """Figure 6 (b), {age} s."""
FILTERS = """Figure 8 (b): `last(N) & where(f)`, f true for {passing:g} of the arrivals, N counted over all; words,
    eps = {time_eps:g}."""
UPDATES = """Figure 7: RecentWindow with max_age = {age} s, uniform data; the paper takes means over {batch} insertions,
    so {batch} arrive at once here, and {block:,} beside it. An update that finds {batch} values pays for being called;
    the worst makes blocks of a chunk."""
PAPERS = """What the papers report, as far as the stored texts let it be read: their figures are pictures that were not
    kept, and RECENT's text lost its numbers."""
REPORTED = (
    """RECENT: average errors of SW and nN are far below eps, maximum errors come near it when very many queries are
    asked, and the order of data hardly matters. Here the mean over all phis is {mean:.2f} eps and the worst
    {worst:.2f} eps for SlidingWindow over seven kinds of data at eps = {eps:g}, {recent_mean:.2f} and
    {recent_worst:.2f} for RecentWindow; the mean of SlidingWindow is largest when data is
    {hardest}.""",
    """RECENT: the space of both is below the worst case. Here that of RecentWindow is, raw values included; more than
    the bound, held and bound being given: {above}.""",
    """CONSTRAINED, eps = 0.05, 400 tuples/s, 600 s: errors are "much lower than the guaranteed value". Here the worst
    is {time_worst:.2f} eps, whatever the span and the data.""",
    """CONSTRAINED: space grows "very slowly" with the window, and "apparently" as eps gets smaller. Here, shrunk:
    {ages}; as built it is mostly raw values.""",
    """CONSTRAINED: more than 500 tuples a second. Here {rate} values a second, {batch} at a time, and {fast} in
    blocks.""",
)


def render(report: Report) -> str:
    words = {**report.settings, "chunk": CHUNK, "least": LEAST}
    parts = [
        "# Windows: error and space",
        HOW,
        f"**The worst error seen is {tables.worst(report):.3f} eps, and {_verdict(report)}.**",
        LAYOUTS,
        BOUND,
        "## By eps",
        EPSILONS,
        "![Error and space by eps](windows-epsilons.svg)",
        tables.epsilons(report),
        "## By data",
        KINDS,
        tables.kinds(report),
        RANKS,
        "![Error by phi](windows-ranks.svg)",
        "## By the size of the window",
        SIZES,
        "![Error and space by size](windows-sizes.svg)",
        tables.sizes(report),
        "## n of N",
        PARTS,
        "![Error by n of N](windows-parts.svg)",
        tables.parts(report),
        "## Spans of time",
        TIMES,
        "![Error by phi over spans of time](windows-times.svg)",
        tables.times(report),
        "![Space by span and eps](windows-space.svg)",
        AGES,
        tables.ages(report),
        TIME_EPSILONS,
        tables.time_epsilons(report),
        "## Filters",
        FILTERS,
        tables.filters(report),
        "## The rate of the stream",
        UPDATES,
        tables.updates(report),
        "## The papers",
        PAPERS,
    ]
    told = [part if part.startswith(("|", "#", "!", "*")) else prose(part.format(**words)) for part in parts]
    return "\n\n".join(part.strip("\n") for part in (*told, papers(report)))


def papers(report: Report) -> str:
    rows, s = report.rows, report.settings
    kinds = grouped([row for row in rows["kinds"] if row["layout"] == BUILT], "window")
    means = {name: sum(row["mean"] for row in some) / len(some) for name, some in kinds.items()}
    worst = {name: max(row["worst"] for row in some) for name, some in kinds.items()}
    ages = [row for row in rows["ages"] if row["layout"] == SHRUNK]
    few, many = (row for row in rows["updates"] if row["eps"] == s["time_eps"])
    known = {
        "eps": s["eps"],
        "mean": means[SLIDING],
        "worst": worst[SLIDING],
        "recent_mean": means[RECENT],
        "recent_worst": worst[RECENT],
        "hardest": max(kinds[SLIDING], key=lambda row: float(row["mean"]))["kind"],
        "above": "; ".join(tables.above_bound(report)) or "nowhere",
        "time_worst": max(row["worst"] for name in ("times", "ages", "time_epsilons") for row in rows[name]),
        "ages": ", ".join(f"{row['tuples']:,} tuples for {row['age']} s" for row in ages),
        "rate": f"{few['values_per_s']:,}",
        "batch": few["batch"],
        "fast": f"{many['values_per_s']:,}",
    }
    return "\n".join("- " + prose(text.format(**known)) for text in REPORTED)


def _verdict(report: Report) -> str:
    answers = f"{sum(1 for _ in tables.checked(report)):,} questions at {report.settings['moments']} moments each"
    return f"it is at most 1 in all {answers}" if tables.worst(report) <= 1 else "IT IS MORE THAN IS ALLOWED"


def headlines(report: Report) -> list[str]:
    s, rows = report.settings, report.rows["epsilons"]
    out = [f"{tables.worst(report):.2f} eps is the worst error of any window, over seven kinds of data"]
    for row in rows:
        if row["layout"] == BUILT and row["eps"] == s["eps"]:
            times = table.ratio(row["paper_tuples"] / row["tuples"])
            out.append(
                f"{row['tuples']:,} tuples in a {row['window']} of the last {row['size']:,}, eps = {row['eps']:g}; the "
                f"paper's bound is {times} times that"
            )
    return out
