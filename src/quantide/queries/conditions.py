"""Conditions: whether a quantile is above or below a limit, as far as that is proved: no, possible or certain.

Let c be how many elements are at most x and r the rank that phi asks for. The quantile is above x exactly when c < r.
It is below x exactly when at least r elements are smaller than x. A summary bounds such counts by lo..hi, so

    certain, or no, when every count in lo..hi says so;        possible otherwise

and no alarm is raised by approximation alone. An answer is kept while it must still hold: k arrivals raise a count by
0 to k. A `possible` is kept while the count is sure to be within eps*n of phi*n.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError
from quantide.kernels.life import NEVER
from quantide.queries.registry import NEW, Registry
from quantide.queries.source import Tuples
from quantide.summary.asked import read_asked
from quantide.summary.ranks import target_ranks
from quantide.summary.types import ValueType

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STATES = ("no", "possible", "certain")
NO, POSSIBLE, CERTAIN = range(3)
UNTOLD = -1
ROUNDED = 1e-6  # ranks, for what floating point may lose


class Conditions(Registry):
    """All conditions of a monitor, as flat arrays beside phi and eps."""

    FIELDS = (*Registry.FIELDS, "limit", "inclusive", "above", "state", "said", "due")

    def __init__(self) -> None:
        super().__init__()
        self.limit: NDArray[Any] = np.empty(0)  # as the numbers that kernels see
        self.inclusive, self.above = np.empty(0, dtype=bool), np.empty(0, dtype=bool)
        self.state, self.said, self.due = (np.empty(0, dtype=np.int64) for _ in range(3))
        self.raw: dict[int, Any] = {}  # limits given before the type of the values was known

    def watch(self, phi: Floats, eps: Floats, limit: Any, above: bool, kind: ValueType | None) -> int:
        carried = carried_limit(limit, above, kind) if kind is not None else None
        place = int(self.add(phi, eps)[0])
        self.above[place], self.state[place], self.said[place], self.due[place] = above, POSSIBLE, UNTOLD, -1
        self.raw.pop(place, None)
        if carried is None or kind is None:
            self.raw[place] = limit
        else:
            self._set_limit(place, carried, kind)
        return place

    def remove(self, places: Ints) -> None:
        super().remove(places)
        for place in places.tolist():
            self.raw.pop(place, None)

    def check_limits(self, kind: ValueType) -> None:
        """Refuse a type of values that limits given before it was known do not fit."""
        for place, limit in self.raw.items():
            carried_limit(limit, bool(self.above[place]), kind)

    def evaluate(self, tuples: Tuples, n: int, kind: ValueType, due_before: int) -> None:
        """Decide every condition whose deadline is before that."""
        for place in list(self.raw):
            self._set_limit(place, carried_limit(self.raw[place], bool(self.above[place]), kind), kind)
            del self.raw[place]
        some = np.flatnonzero((self.slot[: self.used] == NEW) & (self.due[: self.used] < due_before))
        asked, inclusive = self.limit[some], self.inclusive[some]
        upto, before = (np.searchsorted(tuples.values, asked, side=side) for side in ("right", "left"))
        following = np.where(inclusive, upto, before)
        low = np.concatenate(([0], tuples.rmin))[following]
        high = np.concatenate((tuples.rmax - 1, [n]))[following]
        self.state[some], self.due[some] = decide(low, high, self.phi[some], self.eps[some], self.above[some], n)

    def first_due(self) -> int:
        """The first deadline of all."""
        due = self.due[: self.used][self.slot[: self.used] == NEW]
        return int(due.min()) if len(due) else NEVER

    def tell(self) -> list[tuple[int, str]]:
        """The conditions that are in another state than was said last, with the one they are in now."""
        used = slice(self.used)
        changed = np.flatnonzero((self.slot[used] == NEW) & (self.state[used] != self.said[used]))
        self.said[changed] = self.state[changed]
        return [(i, STATES[s]) for i, s in zip(self.ids(changed).tolist(), self.state[changed], strict=True)]

    def _set_limit(self, place: int, carried: tuple[Any, bool], kind: ValueType) -> None:
        if not kind.is_float and self.limit.dtype != np.int64:  # nothing but room so far
            self.limit = np.zeros(len(self.limit), dtype=np.int64)
        self.limit[place], self.inclusive[place] = carried


def carried_limit(limit: Any, above: bool, kind: ValueType) -> tuple[Any, bool]:
    """A limit as a number to compare with, and whether elements equal to that number count."""
    try:
        return _carried_limit(limit, above, kind)
    except OverflowError as error:
        raise InvalidArgumentError("a limit beyond what numbers can hold; give one that values can reach") from error


def _carried_limit(limit: Any, above: bool, kind: ValueType) -> tuple[Any, bool]:
    numbers, below, single = read_asked(limit, kind)
    if not single:
        raise InvalidArgumentError(f"a condition has one limit, not {limit!r}")
    if below[0]:  # of everything there can be: no element counts
        return np.iinfo(np.int64).min, False
    exact = kind.is_temporal or bool(kind.restore(numbers.astype(kind.carrier))[0] == limit)  # a time is never rounded
    return numbers[0], above or not exact


def decide(low: Ints, high: Ints, phi: Floats, eps: Floats, above: NDArray[np.bool_], n: int) -> tuple[Ints, Ints]:
    """The states of conditions whose counts lie in low..high, and until which n they surely stay so."""
    target = target_ranks(phi, n)
    short, enough = high < target, low >= target  # of elements, to reach the target
    state = np.where(above, np.where(short, CERTAIN, NO), np.where(short, NO, CERTAIN))
    state = np.where(short | enough, state, POSSIBLE)
    with np.errstate(divide="ignore", invalid="ignore"):
        until_enough = np.ceil((phi * n - high) / (1 - phi) - ROUNDED) - 1
        until_short = low / phi - n - ROUNDED
        before = np.where(phi > eps, (low - (phi - eps) * n) / (phi - eps), np.inf)
        after = np.where(phi + eps < 1, ((phi + eps) * n - high) / (1 - phi - eps), np.inf)
    lasts = np.where(short, until_enough, np.where(enough, until_short, np.minimum(before, after)))
    lasts = np.where(short & (phi == 1), np.inf, lasts)
    return state, n + np.floor(np.clip(lasts, 0, float(NEVER // 2))).astype(np.int64)
