"""BucketCounts: how many values of a summary lie between given edges, with bounds of each count."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quantide.errors import TypeMismatchError
from quantide.histograms.histogram_fields import named_errors, read_edges
from quantide.histograms.interval_summary import IntervalSummary
from quantide.summary.summary import Summary
from quantide.summary.unproved_summary import refuse_unproved
from quantide.typing import Array, Floats, Ints

Source = Summary | IntervalSummary
SMALLEST, LARGEST = -(2.0**63), 2.0**63 - 1024  # floats that are 64-bit integers


@dataclass(frozen=True)
class BucketCounts:
    """Counts of the values in (-inf, e1], (e1, e2], ..., (ek, inf), for the edges e1 to ek.

    `counts` are whole numbers that sum up to `n`. The true count of bucket i is proved to be in lo[i]..hi[i], and so is
    counts[i].
    """

    edges: Floats
    counts: Ints
    lo: Ints
    hi: Ints

    @property
    def n(self) -> int:
        """Number of values in all buckets."""
        return int(self.counts.sum())


@named_errors
def count_buckets(source: Any, edges: Any) -> BucketCounts:
    """Return how many values lie between increasing edges, of a Summary, an IntervalSummary, a sketch or a window.

    >>> exact = count_buckets(Summary.of(range(100)), [9, 49])
    >>> exact.counts.tolist(), exact.lo.tolist()
    ([10, 40, 50], [10, 40, 50])
    >>> rough = count_buckets(Summary.of(range(100)).compress(4), [9, 49])
    >>> rough.counts.tolist(), rough.lo.tolist(), rough.hi.tolist()
    ([12, 50, 38], [1, 26, 26], [24, 73, 50])
    """
    summary, array = to_source(source), read_edges("edges", edges)
    low, high = rank_edges(summary, array, True)
    return BucketCounts(array, *difference_counts(low, high, summary.n))


def difference_counts(low: Ints, high: Ints, n: int) -> tuple[Ints, Ints, Ints]:
    """Return counts between edges, and their bounds, from bounds on how many values are below each edge.

    The number of values below an edge is taken as the middle of its bounds. Both bounds increase with the edge, so the
    middle does, too, and no count is negative.
    """
    low, high = np.concatenate(([0], low, [n])), np.concatenate(([0], high, [n]))
    counts = np.diff((low + high) // 2)
    return counts, np.maximum(0, low[1:] - high[:-1]), high[1:] - low[:-1]


def to_source(source: Any) -> Source:
    """Return the summary of a sketch or a window; raise for bounds that hold only with a probability."""
    if isinstance(source, (Summary, IntervalSummary)):
        return source
    refuse_unproved(source)
    if not hasattr(source, "summary"):
        raise TypeMismatchError(f"give a Summary, or a sketch or window with summary(), not {type(source).__name__}")
    return to_source(source.summary())


def rank_edges(source: Source, edges: Floats, inclusive: bool) -> tuple[Ints, Ints]:
    """Return bounds on how many values are at most each edge; below it, unless `inclusive`."""
    if not len(edges):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    is_integer = source.type.dtype.kind in "iu"
    if is_integer and edges.min() >= SMALLEST and edges.max() <= LARGEST:
        edges = (np.floor(edges) if inclusive else np.ceil(edges)).astype(np.int64)  # whole numbers are faster
    return source.rank(edges, inclusive=inclusive)


def magnitudes(source: Source) -> tuple[Floats, Floats]:
    """Return the values of the tuples below 0, without their sign, and those above 0, as floats."""
    if source.type.is_temporal:
        raise TypeMismatchError(f"values of {source.type} have no buckets of numbers; convert them to seconds")
    parts = (source.carried,) if isinstance(source, Summary) else (source.low.carried, source.high.carried)
    values: Array = np.concatenate(parts).astype(np.float64) / 10**source.type.scale
    return -values[values < 0], values[values > 0]


def extremes(source: Source) -> tuple[float | None, float | None]:
    """Return the smallest and the largest value as floats, where they are known exactly."""
    low, high = (source, source) if isinstance(source, Summary) else (source.low, source.high)
    if not source.n:
        return None, None
    has_min, has_max = high.rmax[0] == 1 and low.min == high.min, low.rmin[-1] == low.n and low.max == high.max
    return (_exact_float(low.min) if has_min else None), (_exact_float(low.max) if has_max else None)


def _exact_float(value: Any) -> float | None:
    """Return a number as a float; None if that would round it, as for large integers and most decimals."""
    plain = value.item() if isinstance(value, np.generic) else value
    return float(plain) if float(plain) == plain else None
