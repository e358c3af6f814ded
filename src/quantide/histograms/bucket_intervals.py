"""Bucket intervals: buckets with counts, as an IntervalSummary."""

from typing import Any

import numpy as np

from quantide.errors import HistogramError
from quantide.histograms.interval_summary import IntervalSummary, combine
from quantide.summary.ranks import check_count
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array, Ints

FLOAT64 = type_named("float64")
EXACT = 2.0**53  # integers are exact in float64 up to this


def summarize_buckets(
    lows: Array,
    highs: Array,
    counts: Ints,
    smallest: float | None = None,
    largest: float | None = None,
    nans: int = 0,
    kind: ValueType = FLOAT64,
) -> IntervalSummary:
    """Summarise counts[i] values in [lows[i], highs[i]], for every i; of empty buckets only the count is used.

    `smallest` and `largest` are bounds of all values.
    """
    some = counts.nonzero()[0]
    if len(some) < len(counts):
        lows, highs, counts = lows[some], highs[some], counts[some]
    if smallest is not None or largest is not None:
        lows, highs = _clip(lows, highs, smallest, largest)
    if _falls(lows) or _falls(highs):
        return combine(_summarize(*_sort(lows, counts), kind, nans), _summarize(*_sort(highs, counts), kind, nans))
    low = _summarize(lows, counts, kind, nans)
    values = highs.repeat(2) if len(low) == 2 * len(counts) else highs.repeat(np.minimum(counts, 2))
    return combine(low, Summary(values, low.rmin, low.rmin, low.n, kind, 0, nans))


def _falls(values: Array) -> bool:
    return bool((values[1:] < values[:-1]).any())


def _sort(values: Array, counts: Ints) -> tuple[Array, Ints]:
    order = values.argsort(kind="stable")
    return values[order], counts[order]


def _summarize(values: Array, counts: Ints, kind: ValueType, nans: int) -> Summary:
    """Return the summary of sorted weighted values: two tuples for each, of its first and its last rank."""
    ranks = np.empty(2 * len(counts), dtype=np.int64)
    ends = counts.cumsum(out=ranks[1::2])
    n = check_count(int(ends[-1])) if len(ends) else 0
    np.subtract(ends, counts - 1, out=ranks[::2])
    if len(counts) and np.minimum.reduce(counts) == 1:
        repeats = np.minimum(counts, 2)
        kept = np.ones(len(ranks), dtype=bool)
        np.greater(counts, 1, out=kept[1::2])
        return Summary(values.repeat(repeats), ranks := ranks[kept], ranks, n, kind, 0, nans)
    return Summary(values.repeat(2), ranks, ranks, n, kind, 0, nans)


def _clip(lows: Array, highs: Array, smallest: float | None, largest: float | None) -> tuple[Array, Array]:
    """Narrow intervals to the range of all values; raise if an interval is outside of it."""
    least, most = -np.inf if smallest is None else smallest, np.inf if largest is None else largest
    outside = (highs < least) | (lows > most)
    if outside.any():
        first = int(outside.argmax())
        low, high = lows[first], highs[first]
        raise HistogramError(f"a bucket from {low:g} to {high:g} has values, but all are from {least:g} to {most:g}")
    return np.minimum(np.maximum(lows, least), most), np.minimum(np.maximum(highs, least), most)


def split_ends(
    lows: Array, highs: Array, counts: Ints, smallest: float | None, largest: float | None
) -> tuple[Array, Array, Ints]:
    """Return sorted buckets with the smallest and the largest value, where known, in buckets of their own."""
    some, counts = counts.nonzero()[0], counts.copy()
    if not len(some) or (smallest is None and largest is None):
        return lows, highs, counts
    if smallest is not None and largest is not None and smallest > largest:
        raise HistogramError(f"min is {smallest:g}, above max, {largest:g}")
    ends = [("min", smallest, some[0]), ("max", largest, some[-1])]
    for name, extreme, at in ends:
        if extreme is not None and not lows[at] <= extreme <= highs[at]:
            raise HistogramError(
                f"{name} is {extreme:g}, but the outermost bucket with values is from {lows[at]:g} to {highs[at]:g}"
            )
    if counts[some].sum() == 1 and None not in (smallest, largest):
        if smallest != largest:
            raise HistogramError(f"there is one value, but min is {smallest:g} and max is {largest:g}")
        ends = ends[:1]
    known = [(name, extreme, at) for name, extreme, at in ends if extreme is not None]
    for _, _, at in known:
        counts[at] -= 1
    first, last = ([extreme for name, extreme, _ in known if name == which] for which in ("min", "max"))
    ones = np.ones(2, dtype=np.int64)
    return (
        np.concatenate((first, lows, last)),
        np.concatenate((first, highs, last)),
        np.concatenate((ones[: len(first)], counts, ones[: len(last)])),
    )


def join_signs(
    negative: tuple[Array, Array, Ints], positive: tuple[Array, Array, Ints], threshold: float, zeros: int
) -> tuple[Array, Array, Ints]:
    """Return the buckets of both signs and the one around zero, in increasing order; those of `negative` are mirrored.

    The bucket around zero is [-threshold, threshold].
    """
    lows, highs, counts = negative
    if not zeros and not len(counts):
        return positive
    return (
        np.concatenate((-highs[::-1], [-threshold], positive[0])) + 0.0,
        np.concatenate((-lows[::-1], [threshold], positive[1])) + 0.0,
        np.concatenate((counts[::-1], [zeros], positive[2])),
    )


def above(edges: Any) -> Any:
    """Return the smallest floats above these edges: the lower ends of buckets without their lower edge.

    Integers beyond 2^53 may lie between an edge and the next float; there, the edge itself is returned.
    """
    return np.where(np.abs(edges) < EXACT, np.nextafter(edges, np.inf), edges)
