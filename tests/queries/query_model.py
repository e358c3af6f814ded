"""Slow model of continuous queries: all values, sorted at every question."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from quantide import Monitor
from tests import oracle


def faults(monitor: Monitor, registered: dict[int, tuple[float, float]], data: list[Any]) -> list[str]:
    """Faults in a monitor's answers: a value outside its precision, a false certificate."""
    messages = []
    ordered, n = sorted(data), len(data)
    for one, (phi, eps) in registered.items():
        answer = monitor.answer(one)
        in_force = max(eps, monitor.eps)
        first, last = oracle.occupied(ordered, answer.value)
        target = oracle.target_rank(phi, n)
        if first > last or max(first - target, target - last) > in_force * n + 1e-9:
            messages.append(f"query {phi}, {eps} is answered {answer.value} at n = {n}")
        if answer.error > in_force + 1e-9:
            messages.append(f"query {phi}, {eps} has an error of {answer.error} at n = {n}")
        messages += oracle.bound_faults(ordered, answer)
    return messages


def states(data: list[Any], phi: float, eps: float, above: Any, below: Any) -> set[str]:
    """States that a condition may have: the true one, or `possible` if the limit is within eps of the quantile."""
    ordered, n = sorted(data), len(data)
    target = oracle.target_rank(phi, n)
    count = bisect_right(ordered, above) if below is None else bisect_left(ordered, below)
    holds = count < target if below is None else count >= target
    near = abs(count - phi * n) <= eps * n + 1e-6 or abs(count - target) < 1
    return {"certain" if holds else "no"} | ({"possible"} if near else set())


def finest(monitor: Monitor, phi: float) -> float:
    """The finest precision of a cluster at phi."""
    if monitor.tail is None:
        return monitor.eps
    return min(monitor.eps, max(monitor._evaluator.least, monitor.tail * min(phi, 1 - phi)))


def clusters_faults(monitor: Monitor) -> list[str]:
    """Faults in the clusters: an interval that does not contain its cluster's, a wrong order."""
    c = monitor._evaluator.clusters
    if c is None:
        return []
    messages = []
    spans = c.span[c.ordered]
    if not ((np.diff(spans[:, 0]) > 0).all() and (np.diff(spans[:, 1]) > 0).all()):
        messages.append(f"clusters contain each other: {spans.tolist()}")
    if (spans[:, 0] > spans[:, 1]).any():
        messages.append(f"a cluster of nothing: {spans.tolist()}")
    queries, roots = monitor._evaluator.queries, c.roots()
    members = np.zeros(c.used, dtype=np.int64)
    for place in queries.active():
        if queries.slot[place] >= 0:
            own = roots[queries.slot[place]]
            members[own] += 1
            low, high = (queries.phi[place] + sign * queries.eps[place] for sign in (-1, 1))
            left, right = c.span[own]
            if left - finest(monitor, left) < low - 1e-12 or right + finest(monitor, right) > high + 1e-12:
                messages.append(f"query {low}..{high} in cluster {c.span[own]}")
    if not np.array_equal(members[c.ordered], c.members[c.ordered]) or (members[c.ordered] == 0).any():
        messages.append("clusters count their queries wrong")
    if (c.due[c.ordered] < 0).any() and not c.unevaluated[0]:
        messages.append("a new cluster is not marked as unevaluated")
    return messages


def exact_life(rmin: int, rmax: int, low: Fraction, high: Fraction, n: int, most: int = 10_000) -> int:
    """Return the number of arrivals, in the worst places, for which an element still answers; -1 if not even now."""
    lasting = -1
    for k in range(most):
        if (low > 0 and rmin < low * (n + k) + 1) or rmax + k > high * (n + k):
            break
        lasting = k
    return lasting


def cheapest(left: list[float], right: list[float], eps: float) -> float:
    """The smallest cost of any partition into clusters that share more than a point, by trying all of them."""
    m = len(left)
    best = math.inf
    for parts in _partitions(list(range(m))):
        total = 0.0
        for part in parts:
            length = min(right[i] for i in part) - max(left[i] for i in part)
            if length <= 0 and (len(part) > 1 or left[part[0]] != right[part[0]]):
                total = math.inf
                break
            total += 1 / math.log1p(length / (2 * (1 - eps))) if length > 0 else 0.0
        best = min(best, total)
    return best


def fewest_points(left: list[float], right: list[float]) -> int:
    """The smallest number of points such that every interval has one, by trying all sets of right ends."""
    ends = sorted(set(right))
    for size in range(len(ends) + 1):
        for some in combinations(ends, size):
            if all(any(a <= x <= b for x in some) for a, b in zip(left, right, strict=True)):
                return size
    return len(ends)


def _partitions(items: list[int]) -> Any:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in _partitions(rest):
        yield [[first], *smaller]
        for i in range(len(smaller)):
            yield [*smaller[:i], [first, *smaller[i]], *smaller[i + 1 :]]
