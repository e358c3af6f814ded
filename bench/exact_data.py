"""ExactData: sorted values with counts, and exact results about them. Nothing here imports quantide.

Finite floats are whole numbers times one power of two, so every sum is a sum of whole numbers. Results are whole
numbers or fractions; an infinite result is a float, and an undefined one is NaN.
"""

import math
from bisect import bisect_left, bisect_right
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Exact = int | float | Fraction
DIGITS = Context(prec=40)  # of logarithms: a fraction of 1e-40 is far below what is compared
INT64 = 2**62  # products below this are exact in int64


def whole_numbers(values: Array) -> tuple[list[int], Fraction]:
    """Return whole numbers and a unit: value i is the number i times the unit. Infinite values are 0."""
    if values.dtype.kind in "iu":
        return values.tolist(), Fraction(1)
    finite = np.where(np.isinf(values), 0.0, values.astype(np.float64))
    fractions, exponents = np.frexp(finite)
    numbers = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents[numbers != 0].min(initial=1100))
    shifts = np.where(numbers != 0, exponents - lowest, 0)
    unit = Fraction(2) ** (lowest - 53) if numbers.any() else Fraction(1)
    if shifts.max(initial=0) < 10:
        return (numbers << shifts).tolist(), unit
    return [number << shift for number, shift in zip(numbers.tolist(), shifts.tolist(), strict=True)], unit


class ExactData:
    """Distinct values in increasing order, each with the number of its occurrences."""

    def __init__(self, values: Array, weights: Array | None = None) -> None:
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        counts = np.ones(len(values), dtype=np.int64) if weights is None else weights[order].astype(np.int64)
        first = np.ones(len(ordered), dtype=bool)
        first[1:] = ordered[1:] != ordered[:-1]
        self.values = ordered[first]
        self.cumulative = np.cumsum(counts)[np.append(np.flatnonzero(first)[1:] - 1, len(ordered) - 1)]
        self.n = int(self.cumulative[-1])

    @cached_property
    def numbers(self) -> list[Any]:
        """Distinct values as Python numbers, which compare exactly with each other."""
        return list(self.values.tolist())

    @cached_property
    def ends(self) -> list[int]:
        """Number of values up to each distinct one."""
        return list(self.cumulative.tolist())

    def target(self, phi: float) -> int:
        """Return the rank of the phi-quantile, as docs/guarantees/summary.md defines it."""
        return max(1, math.ceil(phi * self.n - 1e-9))

    def at(self, rank: int) -> Any:
        """Return the value at a rank; an infinity beyond the first and the last."""
        if not 1 <= rank <= self.n:
            return -math.inf if rank < 1 else math.inf
        return self.numbers[bisect_left(self.ends, rank)]

    def ranks_of(self, value: Any) -> tuple[int, int]:
        """Return the first and the last rank of a value; the last is below the first if there is no such value."""
        return self.count(value, False) + 1, self.count(value)

    def count(self, value: Any, inclusive: bool = True) -> int:
        """Return the number of values at most this one; below it, unless `inclusive`."""
        index = bisect_right(self.numbers, value) if inclusive else bisect_left(self.numbers, value)
        return self.ends[index - 1] if index else 0

    def rank_sum(self, first: Fraction, last: Fraction) -> Exact:
        """Return the sum of values, each with the part of its rank's range r-1..r that lies in first..last."""
        if first >= last:
            return 0
        low, high = self._infinite
        if first < low or last > self.n - high:
            return math.nan if first < low and last > self.n - high else -math.inf if first < low else math.inf
        return (self._sum_to(last) - self._sum_to(first)) * self._unit

    def mean_between(self, first: Fraction, last: Fraction) -> Exact:
        """Return the mean of the values between two fractions of all ranks."""
        return self._divided(self.rank_sum(first * self.n, last * self.n), (last - first) * self.n)

    def winsorised_mean(self, cut: Fraction) -> Exact:
        """Return the mean with the values beyond both cuts replaced by those at the cuts."""
        first, last = cut * self.n, (1 - cut) * self.n
        total = self.rank_sum(first, last)
        for rank in (math.floor(first) + 1, math.ceil(last)) if cut else ():
            end = self.at(rank)
            total = total + (end if isinstance(end, float) and math.isinf(end) else first * Fraction(end))
        return self._divided(total, Fraction(self.n))

    def sum_above(self, threshold: Any) -> Exact:
        """Return the sum of the values above a threshold."""
        return self.rank_sum(Fraction(self.count(threshold)), Fraction(self.n))

    def masses(self, splits: list[Any], inclusive: bool = True) -> list[int]:
        """Return the number of values up to the first split, between neighbouring ones, and above the last."""
        counts = [0, *(self.count(split, inclusive) for split in splits), self.n]
        return [high - low for low, high in pairwise(counts)]

    @cached_property
    def _infinite(self) -> tuple[int, int]:
        """Number of values that are the negative, and the positive infinity."""
        return self.count(-math.inf), self.n - self.count(math.inf, False)

    @cached_property
    def _whole(self) -> tuple[list[int], Fraction]:
        return whole_numbers(self.values)

    @property
    def _unit(self) -> Fraction:
        return self._whole[1]

    @cached_property
    def _sums(self) -> list[int]:
        """Sums of all values before each distinct one, in units."""
        counts = np.diff(self.cumulative, prepend=0).tolist()
        return list(accumulate(map(mul, self._whole[0], counts), initial=0))

    def _sum_to(self, rank: Fraction) -> Fraction | int:
        index = bisect_right(self.ends, rank)
        if index == len(self.ends):
            return self._sums[index]
        before = self.ends[index - 1] if index else 0
        return self._sums[index] + (rank - before) * self._whole[0][index]

    @staticmethod
    def _divided(total: Exact, weight: Fraction) -> Exact:
        return total if isinstance(total, float) else Fraction(total) / weight


