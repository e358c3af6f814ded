"""Exact, naive answers to compare everything fast with.

Written from algorithms.md sections 0 and 1 alone: nothing here imports quantide or knows how it works.
Plain sorts, binary searches and loops; a question costs a sort of all the data.

`Data` is everything the summary was made of: a numpy array, or any sequence whose elements can be ordered.
The `*_faults` functions say what is wrong, in words.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Data: TypeAlias = Sequence[Any] | npt.NDArray[Any]
SLACK = 1e-6  # in ranks: what floating point may lose in phi*n and eps*n; ranks are whole numbers


class Tuples(Protocol):
    """Attributes of a summary that the oracle reads."""

    @property
    def values(self) -> Any: ...
    @property
    def rmin(self) -> Any: ...
    @property
    def rmax(self) -> Any: ...
    @property
    def n(self) -> int: ...
    @property
    def rank_error(self) -> int: ...


class AnswerLike(Protocol):
    """Attributes of an answer that the oracle reads."""

    @property
    def value(self) -> Any: ...
    @property
    def phi(self) -> float: ...
    @property
    def rank_lo(self) -> int: ...
    @property
    def rank_hi(self) -> int: ...
    @property
    def target(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def n_lo(self) -> int: ...
    @property
    def n_hi(self) -> int: ...
    @property
    def error(self) -> float: ...


def in_order(data: Data) -> Data:
    """The data, sorted."""
    return np.sort(data) if isinstance(data, np.ndarray) else sorted(data)


def target_rank(phi: float, n: int) -> int:
    """The rank that phi asks for among n elements, from 1."""
    return max(1, math.ceil(phi * n - 1e-9))


def occupied(data: Data, value: Any) -> tuple[int, int]:
    """The first and last rank of `value`; last is first - 1 when it is not an element."""
    ordered = in_order(data)
    return bisect_left(ordered, value) + 1, bisect_right(ordered, value)


def count_at_most(data: Data, value: Any) -> int:
    """Return the number of elements <= value."""
    return occupied(data, value)[1]


def exact_quantile(data: Data, phi: float) -> Any:
    """The element of the target rank."""
    return in_order(data)[target_rank(phi, len(data)) - 1]


def wrong_answers(data: Data, values: Any, phis: Any, eps: float) -> list[tuple[float, Any]]:
    """The (phi, value), of many, that are not eps-correct: no element with a rank in [phi*N - eps*N, r + eps*N]."""
    ordered, n = in_order(data), len(data)
    wrong = []
    for phi, value in zip(phis, values, strict=True):
        first, last = bisect_left(ordered, value) + 1, bisect_right(ordered, value)
        low, high = phi * n - eps * n - SLACK, target_rank(phi, n) + eps * n + SLACK
        if first > last or last < low or first > high:
            wrong.append((float(phi), value))
    return wrong


def bound_faults(data: Data, answer: AnswerLike) -> list[str]:
    """Return the untrue claims of an answer's certificate."""
    first, last = occupied(data, answer.value)
    n, target = len(data), target_rank(answer.phi, len(data))
    far = max(answer.target - answer.rank_lo, answer.rank_hi - answer.target)
    away = max(0, first - answer.target, answer.target - last)
    claims = {
        "the value is not an element": first <= last,
        "the certified ranks are not in order": answer.rank_lo <= answer.rank_hi,
        "no rank of the value is certified": answer.rank_lo <= last and first <= answer.rank_hi,
        f"n is {n}": answer.n == n,
        f"n_lo..n_hi misses {n}": answer.n_lo <= n <= answer.n_hi,
        f"the target is {target}": answer.target == target,
        f"the error is {far}/{n}": math.isclose(answer.error, far / n, rel_tol=1e-12, abs_tol=1e-15),
        f"the value is {away} ranks away, farther than certified": away <= answer.error * n + SLACK,
    }
    return [f"{claim}: {answer}, ranks {first}..{last}" for claim, holds in claims.items() if not holds]


