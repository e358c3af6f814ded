"""Every cost that is modelled, its terms, and why it has these."""

import math

from benchmarks.report import Report, Row
from characterization.scale_model import Cost, Fit, Term, fit, kept


def _one(row: Row) -> float:
    return 1.0


def _of(column: str) -> Term:
    return lambda row: float(row[column])


INGEST = Cost(
    "taking values in",
    "ingest",
    "seconds",
    "s",
    {
        "commit": _one,
        "value": _of("values"),
        "value x log2(keys)": lambda row: row["values"] * math.log2(max(2, row["touched"])),
        "key": _of("touched"),
    },
    "A commit costs what it costs, a value is grouped by key (the more keys, the more), sorted and written twice: in a "
    "sorted chunk and as a recent row. A key has an entry in two directories.",
)
MERGE = Cost(
    "merging three runs",
    "merge",
    "seconds",
    "s",
    {
        "merge": _one,
        "value": lambda row: row["values"] * row["runs"],
        "value x log2(keys)": lambda row: row["values"] * row["runs"] * math.log2(max(2, row["touched"])),
        "key of a run": lambda row: row["touched"] * row["runs"],
    },
    "Values are read, sorted key by key and written; the directories of all runs are joined.",
)
DATA = Cost(
    "data files of a run",
    "stored",
    "data",
    "bytes",
    {"value": _of("values"), "key": _of("touched")},
    "Sorted values of a key share their first bits; a key is written once for all its rows.",
)
SIDE = Cost(
    "side files of a run",
    "stored",
    "side",
    "bytes",
    {
        "file": _one,
        "key": _of("touched"),
        "tuple": lambda row: row["touched"] * kept(row["values"] / row["touched"], row["eps"]),
    },
    "A directory entry for each key, and a summary of each, a quarter as coarse as eps (a sixteenth while its step is "
    "open).",
)
RECENT = Cost(
    "recent rows",
    "stored",
    "recent",
    "bytes",
    {"value": _of("values"), "key": _of("touched")},
    "A value, its place among all, its key's entry; times where they differ.",
)
HELD = Cost(
    "what a reader holds of a run",
    "stored",
    "memory",
    "bytes",
    {"key": _of("touched"), "value": _of("values")},
    "The key directory: key, count, first row; and the first value of each block. All else is mapped, and read where "
    "it lies.",
)
SUMMARIES = Cost(
    "summaries of keys in memory",
    "summaries",
    "bytes",
    "bytes",
    {"key": _of("keys"), "tuple": lambda row: row["keys"] * kept(row["each"], row["eps"])},
    "A key has at most 1 / (2 eps) + 2 tuples, and no more than it has values.",
)
COMMIT = Cost(
    "a commit of few rows",
    "commit",
    "seconds",
    "s",
    {"commit": _one, "file": _of("files")},
    "Every tenth commit lists all files of the table in a checkpoint.",
)
FOLLOW = Cost(
    "one reader follows a commit",
    "follow",
    "seconds",
    "s",
    {"commit": _one, "file": _of("files")},
    "The names of all files are listed again; only new ones are opened.",
)
OPEN = Cost(
    "a reader opens the store",
    "open",
    "seconds",
    "s",
    {"store": _one, "file": _of("files")},
    "The log is read from its checkpoint, and the directory of every side file.",
)
QUESTION = Cost(
    "an accurate question after a commit",
    "question",
    "seconds",
    "s",
    {"question": _one, "run": _of("runs")},
    "The summaries of all runs are merged, and at most one block of each is read.",
)
READERS = Cost(
    "all readers of one log follow a commit",
    "readers",
    "seconds",
    "s",
    {"reader": _of("readers")},
    "Readers know nothing of each other, and the writer nothing of them.",
)
IDLE = Cost(
    "all readers look, and find nothing",
    "readers",
    "idle",
    "s",
    {"reader": _of("readers")},
    "One look at the folder of the log, fifty times a second.",
)
LOOK = Cost(
    "a server looks at its standing queries after a commit",
    "fanout",
    "look",
    "s",
    {"window": _of("windows"), "changed query": _of("queries")},
    "Each window is summed up once; each change is written as text once, whoever listens.",
)
TELL = Cost(
    "a server tells its clients",
    "fanout",
    "tell",
    "s",
    {"client": _of("told")},
    "Each client that is woken finds what is new by itself.",
)
SENT = Cost(
    "bytes of events of a commit", "fanout", "bytes", "bytes", {"changed query": _of("queries")}, "A line of JSON each."
)
CLIENTS = Cost(
    "memory of clients",
    "fanout",
    "memory",
    "bytes",
    {"client": _of("clients")},
    "Two coroutines, a bell, and where its queries are.",
)
COSTS = {
    "ingest": INGEST,
    "merge": MERGE,
    "data": DATA,
    "side": SIDE,
    "recent": RECENT,
    "held": HELD,
    "summaries": SUMMARIES,
    "commit": COMMIT,
    "follow": FOLLOW,
    "open": OPEN,
    "readers": READERS,
    "idle": IDLE,
    "question": QUESTION,
    "look": LOOK,
    "tell": TELL,
    "sent": SENT,
    "clients": CLIENTS,
}


def fits(report: Report) -> dict[str, Fit]:
    """Every cost, fitted to a report."""
    return {name: fit(cost, report.rows[cost.rows]) for name, cost in COSTS.items()}
