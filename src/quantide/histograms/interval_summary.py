"""IntervalSummary: a summary of values that are known only up to intervals."""

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError
from quantide.histograms.interval_answer import IntervalAnswer
from quantide.summary.copying import CopiedByBytes, Immutable
from quantide.summary.ranks import check_not_empty
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import check_bytes
from quantide.summary.unproved_summary import UnprovedSummary
from quantide.summary.value_types import ValueType
from quantide.typing import Array

MAGIC = b"QTI\x01"


class IntervalSummary(Immutable, CopiedByBytes, UnprovedSummary):
    """Summary of n values of which only intervals are known: value i lies in [l_i, u_i], inclusive.

    `low` summarises the lower ends and `high` the upper ends. The r-th smallest value lies between the r-th smallest
    lower end and the r-th smallest upper end, whatever the values are. So every answer has two bounds: the usual one of
    ranks, and an interval that contains the exact quantile. See docs/guarantees/histograms.md.

    >>> from quantide.histograms import from_prometheus_buckets
    >>> latency = from_prometheus_buckets([(0.1, 50), (0.5, 90), (1.0, 99), (float("inf"), 100)], smallest=0.0)
    >>> answer = latency.answer(0.9)
    >>> answer.value, answer.value_hi, answer.rank_lo, answer.rank_hi
    (np.float64(0.5), np.float64(0.5), 90, 90)
    >>> latency.rank(0.5), latency.rank(0.3)
    ((90, 90), (50, 90))

    A Summary takes part in merge() as values whose intervals are single points.
    """

    __slots__ = ("_high", "_low")
    REASON = "its values are known only up to intervals, which would be lost; use its .low and .high, each a Summary"

    def __init__(self, low: Summary, high: Summary) -> None:
        """Combine summaries of the lower and of the upper ends of the same values.

        With it, sketches and windows can take part: feed one with `low` and one with `high` of every histogram, and
        combine their summaries when there is a query.
        """
        for part in (low, high):
            if not isinstance(part, Summary):
                raise TypeMismatchError(f"low and high must each be a Summary, not {type(part).__name__}")
        if low.n != high.n or (low.n and low.type != high.type):
            raise InvalidArgumentError(
                f"low has {low.n} values of {low.type} and high {high.n} of {high.type}; both must be of the same data"
            )
        check_order(low, high)
        self._low, self._high = low, high

    @staticmethod
    def merge(*summaries: "IntervalSummary | Summary") -> "IntervalSummary":
        """Return one summary of all values behind these. Rank errors add up, so the relative error never grows."""
        if not summaries:
            raise InvalidArgumentError("merge needs at least one summary")
        for other in summaries:
            if not isinstance(other, (IntervalSummary, Summary)):
                raise TypeMismatchError(
                    f"an IntervalSummary merges with an IntervalSummary or a Summary, not with {type(other).__name__}"
                )
        low = Summary.merge(*(s if isinstance(s, Summary) else s._low for s in summaries))
        high = Summary.merge(*(s if isinstance(s, Summary) else s._high for s in summaries))
        return combine(low, high)

    def compress(self, b: int, tail: float | None = None) -> "IntervalSummary":
        """Return a summary of at most b+1 tuples for either end; see Summary.compress."""
        return combine(self._low.compress(b, tail), self._high.compress(b, tail))

    def answer(self, phi: float) -> IntervalAnswer:
        """Return the upper end of the phi-quantile with its rank bounds, and the interval of the exact quantile."""
        answer = self._high.answer(phi)
        low, high = self.bounds(phi)
        rest = (answer.rank_lo, answer.rank_hi, answer.n, answer.error, answer.n_lo, answer.n_hi)
        return IntervalAnswer(answer.value, answer.phi, answer.target, *rest, low, high)

    def quantile(self, phi: float) -> Any:
        """Return the value of answer(phi): the upper end of an interval."""
        return self._high.quantile(phi)

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the upper ends of many quantiles in one call."""
        return self._high.quantiles(phis)

    def bounds(self, phi: float) -> tuple[Any, Any]:
        """Return two values between which the exact phi-quantile is proved to lie, inclusive.

        None where lift() has left an end of `low` or `high` open.
        """
        return self._low.bounds(phi)[0], self._high.bounds(phi)[1]

    def rank(self, value: Any, *, inclusive: bool = True) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on how many of the n values are <= value; < value with inclusive=False."""
        return self._high.rank(value, inclusive=inclusive)[0], self._low.rank(value, inclusive=inclusive)[1]

    def cdf(self, values: Any, *, inclusive: bool = True) -> Any:
        """Return the middle of the bounds of rank(), as a fraction of n."""
        check_not_empty(self.n)
        low, high = self.rank(values, inclusive=inclusive)
        return (low + high) / 2 / self.n

    @property
    def low(self) -> Summary:
        """Summary of the lower ends: of the data with every value rounded down to the end of its interval."""
        return self._low

    @property
    def high(self) -> Summary:
        """Summary of the upper ends: of the data with every value rounded up to the end of its interval."""
        return self._high

    @property
    def n(self) -> int:
        """Number of values behind this summary."""
        return self._high.n

    @property
    def type(self) -> ValueType:
        return self._high.type

    @property
    def nulls(self) -> int:
        """Number of skipped nulls."""
        return self._high.nulls

    @property
    def nans(self) -> int:
        """Number of NaN, which are in no interval."""
        return self._high.nans

    @property
    def error(self) -> float:
        """Certified error of ranks among the upper ends, as a fraction of n; 0 for an imported histogram."""
        return self._high.error

    @property
    def nbytes(self) -> int:
        return self._low.nbytes + self._high.nbytes

    def to_bytes(self) -> bytes:
        """Serialize to the bytes of docs/format.md: equal summaries give equal bytes."""
        low, high = self._low.to_bytes(), self._high.to_bytes()
        return MAGIC + struct.pack("<Q", len(low)) + low + high

    @classmethod
    def from_bytes(cls, data: bytes) -> "IntervalSummary":
        """Restore a summary from its bytes; raise CorruptBytesError if they are anything else."""
        data = check_bytes(data)
        if data[:4] != MAGIC or len(data) < 12:
            raise CorruptBytesError(f"these {len(data)} bytes are not an interval summary")
        end = 12 + struct.unpack_from("<Q", data, 4)[0]
        low, high = Summary.from_bytes(data[12:end]), Summary.from_bytes(data[end:])
        counts = [(s.n, s.type, s.nulls, s.nans) for s in (low, high)]
        if counts[0] != counts[1]:
            raise CorruptBytesError("these bytes are not an interval summary: its ends are not of the same data")
        try:
            return cls(low, high)
        except InvalidArgumentError as error:
            raise CorruptBytesError(f"these bytes are not an interval summary: {error}") from error

    def __len__(self) -> int:
        """Return the number of tuples of both ends."""
        return len(self._low) + len(self._high)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSummary):
            return NotImplemented
        return self._low == other._low and self._high == other._high

    def __hash__(self) -> int:
        return hash((self._low, self._high))

    def __repr__(self) -> str:
        return f"IntervalSummary(n={self.n}, tuples={len(self)}, error={self.error:.3g}, type={self.type})"


def combine(low: Summary, high: Summary) -> IntervalSummary:
    """Combine two summaries that are known to be of the ends of the same values; internal."""
    summary = object.__new__(IntervalSummary)
    summary._low, summary._high = low, high
    return summary


def check_order(low: Summary, high: Summary) -> None:
    """Raise if some rank has a lower end above its upper end, which no data can have.

    Ranks up to rmin of a tuple of `high` have upper ends of at most its value; ranks from rmax of a tuple of `low` on
    have lower ends of at least its value.
    """
    before = np.searchsorted(low.rmax, high.rmin, side="right") - 1
    known = before >= 0
    wrong = np.flatnonzero(low.carried[before[known]] > high.carried[known])
    if len(wrong):
        rank = int(high.rmin[known][wrong[0]])
        raise InvalidArgumentError(
            f"rank {rank} has a lower end of {low.values[before[known][wrong[0]]]} and an upper end of "
            f"{high.values[known][wrong[0]]}; low and high are of different data, or in the wrong order"
        )