def gaps(rmin: Sequence[int], rmax: Sequence[int]) -> int:
    """G, the largest rmax_i - rmin_{i-1}; 0 for a single tuple."""
    return max((high - low for low, high in zip(rmin[:-1], rmax[1:], strict=True)), default=0)


def real_error(s: Tuples) -> Fraction:
    """The certified error in real ranks: max(rmax_1 - 1, n - rmin_m, G/2)."""
    rmin, rmax = _ranks(s)
    return max(Fraction(rmax[0] - 1), Fraction(s.n - rmin[-1]), Fraction(gaps(rmin, rmax), 2))


def by_value(s: Tuples, values: Sequence[Any] | None = None) -> tuple[list[int], list[int]]:
    """For each distinct value, rmin of its last tuple and rmax of its first: it has every rank between."""
    low: list[int] = []
    high: list[int] = []
    last = object()
    for value, rmin, rmax in zip(s.values if values is None else values, *_ranks(s), strict=True):
        if value == last:
            low[-1] = rmin
        else:
            low.append(rmin)
            high.append(rmax)
        last = value
    return low, high


def certified_error(s: Tuples, values: Sequence[Any] | None = None) -> int:
    """The certified error in whole ranks: max(rmax_1 - 1, n - rmin_m, floor(G/2)), G between values; 0 when empty."""
    low, high = by_value(s, values)
    return max(high[0] - 1, s.n - low[-1], gaps(low, high) // 2) if low else 0


def best_error(s: Tuples, rank: int | Fraction) -> int | Fraction:
    """Return the proved distance of the best value from a rank: min over values of max(0, r - rmin, rmax - r)."""
    return min(max(0, rank - low, high - rank) for low, high in zip(*by_value(s), strict=True))


def summary_faults(s: Tuples, data: Data, lifted: bool = False, values: Sequence[Any] | None = None) -> list[str]:
    """Return the untrue claims of a summary of `data` (its older, lifted-over elements included).

    `values` are the summary's values in the form of the data, where that is not `s.values`.
    """
    own = list(s.values if values is None else values)
    rmin, rmax = _ranks(s)
    if s.n != len(data):
        return [f"n is {s.n}, not {len(data)}"]
    if not len(own) == len(rmin) == len(rmax):
        return [f"{len(own)} values, {len(rmin)} rmin, {len(rmax)} rmax"]
    if not own:
        return ["no tuples"] if len(data) else []
    faults = shape_faults(s, own, lifted)
    faults += _rank_faults(own, rmin, rmax, in_order(data))
    if not lifted:
        ordered = in_order(data)
        faults += [] if own[0] == ordered[0] else [f"starts at {own[0]}, the minimum is {ordered[0]}"]
        faults += [] if own[-1] == ordered[-1] else [f"ends at {own[-1]}, the maximum is {ordered[-1]}"]
    return faults


def shape_faults(s: Tuples, values: Sequence[Any] | None = None, lifted: bool = True) -> list[str]:
    """Return the faults of a summary that no data could explain."""
    own = list(s.values if values is None else values)
    rmin, rmax = _ranks(s)
    if not own:
        return [] if s.n == 0 and s.rank_error == 0 else [f"no tuples, n {s.n}, rank error {s.rank_error}"]
    pairs = range(1, len(own))
    claims = {
        "rmin <= rmax": all(low <= high for low, high in zip(rmin, rmax, strict=True)),
        "values do not decrease": all(own[i - 1] <= own[i] for i in pairs),
        "rmin strictly increases": all(rmin[i - 1] < rmin[i] for i in pairs),
        "rmax does not decrease": all(rmax[i - 1] <= rmax[i] for i in pairs),
        "ranks lie in 1..n": rmin[0] >= 1 and rmax[-1] <= s.n,
        "the first has rank 1": lifted or (rmin[0], rmax[0]) == (1, 1),
        "the last has rank n": lifted or (rmin[-1], rmax[-1]) == (s.n, s.n),
        f"the rank error is {certified_error(s, own)}, not {s.rank_error}": s.rank_error == certified_error(s, own),
        "every rank is answered within it": _all_ranks_answered(*by_value(s, own), s.n, s.rank_error),
    }
    return [claim for claim, holds in claims.items() if not holds]


def _rank_faults(values: Sequence[Any], rmin: Sequence[int], rmax: Sequence[int], ordered: Data) -> list[str]:
    """Give every tuple the smallest rank it can have after the one before it: exact, by exchange."""
    rank = 0
    for value, low, high in zip(values, rmin, rmax, strict=True):
        first, last = bisect_left(ordered, value) + 1, bisect_right(ordered, value)
        if first > last:
            return [f"{value} is not an element"]
        rank = max(rank + 1, first, low)
        if rank > min(last, high):
            return [f"{value} at {first}..{last}, certified {low}..{high}, but ranks below {rank} are taken"]
    return []


def _all_ranks_answered(rmin: Sequence[int], rmax: Sequence[int], n: int, error: int) -> bool:
    """Return True if each rank has a value with max(r - rmin, rmax - r) <= error: each value serves an interval."""
    reached = 0
    served = [(high - error, low + error) for low, high in zip(rmin, rmax, strict=True)]
    for low, high in sorted(one for one in served if one[0] <= one[1]):
        if low > reached + 1:
            break
        reached = max(reached, high)
    return reached >= n


def _ranks(s: Tuples) -> tuple[list[int], list[int]]:
    return [int(r) for r in s.rmin], [int(r) for r in s.rmax]


@dataclass(frozen=True)
class Plain:
    """A summary as plain lists: what `merged` gives and takes."""

    values: list[Any]
    rmin: list[int]
    rmax: list[int]
    n: int

    @property
    def rank_error(self) -> int:
        return certified_error(self)


def plain(s: Tuples, values: Sequence[Any] | None = None) -> Plain:
    """A summary's tuples as lists."""
    return Plain(list(s.values if values is None else values), *_ranks(s), n=int(s.n))


def merged(parts: Sequence[Plain]) -> Plain:
    """The merge of section 1, k-way: equal values go by the index of their summary."""
    tuples = sorted(
        (value, index, low, high)
        for index, part in enumerate(parts)
        for value, low, high in zip(part.values, part.rmin, part.rmax, strict=True)
    )
    rmin, rmax = [], []
    for value, index, low, high in tuples:
        for other, part in enumerate(parts):
            if other == index:
                continue
            before = bisect_right(part.values, value) if other < index else bisect_left(part.values, value)
            low += part.rmin[before - 1] if before else 0
            high += part.rmax[before] - 1 if before < len(part.values) else part.n
        rmin.append(low)
        rmax.append(high)
    return Plain([t[0] for t in tuples], rmin, rmax, sum(part.n for part in parts))


def tail_faults(data: Data, quantiles: Callable[[Any], Any], eps: float, tail: float) -> list[str]:
    """Return the ranks whose answers are further away than eps * n, or than the tail's share of the way to an end.

    `data` is sorted. Of much data the ranks near the ends are tried, and some between.
    """
    array = np.asarray(data)
    n = len(array)
    ranks = np.arange(1, n + 1)
    if n > 6000:
        ranks = np.unique(np.concatenate((ranks[:2000], ranks[2000:-2000:97], ranks[-2000:])))
    values = np.asarray(quantiles(ranks / n))
    first = np.searchsorted(array, values, side="left") + 1
    last = np.searchsorted(array, values, side="right")
    distance = np.maximum(0, np.maximum(first - ranks, ranks - last))
    allowed = np.minimum(eps * n, tail * np.minimum(n - ranks, ranks - 1)) + 0.5
    wrong = (distance > allowed * (1 + 1e-12)) | (first > last)
    return [f"rank {r} of {n} is {d} off" for r, d in zip(ranks[wrong], distance[wrong], strict=True)]
