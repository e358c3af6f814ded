"""Population stability index (PSI) of two distributions over bins, with proved bounds.

docs/guarantees/comparison.md proves them.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.summary.cdf_distance import Interval
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import check_size
from quantide.typing import Array, Floats

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

MAX_BINS = 10_000
WIDENING = 2.0**-47  # relative; all roundings of a term and of the sum together are less


def read_splits(bins: Any, reference: "Summary") -> Array:
    """Return the values between bins, as carried numbers: `bins` - 1 quantiles of the reference, or given values.

    Equal quantiles of the reference make one split, so that many equal values give fewer bins.
    """
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        number = check_size("bins", bins, 2)
        if number > MAX_BINS:
            raise InvalidArgumentError(f"bins={number} are too many; the most are {MAX_BINS}, and 10 is usual")
        return np.unique(reference.carried[reference.indexes_of(np.arange(1, number) / number)])
    if bins is None or isinstance(bins, (str, bytes, bool, float)) or not np.size(bins):
        raise InvalidArgumentError(f"bins must be a number of quantile bins or values between bins, not {bins!r}")
    numbers, below, _ = read_query_values(bins, reference.type)
    if below.any() or np.any(numbers[1:] <= numbers[:-1]):
        given = f"{bins!r:.200}"  # there may be thousands
        raise InvalidArgumentError(f"the values between bins must increase, and lie among {reference.type}s: {given}")
    return numbers


def check_floor(floor: Any) -> float:
    """Return the smallest fraction of a bin as a float; raise unless it is in [0, 1)."""
    if isinstance(floor, bool) or not isinstance(floor, (int, float, np.floating)) or not 0 <= floor < 1:
        raise InvalidArgumentError(f"floor must be a number in [0, 1), not {floor!r}; 0.0001 is usual")
    return float(floor)


def find_psi(a: "Summary", b: "Summary", splits: Array, floor: float) -> Interval:
    """Return bounds of the sum over bins of (p - q) * ln(p / q).

    p and q are the fractions of the values in a bin, or `floor` where they are less. With floor=0 a bin that may be
    empty on one side makes the upper bound infinite.
    """
    (low_a, high_a), (low_b, high_b) = _fractions(a, splits, floor), _fractions(b, splits, floor)
    nearest = _terms(low_a, high_b) + _terms(low_b, high_a)  # one of the two is 0
    farthest = np.maximum(_terms(high_a, low_b), _terms(high_b, low_a))
    low, high = math.fsum(nearest), math.fsum(farthest)
    return low * (1 - WIDENING), high * (1 + WIDENING)


def _fractions(summary: "Summary", splits: Array, floor: float) -> tuple[Floats, Floats]:
    """Return bounds of the fractions of the values in (-inf, s1], (s1, s2], ..., (sk, inf)."""
    indexes = np.searchsorted(summary.carried, splits, side="right")
    low = np.concatenate(([0], np.concatenate(([0], summary.rmin))[indexes], [summary.n]))
    high = np.concatenate(([0], np.concatenate((summary.rmax - 1, [summary.n]))[indexes], [summary.n]))
    least, most = np.maximum(low[1:] - high[:-1], 0) / summary.n, (high[1:] - low[:-1]) / summary.n
    least = np.nextafter(least, 0, where=least > 0, out=np.zeros(len(least)))
    most = np.nextafter(most, 1, where=most > 0, out=np.zeros(len(most)))
    return np.maximum(least, floor), np.maximum(most, floor)


def _terms(p: Floats, q: Floats) -> Floats:
    """Return (p - q) * ln(p / q), infinite if one of the two is 0, and 0 if p is not above q.

    ln(p / q) is log1p((p - q) / q), whose relative error does not grow where p is close to q. A quotient by a tiny
    floor may overflow, and ln(p) - ln(q) does not.
    """
    difference = np.maximum(p - q, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = difference / q
        logs = np.where(np.isinf(quotient), np.log(p) - np.log(q), np.log1p(quotient))
        terms: Floats = difference * logs
    terms[difference == 0] = 0.0
    return terms
