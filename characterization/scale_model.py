"""The cost model: each cost a sum of few terms, whose coefficients are fitted to what was measured.

Coefficients are not negative, and fit so that the relative differences are small at all sizes: least squares of
(predicted - measured) / measured, over the terms that help.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.report import Report, Row

TOLERANCE = 0.3  # a prediction further off than this is said to be off

Term = Callable[[Row], float]


@dataclass(frozen=True)
class Cost:
    """What is modelled: `column` of the rows called `rows`, in `unit`, as a sum of terms by the name of each."""

    title: str
    rows: str
    column: str
    unit: str
    terms: Mapping[str, Term]
    reason: str


@dataclass(frozen=True)
class Fit:
    """A cost with the coefficients of its terms."""

    cost: Cost
    coefficients: Mapping[str, float]

    def predict(self, **row: float) -> float:
        return sum(weight * self.cost.terms[name](row) for name, weight in self.coefficients.items())

    def off(self, row: Row) -> float:
        """How far the prediction is from what was measured, as a fraction of that."""
        return float(self.predict(**row) / row[self.cost.column] - 1)


def fit(cost: Cost, rows: Sequence[Row]) -> Fit:
    """The best of all choices of terms whose coefficients come out positive."""
    measured = np.array([row[cost.column] for row in rows], dtype=float)
    columns = {name: np.array([term(row) for row in rows]) / measured for name, term in cost.terms.items()}
    best, least = dict.fromkeys(columns, 0.0), math.inf
    for size in range(1, len(columns) + 1):
        for names in combinations(columns, size):
            table = np.stack([columns[name] for name in names], axis=1)
            found, *_ = np.linalg.lstsq(table, np.ones(len(rows)), rcond=None)
            error = float(((table @ found - 1) ** 2).sum())
            if (found > 0).all() and error < least:
                best, least = dict.fromkeys(columns, 0.0) | dict(zip(names, found.tolist(), strict=True)), error
    return Fit(cost, best)


def kept(each: float, eps: float) -> float:
    """Tuples of a summary within eps of so many values: ranks 2*floor(eps*n) + 1 apart, and the last."""
    apart = 2 * math.floor(eps * each) + 1
    return min(each, math.ceil((each - 1) / apart) + 1)


def depth(steps: int, kappa: int) -> int:
    """Levels after so many steps: a run of level l has (kappa + 1)^l of them.

    >>> depth(10, 10), depth(11, 10), depth(121, 10)
    (1, 2, 3)
    """
    levels, span = 1, kappa + 1
    while span <= steps:
        levels, span = levels + 1, span * (kappa + 1)
    return levels


def rewritten(steps: int, kappa: int) -> float:
    """How often a value is written again by levels: a step whose number is divided by (kappa + 1)^l, and by no higher
    power, ends with a merge of that many steps.

    >>> rewritten(4, 3), rewritten(16, 3)
    (1.0, 1.75)
    """
    base, total, span = kappa + 1, 0, kappa + 1
    while span <= steps:
        total += span * (steps // span - steps // (span * base))
        span *= base
    return total / steps


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
