"""Triggers (QUERIES section 3.5.2, Algorithm 4): a heap of absolute deadlines.

The paper's heap of differences, whose root is lowered by one at each arrival, is the same as a heap of the numbers of
arrivals at which triggers fire: then an arrival touches nothing. heap[0] is how many are in it, heap[1] the next one;
place[c] is where cluster c is, 0 when it is not there.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.kernels.life import evaluate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = NDArray[Any]


@compiled
def sink(heap: Ints, place: Ints, due: Ints, some: Ints) -> None:
    """Let the entries at these places, from the last to the first, go down to where they belong."""
    for k in range(len(some) - 1, -1, -1):
        i = some[k]
        c = heap[i]
        while 2 * i <= heap[0]:
            child = 2 * i
            if child < heap[0] and due[heap[child + 1]] < due[heap[child]]:
                child += 1
            if due[heap[child]] >= due[c]:
                break
            heap[i] = heap[child]
            place[heap[i]] = i
            i = child
        heap[i] = c
        place[c] = i


@compiled
def rise(heap: Ints, place: Ints, due: Ints, i: int) -> None:
    """Let the entry at place i go up to where it belongs."""
    c = heap[i]
    while i > 1 and due[heap[i // 2]] > due[c]:
        heap[i] = heap[i // 2]
        place[heap[i]] = i
        i //= 2
    heap[i] = c
    place[c] = i


@compiled
def put(heap: Ints, place: Ints, due: Ints, c: int, deadline: int) -> None:
    """Give a cluster a deadline, an earlier one if it has one already."""
    due[c] = deadline
    if place[c] == 0:
        heap[0] += 1
        place[c] = heap[0]
        heap[place[c]] = c
    rise(heap, place, due, place[c])


@compiled
def remove(heap: Ints, place: Ints, due: Ints, c: int) -> None:
    i, last = place[c], heap[heap[0]]
    heap[0] -= 1
    place[c] = 0
    if last != c:
        heap[i] = last
        place[last] = i
        sink(heap, place, due, np.array([i]))
        rise(heap, place, due, place[last])


@compiled
def fire(
    heap: Ints,
    place: Ints,
    due: Ints,
    span: Floats,
    value: Values,
    ranks: Ints,
    values: Values,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    strict: bool,
) -> tuple[int, int, int]:
    """Evaluate every cluster whose deadline is before n: how that ended, how many, how many triggers that were.

    These are the upper part of the heap, which is put in order once all have new deadlines: from below, so that most
    sink by little. A cluster that is new or was narrowed has the deadline -1, which is no trigger.
    """
    passed = np.empty(heap[0] + 1, dtype=np.int64)
    found = looked = 0
    if heap[0] > 0 and due[heap[1]] < n:
        passed[0], found = 1, 1
    while looked < found:
        i = passed[looked]
        for child in range(2 * i, min(2 * i + 2, heap[0] + 1)):
            if due[heap[child]] < n:
                passed[found] = child
                found += 1
        looked += 1
    clusters = heap[passed[:found]]
    deadlines = due[clusters]
    status, done = evaluate(clusters, span, value, ranks, due, values, rmin, rmax, n, eps, strict, False)
    sink(heap, place, due, passed[:found])
    return status, done, int(np.count_nonzero(deadlines[:done] >= 0))
