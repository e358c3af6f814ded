"""docs/scale.md: what 10^12 values a day would take and break, from the JSON of the subject `scale`."""

from benchmarks import table
from benchmarks.family import DOCS
from benchmarks.page import prose
from benchmarks.report import Report, say
from characterization import tables_scale as tables
from characterization.scale_costs import COSTS
from characterization.scale_model import TOLERANCE
from characterization.scale_target import Limit, Target
from characterization.scale_use import Use
from quantide.history.merge import RANGE
from quantide.server.hub import AT_ONCE, PAUSE

PAGE, JSON = DOCS / "scale.md", DOCS / "characterization" / "scale.json"
MADE = """<!-- Made by `python -m characterization results` from characterization/scale.json. Do not edit. -->"""

ABOUT = """How many cores, how much storage, and what breaks first, from {first} to {last} values a day (that is
    {rate} a second), with {keys} keys and {clients} clients. Nobody has run Quantide at such a size. The numbers
    come from a [cost model](characterization/scale.md) that is fitted to small runs on one machine with {cores}
    cores, and from simulations of the merges and of the fan-out that run the product's own code. {checked}"""
TARGET = """Assumed: a year is kept; steps of {step_hours:g} hour, kappa = {kappa}, eps = {eps:g}; a commit of each
    table every {every} s; rows for windows of {window_minutes:g} minutes; each client has {queries} standing
    queries about a window of a key of its own, which all change with every commit (the worst case: clients that
    share windows share the work). A table's writer and its reader may spend {share:.0%} of the time on the log; a
    merge has {merge_cores} cores; a process has {memory} of memory. Values are float64 with random digits: data
    with few different values is smaller."""
TABLES = """One table has one writer. So a stream that is too large for one is split by key, each part a stream of
    its own with a table, a writer and a lease, and whoever asks about a key asks its table. {tables:,} are needed
    at {last} values a day. Questions about all keys together are then questions to all tables, whose summaries are
    merged: `Summary.merge` is all that takes, but Quantide has no command that does it."""
BREAKS = """By the model, at {last} values a day, the worst first. "Times" is how often what is asked for exceeds
    what one table, one process or one server carries; as many are needed. Where it is below one, one is enough."""
FIRST = """What breaks first is this: {name}. One carries {one}, asked for are {asked}. {because}"""
BECAUSE = {
    "files": f"""Merges write files of at most {RANGE:,} rows, so that tasks are small; a year of {{last}} values a day
    is {{files}} files. With every commit each reader lists the names of all of them again, and with every tenth so does
    the writer. More tables divide that. Larger files would, too, and cost memory of tasks; a reader that takes only
    what a commit added would end its part of it. Neither is done.""",
    "values": """The largest merge of a year rewrites a large part of it at once. It is cut into equal tasks, and
    appends and questions go on, but the next step of the table waits for it. More tables divide it, and a smaller
    kappa makes merges smaller and more.""",
}
OTHER = """It is one of the limits in the table above; more of the same divide it."""
MERGES = """A value is written again {again:.1f} times in a year: {open:.1f} times within its step, where small
    chunks are merged by size, and {levels:.1f} times by levels. That is how often the disks write what comes in,
    beside the first time, and {merging} cores on average. It does not come evenly: where all tables end their steps
    together, the worst step merges {largest} values and would keep {worst} cores busy. Tables that begin on
    different days spread it."""
SERVING = """The fan-out was simulated with {simulated:,} clients in one process: {reached} from a commit until the
    last has its event, {look} of processor time for the look at {windows:,} windows and {tell} to tell everyone.
    The hub wakes {at_once} clients, then pauses {pause:g} ms, so no commit reaches {simulated:,} clients in less
    than {least}. As it is set, a server takes {streams:,}. Several servers can follow the same tables: readers know
    nothing of each other, and a commit costs each of them {follow}."""
