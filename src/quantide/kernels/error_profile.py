"""Error profiles: gaps between tuples that shrink towards the smallest and the largest values.

The gap between two neighbouring tuples is rmax of the upper minus rmin of the lower, minus 1. With a slope s it may be
at most s times the number of values above the upper tuple, and s times the number of those below the lower one. Every
rank is then answered within s/2 times its distance from either end. A slope below 0 means that there is no such limit.
The proof is in docs/guarantees/summary.md.
"""

import numpy as np

from quantide.kernels.jit import compiled, pure
from quantide.typing import Array, Ints

ROUNDING = 1 - 2.0**-40  # keeps products of floats below the true ones
MAX_SHARED = 1 << 16  # length of segments up to which those of one length share their ranks


@compiled
def lowest_neighbour(upper: int, n: int, limit: int, slope: float) -> int:
    """Return the lowest rmin that the tuple below one with rmax `upper` may have, with a gap of at most `limit`."""
    lowest = upper - 1 - limit
    if slope >= 0:
        lowest = max(lowest, upper - 1 - int(slope * (n - upper)))
        rank = int((upper - 1 + slope) / (1 + slope))  # where the gap equals slope * (rank - 1)
        while upper - rank - 1 > int(slope * (rank - 1)):
            rank += 1
        lowest = max(lowest, rank)
    return lowest


