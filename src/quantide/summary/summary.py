"""Summary: the value that all packages of Quantide exchange."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.kernels.block_sort import sort
from quantide.kernels.compression import select_tuples
from quantide.kernels.error_profile import find_slopes, ranks_of_profile, select_by_profile
from quantide.kernels.tuple_merge import merge_groups
from quantide.summary.answer import Answer
from quantide.summary.copying import CopiedByBytes, Immutable
from quantide.summary.interval_masses import bound_masses, masses_between
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import (
    MAX_N,
    check_count,
    check_not_empty,
    check_phi,
    check_phis,
    check_size,
    check_tail_share,
    target_ranks,
)
from quantide.summary.summary_bytes import SummaryTuples, check_bytes, pack_tuples, unpack_tuples
from quantide.summary.summary_queries import SummaryQueries
from quantide.summary.unproved_summary import refuse_unproved
from quantide.summary.value_column import check_nan_policy, nan_error, read_column
from quantide.summary.value_types import ValueType, type_named
from quantide.summary.weighted_values import WeightedValues, read_weighted
from quantide.typing import Array, Floats, Ints

TupleArrays = tuple[Array, Ints, Ints, int]  # values, rmin, rmax, n


class Summary(Immutable, CopiedByBytes, SummaryQueries):
    """Small, immutable summary of n values that answers every quantile query with a proved bound.

    It consists of sorted tuples (value, rmin, rmax): the value is one of the n, and its rank is proved to lie in
    rmin..rmax. With G the largest rmax[i] - rmin[i-1], every rank in 1..n is answered by a value at most
    max(rmax[0] - 1, n - rmin[-1], G // 2) ranks away: `rank_error`, and `error` as a fraction of n. Towards the ends
    the error may be smaller: `tail` is its largest share of the distance from an end. All are computed from the tuples
    themselves, however they were made. See docs/guarantees/summary.md.

    >>> s = Summary.of([3.0, 1.0, 4.0, 1.0, 5.0])
    >>> s.quantile(0.5), s.error
    (np.float64(3.0), 0.0)
    >>> halves = Summary.merge(Summary.of(range(0, 1000)), Summary.of(range(1000, 2000)))
    >>> small = halves.compress(20)
    >>> len(small), small.error, small.answer(0.5).value
    (21, 0.025, np.int64(999))
    >>> Summary.from_bytes(small.to_bytes()) == small
    True

    Section 1 of the algorithms: after Greenwald and Khanna 2004, and Zhang and Wang 2007.
    """

    __slots__ = ("_edges", "_n", "_nans", "_nulls", "_rmax", "_rmin", "_type", "_values")

    def __init__(
        self, values: Array, rmin: Ints, rmax: Ints, n: int, kind: ValueType, nulls: int = 0, nans: int = 0
    ) -> None:
        """Create a summary from arrays of tuples; internal. Use Summary.of."""
        for array in (values, rmin, rmax):
            array.flags.writeable = False
        self._values, self._rmin, self._rmax = values, rmin, rmax
        self._n, self._type, self._nulls, self._nans = n, kind, nulls, nans
        self._edges: Ints | None = None

    @classmethod
    def of(cls, values: Any, nan: str = "refuse", weights: Any = None) -> Self:
        """Return the exact summary of these values: each of them, with its rank.

        `weights` are whole numbers, one for each value or one for all: a value of weight w counts as w equal values,
        and has two tuples, of its first and its last rank. A value of weight 0 is left out.

        >>> heavy = Summary.of([3.0, 1.0], weights=[10**12, 1])
        >>> heavy.n, len(heavy), heavy.error, heavy.rank(2.0)
        (1000000000001, 3, 0.0, (1, 1))
        """
        if weights is not None:
            return cls.of_weighted(read_weighted(values, weights, nan))
        check_nan_policy(nan)
        column = read_column(values)
        if nan == "skip":
            column = column.without_nan()
        carried = column.carried()
        sort(carried)
        if column.type and column.type.is_float and len(carried) and np.isnan(carried[-1]):
            raise nan_error()
        exact = cls.of_sorted(carried, column.type or type_named("float64"))
        return exact.with_skipped(column.nulls, column.nans)

    @classmethod
    def of_weighted(cls, weighted: WeightedValues) -> Self:
        """Summarise weighted values exactly; internal."""
        values, ranks = weighted.tuples()
        kind = weighted.type or type_named("float64")
        return cls(values, ranks, ranks, weighted.total, kind, weighted.nulls, weighted.nans)

    @classmethod
    def of_sorted(cls, carried: Array, kind: ValueType, step: int = 1, tail: float | None = None) -> Self:
        """Summarise sorted carried values: every step-th, the first and the last, with their exact ranks.

        With a tail, ranks are also so close together towards the ends that this is the summary's certified tail.
        """
        n = len(carried)
        ranks = np.arange(step, n + 1, step)
        if step > 1 and n:
            ranks = np.unique(np.concatenate(([1], ranks, [n])))
            if tail is not None:
                ranks = ranks_of_profile(n, step - 1, 2 * tail)
        return cls(carried if step == 1 else carried[ranks - 1], ranks, ranks, n, kind)

    def with_skipped(self, nulls: int, nans: int) -> Self:
        """Return the same tuples with other numbers of skipped nulls and NaN."""
        return type(self)(self._values, self._rmin, self._rmax, self._n, self._type, nulls, nans)

    @staticmethod
    def merge(*summaries: "Summary") -> "Summary":
        """Return one summary of all values behind these. Rank errors add up, so the relative error never grows."""
        if not summaries:
            raise InvalidArgumentError("merge needs at least one summary; Summary.of([]) is the empty one")
        for other in summaries:
            refuse_unproved(other)
            if not isinstance(other, Summary):
                raise TypeMismatchError(f"a Summary merges with a Summary, not with {type(other).__name__}")
        nonempty = [s for s in summaries if s._n] or [summaries[0]]
        kind = nonempty[0]._type
        for other in nonempty:
            if other._type != kind:
                raise TypeMismatchError(
                    f"a summary of {other._type} cannot be merged with one of {kind}; cast one's values"
                )
        n = check_count(sum(s._n for s in nonempty))
        nulls, nans = sum(s._nulls for s in summaries), sum(s._nans for s in summaries)
        if len(nonempty) == 1:
            return nonempty[0].with_skipped(nulls, nans)
        values, rmin, rmax = merge_tuples([(s._values, s._rmin, s._rmax, s._n) for s in nonempty])
        return Summary(values, rmin, rmax, n, kind, nulls, nans)

    def compress(self, b: int, tail: float | None = None) -> "Summary":
        """Return at most b+1 of the tuples: the ends and the answers to ranks i*n/b. G grows by less than n/b.

        With a tail, more tuples are kept towards the ends, about ln(2 * tail * n) / tail in all, so that this summary's
        certified tail grows by at most `tail`. Without it, the result may have no certified tail.
        """
        b, tail = min(check_size("b", b, 1), MAX_N), None if tail is None else check_tail_share(tail)
        if len(self) <= b + 1:
            return self
        bounds, n = np.array([0, len(self)]), np.array([self._n])
        slope = -1.0 if tail is None or self.tail is None else 2 * tail
        if slope < 0 and (self.gap + 1) // 2 <= self.rank_error:
            indexes, _ = select_tuples(self._rmin, self._rmax, bounds, n, b)
        else:  # towards the ends, or where a value has so many ranks that gaps between its tuples do not count
            indexes, _ = select_by_profile(self._values, self._rmin, self._rmax, bounds, n, b, slope)
        values, rmin, rmax = self._values[indexes], self._rmin[indexes], self._rmax[indexes]
        return Summary(values, rmin, rmax, self._n, self._type, self._nulls, self._nans)

    def fill_ties(self, step: int) -> "Summary":
        """Return the same summary with more tuples of values that have many ranks, at most `step` ranks apart.

        Every rank from rmax of a value's first tuple to rmin of its last has that value. Internal, for structures that
        look at tuples one by one.
        """
        wide = np.flatnonzero((self._values[1:] == self._values[:-1]) & (self._rmax[1:] - self._rmin[:-1] > step))
        if not len(wide):
            return self
        starts, ends = np.maximum(self._rmin[wide] + step, self._rmax[wide]), self._rmin[wide + 1]
        ranks = [np.arange(start, end, step) for start, end in zip(starts, ends, strict=True)]
        at, more = np.repeat(wide + 1, [len(r) for r in ranks]), np.concatenate(ranks)
        values = np.insert(self._values, at, self._values[at])
        rmin, rmax = np.insert(self._rmin, at, more), np.insert(self._rmax, at, more)
        return Summary(values, rmin, rmax, self._n, self._type, self._nulls, self._nans)

    def lift(self, k: int) -> "Summary":
        """Return a summary of these values and k unseen ones, whatever those are.

        Every rank may be up to k higher: rmax grows by k. The rank error of a summary that was not lifted before
        becomes at most max(k, (G + k) / 2): k missing values cost k/2 ranks while k is below G.
        """
        k = check_size("k", k, 0)
        if k == 0:
            return self
        check_not_empty(self._n)
        n = check_count(self._n + k)
        return Summary(self._values, self._rmin, self._rmax + k, n, self._type, self._nulls, self._nans)

    def answer(self, phi: float) -> Answer:
        """Return the best value for the phi-quantile with its proved rank bounds."""
        phi = check_phi(phi)
        check_not_empty(self._n)
        target = int(target_ranks(phi, self._n))
        index = int(self._nearest(np.int64(2 * target)))
        low, high = self._rank_bounds(index, target)
        error = max(target - low, high - target) / self._n
        value = self._type.restore(self._values[index : index + 1])[0]
        return Answer(value, phi, target, low, high, self._n, error, self._n, self._n)

    def quantile(self, phi: float) -> Any:
        """Return the value of answer(phi)."""
        return self.answer(phi).value

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the values of many quantiles in one call."""
        array = check_phis(phis)
        check_not_empty(self._n)
        return self._type.restore(self._values[self.indexes_of(array)])

    def indexes_of(self, phis: Floats) -> Any:
        """Return the indexes of the tuples that answer checked phis; internal."""
        return self._nearest(2 * target_ranks(phis, self._n))

    def summary(self) -> "Summary":
        """Return this summary, as sketches and windows return theirs."""
        return self

    def bounds(self, phi: float) -> tuple[Any, Any]:
        """Return two of the n values, (low, high), between which the true phi-quantile is proved to lie, inclusive.

        A value of rank at most the target is not above the value of the target rank, and one of rank at least the
        target is not below it. So low is the last with rmax <= target and high the first with rmin >= target. Both
        are less than G ranks away. None where lift() has left an end open.

        >>> small = Summary.of(range(1000)).compress(10)
        >>> [int(value) for value in small.bounds(0.55)], [int(value) for value in small.bounds(1.0)]
        ([499, 599], [999, 999])
        """
        phi = check_phi(phi)
        check_not_empty(self._n)
        target = int(target_ranks(phi, self._n))
        return self.values_around(target, target)

    def values_around(self, first: int, last: int) -> tuple[Any, Any]:
        """Return a value not above that of rank `first`, and one not below that of rank `last`, or None."""
        low = int(np.searchsorted(self._rmax, first, side="right")) - 1
        high = int(np.searchsorted(self._rmin, last, side="left"))
        ends = self._type.restore(self._values[[max(low, 0), min(high, len(self) - 1)]])
        return (ends[0] if low >= 0 else None), (ends[1] if high < len(self) else None)

    def rank(self, value: Any, *, inclusive: bool = True) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on how many of the n values are <= value; arrays for an array of values.

        With inclusive=False, on how many are < value.
        """
        numbers, below, single = read_query_values(value, self._type, inclusive)
        indexes = np.searchsorted(self._values, numbers, side="right")
        indexes[below] = 0
        low = np.concatenate(([0], self._rmin))[indexes]
        high = np.concatenate((self._rmax - 1, [self._n]))[indexes]
        return (int(low[0]), int(high[0])) if single else (low, high)

    def cdf(self, values: Any, *, inclusive: bool = True) -> Any:
        """Return the fraction of the n values that are <= each value, within `error`; < with inclusive=False."""
        check_not_empty(self._n)
        low, high = self.rank(values, inclusive=inclusive)
        return (low + high) / 2 / self._n

    def pmf(self, splits: Any, *, inclusive: bool = True) -> Floats:
        """Return the fraction of the n values in each interval between splits; the splits must not decrease.

        The intervals are (-inf, s1], (s1, s2], ..., (sk, inf), and with inclusive=False (-inf, s1), [s1, s2), ...,
        [sk, inf). Each fraction is within 2 * `error`; pmf_bounds() has proved bounds.

        >>> Summary.of([1.0, 2.0, 2.0, 5.0]).pmf([2.0, 4.0]).tolist()
        [0.75, 0.0, 0.25]
        """
        return masses_between(splits, lambda values: self.cdf(values, inclusive=inclusive))

    def pmf_bounds(self, splits: Any, *, inclusive: bool = True) -> tuple[Floats, Floats]:
        """Return proved bounds (lo, hi) on the fraction of the n values in each interval of pmf().

        >>> lo, hi = Summary.of(range(1000)).compress(20).pmf_bounds([99, 899])
        >>> bool((lo <= [0.1, 0.8, 0.1]).all() and (hi >= [0.1, 0.8, 0.1]).all())
        True
        """
        check_not_empty(self._n)
        return bound_masses(splits, lambda values: self.rank(values, inclusive=inclusive), self._n)

    def plot(self, ax: Any = None, *, label: str | None = None, log: bool = False) -> Any:
        """Plot the CDF and the band in which it is proved to lie; return the axes.

        `ax`: matplotlib axes to draw on, by default those of a new figure. `label`: a name for the legend.
        `log`: a logarithmic axis, for values above 0. Needs the extra plot.
        """
        from quantide.summary.cdf_curve import plot_summary

        return plot_summary(self, ax, label, log)

    @property
    def n(self) -> int:
        """Number of values behind this summary."""
        return self._n

    @property
    def values(self) -> Array:
        """Values of the tuples, sorted, in the input type."""
        return self._type.restore(self._values)

    @property
    def carried(self) -> Array:
        """Values of the tuples in the carrier type of kernels."""
        return self._values

    @property
    def rmin(self) -> Ints:
        """Lowest possible rank of each value."""
        return self._rmin

    @property
    def rmax(self) -> Ints:
        """Highest possible rank of each value."""
        return self._rmax

    @property
    def type(self) -> ValueType:
        return self._type

    @property
    def nulls(self) -> int:
        """Number of skipped nulls."""
        return self._nulls

    @property
    def nans(self) -> int:
        """Number of skipped NaN."""
        return self._nans

    @property
    def min(self) -> Any:
        """Smallest value; of a summary that was lifted, the smallest of the values it has seen."""
        check_not_empty(self._n)
        return self._type.restore(self._values[:1])[0]

    @property
    def max(self) -> Any:
        """Largest value; of a summary that was lifted, the largest of the values it has seen."""
        check_not_empty(self._n)
        return self._type.restore(self._values[-1:])[0]

    @property
    def gap(self) -> int:
        """Largest gap between neighbouring tuples: rmax minus rmin of the one before, minus 1. 0 if all are exact."""
        return int((self._rmax[1:] - self._rmin[:-1]).max(initial=1)) - 1

    @property
    def looseness(self) -> int:
        """Largest gap between tuples of different values; between those of one value, every rank has that value."""
        gaps = (self._rmax[1:] - self._rmin[:-1])[self._values[1:] != self._values[:-1]]
        return int(gaps.max(initial=1)) - 1

    @property
    def rank_error(self) -> int:
        """Largest distance of an answer from its target, in ranks."""
        if self._n == 0:
            return 0
        return max(int(self._rmax[0]) - 1, self._n - int(self._rmin[-1]), (self.looseness + 1) // 2)

    @property
    def tail(self) -> float | None:
        """Certified tail: answers are within this share of their distance from either end, and half a rank.

        None if no share below 1 holds, as in summaries that were made without a tail.
        """
        bounds, n = np.array([0, len(self)]), np.array([self._n])
        tail = float(find_slopes(self._values, self._rmin, self._rmax, bounds, n)[0]) / 2
        return tail if 0 <= tail < 1 else None

    @property
    def error(self) -> float:
        """Certified error: rank_error as a fraction of n."""
        return self.rank_error / self._n if self._n else 0.0

    @property
    def nbytes(self) -> int:
        """Memory of the tuples; in an exact summary rmin and rmax are one array."""
        arrays = {id(a): a.nbytes for a in (self._values, self._rmin, self._rmax, self._edges) if a is not None}
        return sum(arrays.values())

    def to_bytes(self) -> bytes:
        """Serialize to the canonical bytes of docs/format.md: equal summaries give equal bytes."""
        packed, _ = pack_tuples(self._tuples())
        return packed.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Summary":
        """Restore a summary from its bytes; raise CorruptBytesError if they are anything else."""
        raw = np.frombuffer(check_bytes(data), dtype=np.uint8)
        t = unpack_tuples(raw, np.array([0, len(raw)]))
        return cls(t.values, t.rmin, t.rmax, int(t.n[0]), t.type, int(t.nulls[0]), int(t.nans[0]))

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Summary):
            return NotImplemented
        own = (self._n, self._type, self._nulls, self._nans)
        return own == (other._n, other._type, other._nulls, other._nans) and all(
            np.array_equal(a, b)
            for a, b in ((self._values, other._values), (self._rmin, other._rmin), (self._rmax, other._rmax))
        )

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return f"Summary(n={self._n}, tuples={len(self)}, error={self.error:.3g}, type={self._type})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from quantide.summary.notebook import summary_html

        return summary_html(self)

    def _tuples(self) -> SummaryTuples:
        counts = [np.array([x]) for x in (self._n, self._nulls, self._nans)]
        return SummaryTuples(self._type, self._values, self._rmin, self._rmax, np.array([0, len(self)]), *counts)

    def _rank_bounds(self, index: int, target: int) -> tuple[int, int]:
        """Return bounds of the rank, nearest to the target, of an element with the value of a tuple.

        Equal values are neighbours in sorted order. So if the value has several tuples, it has every rank from rmax of
        the first to rmin of the last.
        """
        value = self._values[index]
        first = int(np.searchsorted(self._values, value, side="left"))
        last = int(np.searchsorted(self._values, value, side="right")) - 1
        low = max(int(self._rmin[first]), min(target, int(self._rmin[last])))
        high = min(int(self._rmax[last]), max(target, int(self._rmax[first])))
        return low, high

    def _nearest(self, doubled: Any) -> Any:
        """Return the index of the tuple with the smallest max(r - rmin, rmax - r), given 2r; the lower of equals.

        Tuple j+1 is strictly better than j exactly if rmin[j] + rmax[j+1] < 2r, and that sum increases with j: one
        binary search finds the best tuple.
        """
        if self._edges is None:
            self._edges = self._rmin[:-1] + self._rmax[1:]
        return np.searchsorted(self._edges, doubled, side="left")


def merge_tuples(parts: list[TupleArrays]) -> tuple[Array, Ints, Ints]:
    """Merge the tuples of parts given as (values, rmin, rmax, n)."""
    bounds = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part[0]) for part in parts], out=bounds[1:])
    values, rmin, rmax = (np.concatenate([part[k] for part in parts]) for k in range(3))
    counts = np.array([part[3] for part in parts], dtype=np.int64)
    return merge_groups(values, rmin, rmax, bounds, counts, np.array([0, len(parts)]))
