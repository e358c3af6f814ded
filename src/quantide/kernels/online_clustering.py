"""Online clustering (QUERIES section 3.4, Algorithm 2): add or remove a query in O(log k) comparisons.

A slot is a group of queries of one cluster with the same last published value. Slots form a union-find forest: root[s]
leads to the cluster's own slot. order[1 .. order[0]] are the clusters by their left ends and, because none contains
another, by their right ends too. A cluster that is new or was narrowed has the deadline -1, and unevaluated[0] is 1
while there may be one.
"""

from quantide.kernels.jit import compiled
from quantide.typing import Bools, Floats, Ints


@compiled
def find_root(root: Ints, s: int) -> int:
    """Return the cluster of a slot, halving the path to it."""
    while root[s] != s:
        root[s] = root[root[s]]
        s = root[s]
    return s


@compiled
def find_first_from(order: Ints, span: Floats, left: float) -> int:
    """Return the index in the order of the first cluster that does not begin before `left`."""
    low, high = 1, order[0] + 1
    while low < high:
        middle = (low + high) // 2
        if span[order[middle], 0] < left:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def remove_range(order: Ints, begin: int, end: int) -> None:
    """Remove indices begin..end-1 from the order."""
    count = end - begin
    for i in range(begin, order[0] + 1 - count):
        order[i] = order[i + count]
    order[0] -= count


@compiled
def assign_cluster(
    left: float,
    right: float,
    span: Floats,
    order: Ints,
    root: Ints,
    members: Ints,
    due: Ints,
    unevaluated: Ints,
    used: int,
) -> int:
    """Return the cluster for a query with this interval; `used` if that is a new one.

    If any cluster is contained in the interval, the first one from `left` on is. Clusters are ordered by both ends,
    so of those that only overlap, one of the two neighbours has the largest overlap.
    """
    p = find_first_from(order, span, left)
    if p <= order[0] and span[order[p], 1] <= right:
        return int(order[p])
    before = min(span[order[p - 1], 1], right) - left if p > 1 else -1.0
    after = right - span[order[p], 0] if p <= order[0] else -1.0
    within = left == right and max(before, after) == 0  # a point in a cluster, which narrows to it
    if max(before, after) <= 0 and not within:
        for i in range(order[0] + 1, p, -1):
            order[i] = order[i - 1]
        order[0] += 1
        order[p] = used
        span[used, 0], span[used, 1] = left, right
        root[used], members[used] = used, 0
        due[used], unevaluated[0] = -1, 1
        return used
    p = p - 1 if before >= after else p
    c = order[p]
    span[c, 0], span[c, 1] = max(span[c, 0], left), min(span[c, 1], right)
    begin, end = p, p + 1
    while begin > 1 and span[order[begin - 1], 1] >= span[c, 1]:
        begin -= 1
    while end <= order[0] and span[order[end], 0] <= span[c, 0]:
        end += 1
    for i in range(begin, end):  # the narrowed cluster absorbs every cluster that contains it
        other = order[i]
        if other != c:
            root[other] = c
            members[c] += members[other]
    order[begin] = c
    remove_range(order, begin + 1, end)
    due[c], unevaluated[0] = -1, 1
    return int(c)


@compiled
def add_queries(
    spans: Floats,
    span: Floats,
    order: Ints,
    root: Ints,
    members: Ints,
    due: Ints,
    unevaluated: Ints,
    sizes: Ints,
    newest: Ints,
    is_published: Bools,
    used: int,
    slots: Ints,
) -> int:
    """Add queries with these intervals one by one; write the slot of each, return the number of slots in use."""
    for q in range(len(spans)):
        c = assign_cluster(spans[q, 0], spans[q, 1], span, order, root, members, due, unevaluated, used)
        members[c] += 1
        s = c
        if c == used:
            newest[c] = c
            used += 1
        elif is_published[c]:  # nothing was published to the new query: it needs such a slot
            s = newest[c]
            if is_published[s]:
                s = used
                newest[c] = s
                root[s] = c
                used += 1
        sizes[s] += 1
        slots[q] = s
    return used


@compiled
def remove_queries(
    slots: Ints,
    span: Floats,
    order: Ints,
    root: Ints,
    members: Ints,
    sizes: Ints,
) -> None:
    """Remove a query from each of these slots; remove clusters without queries."""
    for s in slots:
        sizes[s] -= 1
        c = find_root(root, s)
        members[c] -= 1
        if members[c] == 0:
            p = find_first_from(order, span, span[c, 0])
            remove_range(order, p, p + 1)