NOT = """
- No cluster of that size was ever used, nor a network between machines. Spark's own time for scheduling, and the
  reading of its sources, are not in the model; measured through Spark on one machine: [ingestion](results/ingest.md).
- Writers need a file system that all tasks of a table share. Stores cannot be written in an object store, only copied
  there and read. Petabytes on such a file system are assumed, not tried.
- The model is linear beyond what was measured: from at most {values:,} values of an append, {files:,} files of a
  table and {clients:,} clients. Caches, memory bandwidth, disks and garbage collection may bend it.
- Keys are assumed to be equally frequent. One key with most of the values cannot be split over tables.
- Sockets, TLS and HTTP are not in the simulated fan-out; with true connections: [serving](results/serve.md).
- Nothing splits a stream over tables, or moves keys from one table to another, by itself: that is a configuration
  of many streams, written by whoever runs them.
- Failures of machines are not simulated. That nothing is lost or counted twice is tested with processes that are
  killed.
"""


def write() -> None:
    PAGE.write_text(made(Report.read(JSON)), encoding="utf-8")
    say(f"wrote {PAGE.name}")


def made(report: Report) -> str:
    """The page as it should be by a report."""
    use = Use(report, Target(tables.SIZES[-1]))
    words = _words(report, use)
    parts = [
        "# How far it goes",
        ABOUT.format(**words),
        TARGET.format(**words),
        "## What it takes",
        tables.sizes(report),
        "![Cores, storage, tables and servers against values a day](characterization/scale-cores.svg)",
        TABLES.format(**words),
        "## What breaks first",
        BREAKS.format(**words),
        tables.limits(report),
        _first(use.limits()[0], words),
        "## Merging",
        MERGES.format(**words),
        "![Runs and written values over a year of hourly steps](characterization/scale-levels.svg)",
        "## Serving",
        SERVING.format(**words),
        "## What was not tried",
    ]
    told = [part.strip() if part.startswith(("|", "!")) else prose(part) for part in parts]
    return "\n\n".join([MADE, *told, NOT.format(**_largest(report)).strip()]) + "\n"


def _words(report: Report, use: Use) -> dict[str, object]:
    target, crowd = use.target, max(report.rows["fanout"], key=lambda row: row["clients"])
    wrong = tables.off(report)
    checked = f"Of {len(COSTS)} costs {len(COSTS) - len(wrong)} are predicted within {TOLERANCE:.0%} at every size"
    return {
        "first": table.power(tables.SIZES[0]),
        "last": table.power(tables.SIZES[-1]),
        "rate": tables.short(target.values / 86_400),
        "keys": table.power(target.keys),
        "clients": table.power(target.clients),
        "cores": report.about["machine"]["cores"],
        "checked": checked + (f"; not so {', '.join(wrong)}." if wrong else "."),
        "step_hours": target.step / 3_600,
        "kappa": target.kappa,
        "eps": target.eps,
        "every": target.every,
        "window_minutes": target.window / 60,
        "queries": target.queries,
        "share": target.share,
        "merge_cores": target.cores,
        "memory": tables.amount(target.memory, "bytes"),
        "tables": use.tables,
        "files": tables.short(use.files),
        "again": use.written_again,
        "open": use.written_again_in_step,
        "levels": use.written_again_by_levels,
        "merging": tables.cores(use.merge_cores),
        "largest": tables.short(use.largest_merge),
        "worst": tables.cores(use.merge_cores_at_worst),
        "simulated": crowd["clients"],
        "reached": table.seconds(crowd["reached"]),
        "look": table.seconds(crowd["look"]),
        "windows": crowd["windows"],
        "tell": table.seconds(crowd["tell"]),
        "at_once": AT_ONCE,
        "pause": PAUSE * 1e3,
        "least": table.seconds(crowd["clients"] / AT_ONCE * PAUSE),
        "streams": next(limit.one for limit in use.server_limits() if limit.setting),
        "follow": tables.amount(use.fits["readers"].predict(readers=1), "s"),
    }


def _first(limit: Limit, words: dict[str, object]) -> str:
    one, asked = (tables.short(x) + f" {limit.unit}" for x in (limit.one, limit.asked))
    because = BECAUSE.get(limit.unit, OTHER).format(**words)
    return FIRST.format(name=limit.name, one=one, asked=asked, because=because)


def _largest(report: Report) -> dict[str, int]:
    rows = report.rows
    return {
        "values": max(row["values"] for row in rows["ingest"]),
        "files": max(row["files"] for row in rows["follow"]),
        "clients": max(row["clients"] for row in rows["fanout"]),
    }
