"""The page about what things cost, and how well the model says so. What follows from it is in page_sizes.py."""

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report
from characterization import tables_scale as tables
from characterization.figures_scale import figures
from characterization.scale_costs import COSTS
from characterization.scale_model import TOLERANCE
from characterization.scale_target import Target
from characterization.scale_use import Use

__all__ = ["figures", "headlines", "render"]

HOW = """A model of what Quantide costs: each cost is a sum of few terms, with a reason for each. The coefficients are
    fitted to small true runs of the product's own code (`History`, `LiveStream`, `Summaries`, the server's listeners),
    by least squares of the relative differences, none below zero. Seconds are processor seconds of all threads: cores
    that would be busy. Nothing here was measured through Spark, over HTTP or against an object store:
    [results](../results/index.md) has those. What follows for large sizes: [scale](../scale.md)."""
OFF = """A prediction is called off where it is further than {tolerance:.0%} from what was measured."""
WRITING = """Appends of so many values that fall on so many keys, with recent rows, eps = {eps:g}; then the merge of
    three such runs. The least of three appends; one merge."""
FILES = """A store of small files: a commit of {tiny} rows and one who follows it, on average over
    {commit_rounds} commits, and one who opens it. Then readers of one log, and questions about runs of
    {run_values:,} values, each the first after a commit."""
LEVELS = """The policy by which the writer chooses what it merges (`quantide/history/merge.py`) driven over a year of
    hourly steps without data. Levels after s steps: 1 + the largest l with (kappa + 1)^l <= s. A step whose number
    (kappa + 1)^l divides, and no higher power, ends with one merge of that many steps, which gives the last formula. An
    accurate question reads at most one block of each run."""
OPEN = """In the open step, a commit every ten seconds; its chunks are merged by size, and once more when it ends."""
FANOUT = """Clients without sockets: each is an event stream of the server with a send function that counts. A commit
    changes all of their {each} queries. Look: the pass over all windows that somebody listens to; tell: everything
    until the last client has its event; both in processor seconds. When the last is told goes by the clock: the hub
    wakes clients a few at a time, with a pause between, so that questions are answered meanwhile."""


def render(report: Report) -> str:
    settings = report.settings | {"tiny": 10, "tolerance": TOLERANCE}
    parts = [
        "# Scale: the cost model, checked",
        HOW,
        "## The model",
        OFF.format(**settings) + " " + _off(report),
        tables.coefficients(report),
        "## Writing and storing",
        WRITING.format(**settings),
        tables.check(report, ("ingest", "merge", "data", "side", "recent", "held")),
        "## Summaries in memory",
        tables.check(report, ("summaries",)),
        "## Files, logs and readers",
        FILES.format(**settings),
        tables.check(report, ("commit", "follow", "open", "readers", "idle", "question")),
        "## Levels, simulated",
        LEVELS,
        "![Runs and written values over a year](scale-levels.svg)",
        tables.levels(report),
        OPEN,
        tables.open_step(report),
        "## Fan-out, simulated",
        FANOUT.format(**settings),
        tables.fanout(report),
        tables.check(report, ("look", "tell", "sent", "clients")),
    ]
    return "\n\n".join(part if part.startswith(("|", "!")) else prose(part) for part in parts)


def headlines(report: Report) -> list[str]:
    use = Use(report, Target(tables.SIZES[-1]))
    first = use.limits()[0]
    size = f"{table.power(tables.SIZES[-1])} values a day, {table.power(use.target.keys)} keys"
    clients = f"{table.power(use.target.clients)} clients"
    return [
        f"by the model, {size} and {clients} take {tables.cores(use.cores)} cores on average, {use.tables:,} tables, "
        f"{use.servers:,} servers and {tables.amount(use.data_bytes + use.side_bytes, 'bytes')} a year",
        f"what that would break first: {first.name}, {tables.times(first.times)} times over",
    ]


def _off(report: Report) -> str:
    wrong = tables.off(report)
    if not wrong:
        return f"None of the {len(COSTS)} is."
    return f"At some size that is so of {len(wrong)} of {len(COSTS)}: {', '.join(wrong)}."
