"""Offline clustering of query intervals (QUERIES section 3.3): preprocessing, QC-A and QC-B.

Intervals are arrays of left and right ends. A cluster is a range of neighbours first..last among sorted intervals none
of which contains another; their intersection is [left[last], right[first]].
"""

import math

import numpy as np

from quantide.kernels.jit import compiled, pure
from quantide.typing import Floats


@pure
def select_innermost(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the intervals that contain no other, one of equal ones; given in the order of their left ends.

    Scan from the right: an interval contains a later one exactly if it does not end before all of those.
    """
    at = len(left)
    lefts, rights = np.empty(at), np.empty(at)
    for i in range(len(left) - 1, -1, -1):
        if at == len(left) or right[i] < rights[at]:
            if at == len(left) or left[i] < lefts[at]:
                at -= 1  # else: of two with the same left end the shorter stays
            lefts[at], rights[at] = left[i], right[i]
    return lefts[at:].copy(), rights[at:].copy()


@pure
def cluster_fewest(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """QC-B, the fewest clusters: a sweep in which a cluster takes every interval that begins before its first ends."""
    lefts, rights = np.empty(len(left)), np.empty(len(left))
    at = -1
    for i in range(len(left)):
        if at < 0 or left[i] > rights[at]:
            at += 1
            rights[at] = right[i]
        lefts[at] = left[i]
    return lefts[: at + 1].copy(), rights[: at + 1].copy()


@compiled
def cluster_cost(length: float, eps: float) -> float:
    """Worst-case cost of a cluster of this length: its re-evaluations grow as this times ln N (Theorem 6)."""
    growth = math.log1p(length / (2 * (1 - eps)))
    return 1 / growth if growth > 0 else math.inf


@pure
def cluster_worst_case(left: Floats, right: Floats, eps: float) -> tuple[Floats, Floats]:
    """QC-A: the partition into ranges j..i with the smallest sum of cost(right[j] - left[i]), by dynamic programming.

    C(i) = min over j of C(j-1) + cost(right[j] - left[i]). The cost is convex, and both ends rise, so for j < k and
    i < l: cost(j,i) + cost(k,l) <= cost(j,l) + cost(k,i). Hence a later j that is better stays better, and a
    queue of candidates, each with the first i it is best for, finds all minima in O(m log m); the paper's loop over
    all overlapping j would be quadratic. Points are clusters of their own: no other interval in the list overlaps them.
    """
    m = len(left)
    total = np.zeros(m + 1)  # C, shifted by one
    choice = np.empty(m, dtype=np.int64)
    queue, best_starts = np.empty(m + 1, dtype=np.int64), np.empty(m + 1, dtype=np.int64)
    front, back = 0, 0
    for i in range(m):
        if left[i] == right[i]:
            total[i + 1], choice[i] = total[i], i
            front = back = 0
            continue
        best_from = i
        while back > front:
            last = queue[back - 1]
            start = max(best_starts[back - 1], i)
            if total[i] + cluster_cost(right[i] - left[start], eps) <= total[last] + cluster_cost(
                right[last] - left[start], eps
            ):
                back -= 1
                continue
            low, high = start, m
            while high - low > 1:
                middle = (low + high) // 2
                new = total[i] + cluster_cost(right[i] - left[middle], eps)
                if new <= total[last] + cluster_cost(right[last] - left[middle], eps):
                    high = middle
                else:
                    low = middle
            best_from = high
            break
        if best_from < m:
            queue[back], best_starts[back] = i, best_from
            back += 1
        while back - front > 1 and best_starts[front + 1] <= i:
            front += 1
        j = queue[front]
        total[i + 1], choice[i] = total[j] + cluster_cost(right[j] - left[i], eps), j
    lefts, rights = np.empty(m), np.empty(m)
    at, i = m, m - 1
    while i >= 0:
        at -= 1
        lefts[at], rights[at] = left[i], right[choice[i]]
        i = choice[i] - 1
    return lefts[at:].copy(), rights[at:].copy()
