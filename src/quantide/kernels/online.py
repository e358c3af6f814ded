"""Online clustering (QUERIES section 3.4, Algorithm 2): one query more, one query less, in O(log k) comparisons.

A slot is a group of queries that are in one cluster and were told the same value last. root[s] leads to the cluster's
own slot. order[1 .. order[0]] are the clusters by their left ends, and because none contains another, by their
right ends too.
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled
from quantide.kernels.deadlines import put, remove

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@compiled
def find(root: Ints, s: int) -> int:
    while root[s] != s:
        root[s] = root[root[s]]
        s = root[s]
    return s


@compiled
def first_from(order: Ints, span: Floats, left: float) -> int:
    """The place in the order of the first cluster that does not begin before `left`."""
    low, high = 1, order[0] + 1
    while low < high:
        middle = (low + high) // 2
        if span[order[middle], 0] < left:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def cut_out(order: Ints, begin: int, end: int) -> None:
    """Take places begin..end-1 out of the order."""
    gone = end - begin
    for i in range(begin, order[0] + 1 - gone):
        order[i] = order[i + gone]
    order[0] -= gone


@compiled
def cluster_for(
    left: float,
    right: float,
    span: Floats,
    order: Ints,
    root: Ints,
    members: Ints,
    heap: Ints,
    place: Ints,
    due: Ints,
    used: int,
) -> int:
    """The cluster that a query with this interval joins; `used` when that is a new one.

    The first cluster from `left` on is contained in the interval, or else none is. Of those that only overlap, the
    ones before begin earlier and end earlier the farther off they are, and those after likewise: the largest overlap
    is with one of the two neighbours.
    """
    p = first_from(order, span, left)
    if p <= order[0] and span[order[p], 1] <= right:
        return int(order[p])
    before = min(span[order[p - 1], 1], right) - left if p > 1 else -1.0
    after = right - span[order[p], 0] if p <= order[0] else -1.0
    within = left == right and max(before, after) == 0  # a point in a cluster: that narrows to it
    if max(before, after) <= 0 and not within:
        for i in range(order[0] + 1, p, -1):
            order[i] = order[i - 1]
        order[0] += 1
        order[p] = used
        span[used, 0], span[used, 1] = left, right
        root[used], members[used] = used, 0
        put(heap, place, due, used, -1)
        return used
    p = p - 1 if before >= after else p
    c = order[p]
    span[c, 0], span[c, 1] = max(span[c, 0], left), min(span[c, 1], right)
    begin, end = p, p + 1
    while begin > 1 and span[order[begin - 1], 1] >= span[c, 1]:
        begin -= 1
    while end <= order[0] and span[order[end], 0] <= span[c, 0]:
        end += 1
    for i in range(begin, end):  # the narrowed interval serves every cluster that contains it
        other = order[i]
        if other != c:
            root[other] = c
            members[c] += members[other]
            remove(heap, place, due, other)
    order[begin] = c
    cut_out(order, begin + 1, end)
    put(heap, place, due, c, -1)
    return int(c)


@compiled
def join(
    spans: Floats,
    span: Floats,
    order: Ints,
    root: Ints,
    members: Ints,
    heap: Ints,
    place: Ints,
    due: Ints,
    sizes: Ints,
    newest: Ints,
    told_known: Flags,
    used: int,
    slots: Ints,
) -> int:
    """Register queries with these intervals one after the other: the slot of each, and the slots used by now."""
    for q in range(len(spans)):
        c = cluster_for(spans[q, 0], spans[q, 1], span, order, root, members, heap, place, due, used)
        members[c] += 1
        s = c
        if c == used:
            newest[c] = c
            used += 1
        elif told_known[c]:  # who joins now has been told nothing: a slot of those
            s = newest[c]
            if told_known[s]:
                s = used
                newest[c] = s
                root[s] = c
                used += 1
        sizes[s] += 1
        slots[q] = s
    return used


@compiled
def leave(
    slots: Ints, span: Floats, order: Ints, root: Ints, members: Ints, heap: Ints, place: Ints, due: Ints, sizes: Ints
) -> None:
    """Drop a query from each of these slots; a cluster without queries goes."""
    for s in slots:
        sizes[s] -= 1
        c = find(root, s)
        members[c] -= 1
        if members[c] == 0:
            p = first_from(order, span, span[c, 0])
            cut_out(order, p, p + 1)
            remove(heap, place, due, c)
