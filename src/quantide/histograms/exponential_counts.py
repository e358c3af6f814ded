"""ExponentialBuckets: how many values of a summary lie in exponential buckets, with bounds of each count."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantide.errors import HistogramError
from quantide.histograms.bucket_counts import Source, difference_counts, magnitudes, rank_edges, to_source
from quantide.histograms.exponential_edges import MAX_SCALE, MIN_NORMAL, MIN_SCALE, powers_of_two
from quantide.histograms.histogram_fields import named_errors, read_whole
from quantide.typing import Floats, Ints

MAX_BUCKETS = 160  # for each sign, the default of OpenTelemetry
MOST_BUCKETS = 1_000_000  # for each sign, of any scale: each takes some 100 bytes
IndexRange = tuple[int, int] | None  # of the buckets of one sign; None if it has no values


@dataclass(frozen=True)
class BucketRange:
    """Buckets of one sign, with indexes from `first` on: bucket i is (base^i, base^(i+1)], or its mirror image."""

    first: int
    counts: Ints
    lo: Ints
    hi: Ints


@dataclass(frozen=True)
class ExponentialBuckets:
    """Counts of the values in exponential buckets of base 2^(2^-scale), with bounds of each count.

    All `counts` are whole numbers that sum up to `n`. A true count is proved to be between its `lo` and `hi`, and so is
    the count. `zero` has one bucket, from -zero_threshold to zero_threshold.
    """

    n: int
    scale: int
    zero_threshold: float
    negative: BucketRange
    zero: BucketRange
    positive: BucketRange


@named_errors
def exponential_buckets(
    source: Any,
    scale: int | None = None,
    *,
    max_buckets: int = MAX_BUCKETS,
    zero_threshold: float = MIN_NORMAL,
    scales: tuple[int, int] = (MIN_SCALE, MAX_SCALE),
) -> ExponentialBuckets:
    """Return the counts in exponential buckets, of a Summary, an IntervalSummary, a sketch or a window.

    Without a scale, it is the finest one with at most `max_buckets` for each sign.
    """
    summary, max_buckets = to_source(source), read_whole("max_buckets", max_buckets, 1, MOST_BUCKETS)
    if not MIN_NORMAL <= zero_threshold < math.inf:
        raise HistogramError(f"zero_threshold must be a number from {MIN_NORMAL:.3g} on, not {zero_threshold}")
    signs = [values[values > zero_threshold] for values in magnitudes(summary)]
    if any(np.isinf(values).any() for values in signs):
        raise HistogramError("infinite values have no exponential bucket; use count_buckets or to_prometheus_text")
    finest = scales[1] if scale is None else read_whole("scale", scale, *scales)
    ranges = [_index_range(values, finest) for values in signs]
    shift = _shift_of(ranges, finest - scales[0], max_buckets) if scale is None else 0
    narrow = [None if found is None else (found[0] >> shift, found[1] >> shift) for found in ranges]
    if scale is not None and any(found[1] - found[0] >= MOST_BUCKETS for found in narrow if found):
        raise HistogramError(f"scale {scale} has more than {MOST_BUCKETS:,} buckets for these values; give a lower one")
    return _count(summary, finest - shift, zero_threshold, narrow)


def _index_range(values: Floats, scale: int) -> IndexRange:
    """Return the indexes of the smallest and of the largest value; None if there are none."""
    if not len(values):
        return None
    # Integers beyond 2^53 were rounded: the next float is not below them.
    return _index(float(values.min()), scale), _index(math.nextafter(float(values.max()), math.inf), scale)


def _index(value: float, scale: int) -> int:
    """Return the i with base^i < value <= base^(i+1)."""
    if math.isinf(value):
        return (1024 << scale if scale > 0 else 1024 >> -scale) - 1
    index = math.ceil(math.ldexp(math.log2(value), scale)) - 1
    edges = powers_of_two(np.arange(index - 1, index + 3), scale)  # the logarithm may be off by one
    return index - 2 + int(np.searchsorted(edges, value, side="left"))


def _shift_of(ranges: list[IndexRange], most: int, max_buckets: int) -> int:
    """Return by how much the scale is lowered so that no sign has more than `max_buckets`."""
    widest = max((found[1] - found[0] for found in ranges if found), default=0)
    at_least = max(0, (widest // (max_buckets + 1)).bit_length() - 1)  # halving the width so often is not too much
    for shift in range(at_least, most + 1):
        if all(found is None or (found[1] >> shift) - (found[0] >> shift) < max_buckets for found in ranges):
            return shift
    raise HistogramError(f"the values do not fit {max_buckets} buckets of any scale; allow more with max_buckets")


def _count(summary: Source, scale: int, threshold: float, ranges: list[IndexRange]) -> ExponentialBuckets:
    """Count the values in the buckets of these ranges; those next to zero begin at the threshold."""
    indexes = [np.arange(0) if found is None else np.arange(found[0] + 1, found[1] + 1) for found in ranges]
    below, above = (powers_of_two(each, scale) if len(each) else np.empty(0) for each in indexes)
    negative_edges = np.concatenate((-below[::-1], [-threshold])) if ranges[0] else np.empty(0)
    positive_edges = np.concatenate(([threshold], above)) if ranges[1] else np.empty(0)
    ranks = rank_edges(summary, negative_edges, False), rank_edges(summary, positive_edges, True)
    low, high = (np.concatenate((ranks[0][k], ranks[1][k])) for k in range(2))
    counts, lo, hi = difference_counts(low, high, summary.n)
    at = len(negative_edges)

    def part(first: int, chosen: slice) -> BucketRange:
        return BucketRange(first, counts[chosen], lo[chosen], hi[chosen])

    return ExponentialBuckets(
        summary.n,
        scale,
        threshold,
        part(ranges[0][0] if ranges[0] else 0, slice(at - 1, None, -1) if at else slice(0, 0)),
        part(0, slice(at, at + 1)),
        part(ranges[1][0] if ranges[1] else 0, slice(at + 1, None)),
    )