class ExactPair:
    """Exact distances of two data sets."""

    def __init__(self, a: ExactData, b: ExactData) -> None:
        self.a, self.b = a, b
        self._points = np.unique(np.concatenate((a.values, b.values)))
        kind: Any = np.int64 if a.n * b.n < INT64 else object
        counts = [
            np.append(0, one.cumulative)[np.searchsorted(one.values, self._points, "right")].astype(kind)
            for one in (a, b)
        ]
        self._heights = np.abs(counts[0] * b.n - counts[1] * a.n)

    @cached_property
    def ks(self) -> Fraction:
        """Largest difference of the two CDFs."""
        return Fraction(int(self._heights.max()), self.a.n * self.b.n)

    @cached_property
    def wasserstein(self) -> Exact:
        """Area between the CDFs: widths telescope, so each point has the difference of the heights beside it."""
        points, heights = self._points, self._heights
        if points.dtype.kind == "f":
            infinite = np.isinf(points)
            if (heights[:-1][infinite[:-1] | infinite[1:]] != 0).any():
                return math.inf
        numbers, unit = whole_numbers(points)
        steps = np.diff(-heights[:-1], prepend=0, append=0).tolist()
        return Fraction(sum(map(mul, numbers, steps))) * unit / (self.a.n * self.b.n)

    def psi(self, splits: list[Any], floor: float) -> Exact:
        """Population stability index over the bins between splits."""
        least = Fraction(floor)
        shares = [[max(Fraction(count, one.n), least) for count in one.masses(splits)] for one in (self.a, self.b)]
        with localcontext(DIGITS):
            index = Decimal(0)
            for p, q in zip(*shares, strict=True):
                if p != q:
                    if not p or not q:
                        return math.inf
                    index += _decimal(p - q) * _decimal(p / q).ln()
            return Fraction(index)

    def shift(self, phi: float) -> Exact:
        """Difference of the quantiles."""
        return difference(*self.quantiles(phi))

    def quantiles(self, phi: float) -> tuple[Any, Any]:
        return self.a.at(self.a.target(phi)), self.b.at(self.b.target(phi))


def difference(x: Any, y: Any) -> Exact:
    """Return x - y; 0 if they are equal, also if both are infinite."""
    if x == y:
        return 0
    return float(x) - float(y) if math.inf in (abs(x), abs(y)) else Fraction(x) - Fraction(y)


def binomial_chances(n: int, phi: float) -> Array:
    """Return P(Bin(n, phi) = k) for k from 0 to n: products of ratios to the largest one, divided by their sum.

    Each is off by less than n / 2^50 of itself.
    """
    if phi in (0.0, 1.0):
        return np.asarray(np.eye(n + 1)[0 if phi == 0 else n])
    mode, k = min(n, int((n + 1) * phi)), np.arange(1, n + 1)
    odds = (n - k + 1) / k * (phi / (1 - phi))  # P(k) / P(k - 1)
    above, below = np.cumprod(odds[mode:]), np.cumprod(1 / odds[:mode][::-1])[::-1]
    chances = np.concatenate((below, [1.0], above))
    return np.asarray(chances / math.fsum(chances))


def sample_ranks(n: int, phi: float, level: float) -> tuple[int, int]:
    """Return the narrowest ranks l and u with P(Bin(n, phi) < l) and P(Bin(n, phi) >= u) at most (1 - level) / 2."""
    chances, half = binomial_chances(n, phi), (1 - level) / 2
    return int((np.cumsum(chances) <= half).sum()), n + 1 - int((np.cumsum(chances[::-1]) <= half).sum())


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
