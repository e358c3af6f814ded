"""Triggers (QUERIES section 3.5.2, Algorithm 4): a heap of absolute deadlines.

The paper's heap stores differences and lowers its root by one at each arrival. This heap stores the number of arrivals
at which a trigger fires, which is the same, and an arrival changes nothing. heap[0] is the number of entries, heap[1]
the next one; heap_index[c] is the index of cluster c in the heap, 0 if it has no entry.
"""

import numpy as np

from quantide.kernels.cluster_evaluation import evaluate
from quantide.kernels.jit import compiled
from quantide.typing import Array, Floats, Ints


@compiled
def sift_down(heap: Ints, heap_index: Ints, due: Ints, indices: Ints) -> None:
    """Move the entries at these indices, from the last to the first, down to where they belong."""
    for k in range(len(indices) - 1, -1, -1):
        i = indices[k]
        c = heap[i]
        while 2 * i <= heap[0]:
            child = 2 * i
            if child < heap[0] and due[heap[child + 1]] < due[heap[child]]:
                child += 1
            if due[heap[child]] >= due[c]:
                break
            heap[i] = heap[child]
            heap_index[heap[i]] = i
            i = child
        heap[i] = c
        heap_index[c] = i


@compiled
def sift_up(heap: Ints, heap_index: Ints, due: Ints, i: int) -> None:
    """Move the entry at index i up to where it belongs."""
    c = heap[i]
    while i > 1 and due[heap[i // 2]] > due[c]:
        heap[i] = heap[i // 2]
        heap_index[heap[i]] = i
        i //= 2
    heap[i] = c
    heap_index[c] = i


@compiled
def set_deadline(heap: Ints, heap_index: Ints, due: Ints, c: int, deadline: int) -> None:
    """Give a cluster a deadline, an earlier one if it has one already."""
    due[c] = deadline
    if heap_index[c] == 0:
        heap[0] += 1
        heap_index[c] = heap[0]
        heap[heap_index[c]] = c
    sift_up(heap, heap_index, due, heap_index[c])


@compiled
def remove_deadline(heap: Ints, heap_index: Ints, due: Ints, c: int) -> None:
    """Remove the entry of a cluster."""
    i, last = heap_index[c], heap[heap[0]]
    heap[0] -= 1
    heap_index[c] = 0
    if last != c:
        heap[i] = last
        heap_index[last] = i
        sift_down(heap, heap_index, due, np.array([i]))
        sift_up(heap, heap_index, due, heap_index[last])


@compiled
def evaluate_due(
    heap: Ints,
    heap_index: Ints,
    due: Ints,
    span: Floats,
    value: Array,
    ranks: Ints,
    values: Array,
    rmin: Ints,
    rmax: Ints,
    n: int,
    eps: float,
    tail: float,
    least: float,
    strict: bool,
) -> tuple[int, int, int]:
    """Evaluate every cluster whose deadline is before n; return how that ended, how many, how many triggers fired.

    These clusters are the top of the heap, which is reordered once all have new deadlines: from below, so that most
    entries move little. A cluster that is new or was narrowed has the deadline -1, which is no trigger.
    """
    passed = np.empty(heap[0] + 1, dtype=np.int64)
    count = visited = 0
    if heap[0] > 0 and due[heap[1]] < n:
        passed[0], count = 1, 1
    while visited < count:
        i = passed[visited]
        for child in range(2 * i, min(2 * i + 2, heap[0] + 1)):
            if due[heap[child]] < n:
                passed[count] = child
                count += 1
        visited += 1
    clusters = heap[passed[:count]]
    deadlines = due[clusters]
    state = span, value, ranks, due, values, rmin, rmax, n, eps, tail, least
    status, done = evaluate(clusters, *state, strict, False)
    sift_down(heap, heap_index, due, passed[:count])
    return status, done, int(np.count_nonzero(deadlines[:done] >= 0))
