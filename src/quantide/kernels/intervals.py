"""Clustering of query intervals that are all known (QUERIES section 3.3): preprocessing, QC-A and QC-B.

Intervals are arrays of left and right ends. A cluster is a run of neighbours first..last among sorted intervals none
of which contains another; what all of them share is [left[last], right[first]].
"""

import math

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled, pure

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@pure
def innermost(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The intervals that contain no other, given in the order of their left ends; of equal ones, one.

    From the right: an interval contains one that begins later exactly when it does not end before all of those.
    """
    at = len(left)
    lefts, rights = np.empty(at), np.empty(at)
    for i in range(len(left) - 1, -1, -1):
        if at == len(left) or right[i] < rights[at]:
            if at == len(left) or left[i] < lefts[at]:
                at -= 1  # else: of two that begin together the shorter is kept
            lefts[at], rights[at] = left[i], right[i]
    return lefts[at:].copy(), rights[at:].copy()


@pure
def fewest(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """QC-B: sweep from the left; a cluster takes every interval that begins before its first one ends."""
    lefts, rights = np.empty(len(left)), np.empty(len(left))
    at = -1
    for i in range(len(left)):
        if at < 0 or left[i] > rights[at]:
            at += 1
            rights[at] = right[i]
        lefts[at] = left[i]
    return lefts[: at + 1].copy(), rights[: at + 1].copy()


@compiled
def cost(length: float, eps: float) -> float:
    """What a cluster of this length adds to the worst case: re-evaluations grow as this times ln N (Theorem 6)."""
    growth = math.log1p(length / (2 * (1 - eps)))
    return 1 / growth if growth > 0 else math.inf


@pure
def worst_case(left: Floats, right: Floats, eps: float) -> tuple[Floats, Floats]:
    """QC-A: the partition into runs j..i with the smallest sum of cost(right[j] - left[i]), by dynamic programme.

    C(i) = min over j of C(j-1) + cost(right[j] - left[i]). The cost is convex, and both ends rise, so for j < k and
    i < l: cost(j,i) + cost(k,l) <= cost(j,l) + cost(k,i). Hence once a later j is better it stays better, and a
    queue of candidates, each with the first i it is best for, finds all minima in O(m log m); the paper's loop over
    all overlapping j would be quadratic. Points stand alone: nothing else in the list reaches them.
    """
    m = len(left)
    total = np.zeros(m + 1)  # C, shifted by one
    choice = np.empty(m, dtype=np.int64)
    queue, begins = np.empty(m + 1, dtype=np.int64), np.empty(m + 1, dtype=np.int64)
    front, back = 0, 0
    for i in range(m):
        if left[i] == right[i]:
            total[i + 1], choice[i] = total[i], i
            front = back = 0
            continue
        best_from = i
        while back > front:
            last = queue[back - 1]
            start = max(begins[back - 1], i)
            if total[i] + cost(right[i] - left[start], eps) <= total[last] + cost(right[last] - left[start], eps):
                back -= 1
                continue
            low, high = start, m
            while high - low > 1:
                middle = (low + high) // 2
                new = total[i] + cost(right[i] - left[middle], eps)
                if new <= total[last] + cost(right[last] - left[middle], eps):
                    high = middle
                else:
                    low = middle
            best_from = high
            break
        if best_from < m:
            queue[back], begins[back] = i, best_from
            back += 1
        while back - front > 1 and begins[front + 1] <= i:
            front += 1
        j = queue[front]
        total[i + 1], choice[i] = total[j] + cost(right[j] - left[i], eps), j
    lefts, rights = np.empty(m), np.empty(m)
    at, i = m, m - 1
    while i >= 0:
        at -= 1
        lefts[at], rights[at] = left[i], right[choice[i]]
        i = choice[i] - 1
    return lefts[at:].copy(), rights[at:].copy()