@pure
def select_by_profile(
    values: Array, rmin: Ints, rmax: Ints, bounds: Ints, counts: Ints, b: int, slope: float
) -> tuple[Ints, Ints]:
    """Return indices of the tuples that compression keeps, and their offsets by summary.

    The gaps of each summary may grow by less than n/b, and its slope by `slope`. From the top down, the next tuple that
    is kept is the lowest one that this allows, or else the next one. Gaps between equal values do not count, so that
    the first and the last tuple of a value with many ranks are kept; without a slope, none between them.
    """
    selected = np.empty(len(rmin), dtype=np.int64)
    offsets = np.zeros(len(bounds), dtype=np.int64)
    at = 0
    for s in range(len(counts)):
        start, end, n = bounds[s], bounds[s + 1], counts[s]
        gap, steepest = profile_of(values, rmin, rmax, start, end, n)
        step = (n - 1) // b + 1
        limit, many = gap + step - 1, 3 * step  # a value with that many ranks costs no more tuples than its ranks would
        allowed = (steepest + slope) * ROUNDING if steepest >= 0 and slope >= 0 else -1.0
        first_kept = at
        lowest = n
        bottom = end  # first tuple of the value at i, if it has many ranks
        i = end - 1
        while i >= start:
            is_top = i == end - 1 or values[i] != values[i + 1]
            has_many = False
            if is_top:
                bottom = i
                while bottom > start and values[bottom - 1] == values[i]:
                    bottom -= 1
                has_many = rmin[i] - rmax[bottom] >= many
                bottom = bottom if has_many else end
            is_end = i == start or i == end - 1
            if is_end or has_many or i == bottom or rmin[i - 1] < lowest:
                selected[at] = i
                at += 1
                lowest = lowest_neighbour(rmax[i], n, limit, allowed)
            i = bottom if has_many and slope < 0 and bottom < i else i - 1
        for k in range((at - first_kept) // 2):
            low, high = first_kept + k, at - 1 - k
            selected[low], selected[high] = selected[high], selected[low]
        offsets[s + 1] = at
    return selected[:at], offsets


@compiled
def profile_of(values: Array, rmin: Ints, rmax: Ints, start: int, end: int, n: int) -> tuple[int, float]:
    """Return the largest gap and the smallest slope of the tuples start:end; a slope of -1 if no slope holds."""
    largest, slope = 0, 0.0
    for i in range(start + 1, end):
        gap = rmax[i] - rmin[i - 1] - 1
        if gap > 0 and values[i] != values[i - 1]:
            largest = max(largest, int(gap))
            distance = min(n - rmax[i], rmin[i - 1] - 1)
            if distance <= 0:
                slope = -1.0
            elif slope >= 0:
                slope = max(slope, gap / distance)
    if start < end and (rmax[start] > 1 or rmin[end - 1] < n):  # lifted
        slope = -1.0
    return largest, slope


@pure
def find_slopes(values: Array, rmin: Ints, rmax: Ints, bounds: Ints, counts: Ints) -> Array:
    """Return the smallest slope of each summary, -1 where none holds."""
    slopes = np.zeros(len(counts))
    for s in range(len(counts)):
        slopes[s] = profile_of(values, rmin, rmax, bounds[s], bounds[s + 1], counts[s])[1]
    return slopes


@compiled
def count_lower_ranks(n: int, limit: int, slope: float) -> int:
    """Return how many of the ranks of `write_ranks` are not above the middle."""
    rank, count = np.int64(1), 0
    while 2 * rank <= n + 1:
        rank += 1 + (limit if slope < 0 else min(limit, int(slope * (rank - 1))))
        count += 1
    return count


@compiled
def write_ranks(n: int, limit: int, slope: float, ranks: Ints) -> int:
    """Write the ranks of n sorted values that have gaps of at most `limit` and this slope; return their number.

    They are symmetric but for one in the middle. `ranks` needs room for n.
    """
    rank, count = np.int64(1), 0
    gap = limit if slope < 0 else 0
    while gap < limit and 2 * rank <= n + 1:
        ranks[count] = rank
        gap = min(limit, int(slope * (rank - 1)))
        rank += 1 + gap
        count += 1
    while 2 * rank <= n + 1:  # the limit is reached
        ranks[count] = rank
        rank += 1 + limit
        count += 1
    if count == 0:
        return 0
    lower = count
    if rank < n + 1 - ranks[lower - 1]:  # else the gap in the middle would be too long
        ranks[count] = rank
        count += 1
    for k in range(lower - 1, -1, -1):
        if n + 1 - ranks[k] > ranks[count - 1]:
            ranks[count] = n + 1 - ranks[k]
            count += 1
    return count


@pure
def ranks_of_profile(n: int, limit: int, slope: float) -> Ints:
    """Return the ranks of n sorted values that have gaps of at most `limit` and this slope."""
    ranks = np.empty(2 * count_lower_ranks(n, limit, slope) + 1, dtype=np.int64)
    return ranks[: write_ranks(n, limit, slope, ranks)]


@pure
def ranks_in_range(first: int, last: int, n: int, limit: int, slope: float) -> Ints:
    """Return ranks from `first` to `last`, both of them included, that have gaps of at most `limit` and this slope.

    They are ranks among n values: the slope counts from the ends of these, not of the range.
    """
    count = 1
    rank = last
    while rank > first:
        rank = max(first, lowest_neighbour(rank, n, limit, slope))
        count += 1
    ranks = np.empty(count, dtype=np.int64)
    rank = last
    for k in range(count - 1, 0, -1):
        ranks[k] = rank
        rank = max(first, lowest_neighbour(rank, n, limit, slope))
    ranks[0] = first
    return ranks


@pure
def sample_by_profile(values: Array, bounds: Ints, limits: Ints, slope: float) -> tuple[Array, Ints, Ints]:
    """Return the values of each sorted segment that have the ranks of a profile; their ranks; new bounds.

    Segments of one length must have one limit: short ones of a length share their ranks.
    """
    ranks = np.empty(len(values), dtype=np.int64)  # as many as could be kept; memory that is not used is not touched
    out = np.empty(len(values), dtype=values.dtype)
    offsets = np.zeros(len(bounds), dtype=np.int64)
    longest = 0
    for s in range(len(limits)):
        longest = max(longest, bounds[s + 1] - bounds[s])
    same = np.full(min(longest, MAX_SHARED) + 1, -1, dtype=np.int64)  # a segment of each length that has its ranks
    for s in range(len(limits)):
        at, start, n = offsets[s], bounds[s], bounds[s + 1] - bounds[s]
        if limits[s] == 0:
            count = n
            for k in range(n):
                ranks[at + k] = k + 1
                out[at + k] = values[start + k]
        elif n < len(same) and same[n] >= 0:
            first = offsets[same[n]]
            count = offsets[same[n] + 1] - first
            for k in range(count):
                rank = ranks[first + k]
                ranks[at + k] = rank
                out[at + k] = values[start + rank - 1]
        else:
            count = write_ranks(n, limits[s], slope, ranks[at:])
            for k in range(at, at + count):
                out[k] = values[start + ranks[k] - 1]
            if n < len(same):
                same[n] = s
        offsets[s + 1] = at + count
    if offsets[-1] < len(values):
        ranks, out = ranks[: offsets[-1]].copy(), out[: offsets[-1]].copy()
    return out, ranks, offsets
