"""The cost model: each cost a sum of few terms, whose coefficients are fitted to what was measured.

Coefficients are not negative, and fit so that the relative differences are small at all sizes: least squares of
(predicted - measured) / measured, over the terms that help.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.report import Row

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
