"""Conditions: is a quantile above or below a limit, as far as that is proved: no, possible or certain.

Let c be the number of elements that are at most x and r the target rank of phi. The quantile is above x exactly when
c < r. It is below x exactly when at least r elements are smaller than x. A summary bounds such counts by lo..hi, so

    certain, or no, when every count in lo..hi decides it so;        possible otherwise

and approximation alone raises no alarm. A state is kept while it must still be right: k arrivals raise a count by
0 to k. `possible` is kept while the count is surely within eps*n of phi*n.
"""

from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.kernels.cluster_evaluation import NEVER
from quantide.queries.marked_sketch import StreamTuples
from quantide.queries.query_registry import ALMOST_ONE, UNCLUSTERED, QueryRegistry, finest_precisions
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import target_ranks
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Bools, Floats, Ints

STATES = ("no", "possible", "certain")
NO, POSSIBLE, CERTAIN = range(3)
UNPUBLISHED = -1
ROUNDING = 1e-6  # ranks that floating point may lose
CONDITION_BIT = 1 << 62  # distinguishes the id of a condition from that of a query


class Conditions(QueryRegistry):
    """All conditions of a monitor, as flat arrays beside phi and eps."""

    FIELDS = (*QueryRegistry.FIELDS, "limit", "inclusive", "above", "state", "published_state", "due")

    def __init__(self) -> None:
        super().__init__()
        self.limit: Array = np.empty(0)  # in the carrier type of kernels
        self.inclusive, self.above = np.empty(0, dtype=bool), np.empty(0, dtype=bool)
        self.state, self.published_state, self.due = (np.empty(0, dtype=np.int64) for _ in range(3))
        self.raw_limits: dict[int, Any] = {}  # given before the type of the values was known

    def watch(self, phi: Floats, eps: Floats, limit: Any, above: bool, kind: ValueType | None) -> int:
        """Add a condition; return its index."""
        encoded = encode_limit(limit, above, kind) if kind is not None else None
        index = int(self.add(phi, eps)[0])
        self.above[index], self.state[index], self.published_state[index] = above, POSSIBLE, UNPUBLISHED
        self.due[index] = -1
        self.raw_limits.pop(index, None)
        if encoded is None or kind is None:
            self.raw_limits[index] = limit
        else:
            self._set_limit(index, encoded, kind)
        return index

    def remove(self, indices: Ints) -> None:
        super().remove(indices)
        for index in indices.tolist():
            self.raw_limits.pop(index, None)

    def raise_precisions(self, eps: float, tail: float | None) -> None:
        """Raise precisions to the finest ones, after the tail of the values became larger or None."""
        active = self.active()
        finest = np.minimum(2 * finest_precisions(self.phi[active], eps, tail), ALMOST_ONE)
        self.eps[active], self.due[active] = np.maximum(self.eps[active], finest), -1

    def check_limits(self, kind: ValueType) -> None:
        """Raise if a limit that was given before the type of the values was known does not fit that type."""
        for index, limit in self.raw_limits.items():
            encode_limit(limit, bool(self.above[index]), kind)

    def evaluate(self, tuples: StreamTuples, n: int, kind: ValueType, due_before: int, strict: bool = False) -> bool:
        """Evaluate every condition with an earlier deadline than `due_before`.

        If `strict`, return False and change no state if the tuples are too coarse for the precision of any of them.
        """
        for index in list(self.raw_limits):
            self._set_limit(index, encode_limit(self.raw_limits[index], bool(self.above[index]), kind), kind)
            del self.raw_limits[index]
        some = np.flatnonzero((self.slot[: self.used] == UNCLUSTERED) & (self.due[: self.used] < due_before))
        limits, inclusive = self.limit[some], self.inclusive[some]
        after, before = (np.searchsorted(tuples.values, limits, side=side) for side in ("right", "left"))
        following = np.where(inclusive, after, before)
        low = np.concatenate(([0], tuples.rmin))[following]
        high = np.concatenate((tuples.rmax - 1, [n]))[following]
        phi, eps = self.phi[some], self.eps[some]
        states, due = decide_states(low, high, phi, eps, self.above[some], n)
        if strict and ((states == POSSIBLE) & ((low < (phi - eps) * n) | (high > (phi + eps) * n))).any():
            return False
        self.state[some], self.due[some] = states, due
        return True

    def first_due(self) -> int:
        """Earliest deadline of all conditions."""
        due = self.due[: self.used][self.slot[: self.used] == UNCLUSTERED]
        return int(due.min()) if len(due) else NEVER

    def publish(self) -> list[tuple[int, str]]:
        """Return the ids and states of conditions whose state differs from the last published one; record them."""
        used = slice(self.used)
        changed = np.flatnonzero((self.slot[used] == UNCLUSTERED) & (self.state[used] != self.published_state[used]))
        self.published_state[changed] = self.state[changed]
        ids = self.ids(changed).tolist()
        return [(id | CONDITION_BIT, STATES[state]) for id, state in zip(ids, self.state[changed], strict=True)]

    def _set_limit(self, index: int, encoded: tuple[Any, bool], kind: ValueType) -> None:
        if not kind.is_float and self.limit.dtype != np.int64:  # no limit is set yet, only capacity
            self.limit = np.zeros(len(self.limit), dtype=np.int64)
        self.limit[index], self.inclusive[index] = encoded


def is_condition(id: Any) -> bool:
    """Return True if this is the id of a condition."""
    return isinstance(id, (int, np.integer)) and not isinstance(id, bool) and bool(id >= CONDITION_BIT)


def read_condition_id(id: Any) -> int:
    """Return the id of a condition in its registry."""
    if not is_condition(id):
        raise InvalidArgumentError(f"the id of a condition is the number that watch() returned, not {id!r}")
    return int(id) & ~CONDITION_BIT


def encode_limit(limit: Any, above: bool, kind: ValueType) -> tuple[Any, bool]:
    """Return a limit as a number to compare with, and True if elements equal to that number count."""
    numbers, below, single = read_query_values(limit, kind)
    if not single:
        raise InvalidArgumentError(f"a condition has one limit, not {limit!r}")
    if below[0]:  # below the range of the type: no element counts
        return np.iinfo(np.int64).min, False
    strict, none_below, _ = read_query_values(limit, kind, inclusive=False)
    reached = none_below[0] or strict[0] != numbers[0]  # a limit between two numbers is rounded down to one below it
    return numbers[0], above or not reached


def decide_states(low: Ints, high: Ints, phi: Floats, eps: Floats, above: Bools, n: int) -> tuple[Ints, Ints]:
    """Return the states of conditions whose counts lie in low..high, and the n up to which each surely stays so."""
    target = target_ranks(phi, n)
    short, enough = high < target, low >= target  # elements to reach the target
    state = np.where(above, np.where(short, CERTAIN, NO), np.where(short, NO, CERTAIN))
    state = np.where(short | enough, state, POSSIBLE)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # infinities are clipped below
        until_enough = np.ceil((phi * n - high) / (1 - phi) - ROUNDING) - 1
        until_short = low / phi - n - ROUNDING
        before = np.where(phi > eps, (low - (phi - eps) * n) / (phi - eps), np.inf)
        after = np.where(phi + eps < 1, ((phi + eps) * n - high) / (1 - phi - eps), np.inf)
    arrivals = np.where(short, until_enough, np.where(enough, until_short, np.minimum(before, after)))
    arrivals = np.where(short & (phi == 1), np.inf, arrivals)
    return state, n + np.floor(np.clip(arrivals, 0, float(NEVER // 2))).astype(np.int64)
