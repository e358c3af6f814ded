"""Ranks between which a quantile of the population lies, with a confidence: order statistics of a random sample.

Of n independent values of one distribution, the number at or below its phi-quantile is binomial. No assumption about
the distribution is needed. docs/guarantees/comparison.md has the proof.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.typing import Floats

MARGIN = 1e-9  # relative; a computed tail is closer than that
STEPS = 64  # groups of counts in a standard deviation
REACH, MORE = 12, 40  # standard deviations and counts from the first one of a tail; the rest is below 1e-25 of it
SMALL_N, SMALL_SHARE = 10_000, 1e-6  # up to this n, and for larger shares, sums of lgamma are off by less than 1e-10
LOG_ROOT = 0.5 * math.log(2 * math.pi)
SMALL_ERRORS = np.array([0.0, *(math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - LOG_ROOT for k in range(1, 16))])
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


def check_level(level: Any) -> float:
    """Return the confidence as a float; raise unless it is in (0, 1)."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0 < float(level) <= 1 - 1e-12:
        raise InvalidArgumentError(f"level must be a probability below 1, such as 0.95, not {level!r}")
    return float(level)


def confidence_ranks(n: int, phi: float, level: float) -> tuple[int, int]:
    """Return ranks (low, high) between whose values the phi-quantile of the population lies with this confidence.

    Rank 0 means that there is no lower end, and rank n + 1 no upper end.

    >>> confidence_ranks(100, 0.5, 0.95), confidence_ranks(5, 0.5, 0.95), confidence_ranks(1000, 0.99, 0.95)
    ((40, 61), (0, 6), (983, 997))
    """
    half = (1 - level) / 2
    return _lower_rank(n, phi, 1 - phi, half), n + 1 - _lower_rank(n, 1 - phi, phi, half)


def _lower_rank(n: int, phi: float, other: float, half: float) -> int:
    """Return the largest rank r with P(Bin(n, phi) <= r - 1) <= half; other = 1 - phi."""
    if phi == 0 or other == 0:
        return 0 if phi == 0 else n
    top, deviation = int(n * phi) + 1, math.sqrt(n * phi * other)  # the median is at most `top`
    guess = n * phi + NormalDist().inv_cdf(half) * deviation
    width = 1 + int(deviation / 16)
    low, high = max(int(guess) - width, -1), min(int(guess) + width, top)
    while low >= 0 and lower_tail(n, phi, other, low) > half:
        low = max(low - width, -1)
    while high < top and lower_tail(n, phi, other, high) <= half:
        low, high = high, min(high + width, top)
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(n, phi, other, middle) <= half:
            low = middle
        else:
            high = middle
    return low + 1


def lower_tail(n: int, phi: float, other: float, count: int) -> float:
    """Return an upper bound of P(Bin(n, phi) <= count) for a count up to the mean; other = 1 - phi.

    Terms are added from `count` down. The ratio of a term to the one above falls with the count, so that a group of
    terms is at most a geometric series with the group's first ratio. Groups of one term give the exact sum.
    """
    if count < 0:
        return 0.0
    deviation = math.sqrt(n * phi * other)
    reach = int(REACH * deviation) + MORE
    if n <= SMALL_N and min(phi, other) > SMALL_SHARE:
        return _small_tail(n, phi, other, count, reach)
    size = max(1, int(deviation / STEPS))
    firsts = count - size * np.arange(min(count // size, reach // size + 1) + 1)
    terms = np.exp(_log_probabilities(n, phi, other, firsts.astype(np.float64)))
    if size == 1:
        return float(terms.sum()) * (1 + MARGIN)
    ratios = firsts * other / ((n - firsts + 1) * phi)
    groups = -np.expm1(size * np.log(ratios, where=ratios > 0, out=np.full(len(ratios), -np.inf))) / (1 - ratios)
    return float((terms * groups).sum()) * (1 + MARGIN)


def _small_tail(n: int, phi: float, other: float, count: int, reach: int) -> float:
    """Return an upper bound of P(Bin(n, phi) <= count) from its first term, and from the ratios of neighbours."""
    ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
    first = math.exp(ways + count * _log_of(phi, other) + (n - count) * _log_of(other, phi))
    counts = np.arange(count, max(count - reach, 0), -1)
    ratios = counts * (other / phi) / (n + 1 - counts)
    return first * (1.0 + float(np.cumprod(ratios).sum())) * (1 + MARGIN)


def _log_probabilities(n: int, phi: float, other: float, counts: Floats) -> Floats:
    """Return ln P(Bin(n, phi) = count), accurate for every n: Loader's form, without differences of large numbers."""
    rest = n - counts
    inner = (counts > 0) & (rest > 0)
    k, m = np.where(inner, counts, 1.0), np.where(inner, rest, 1.0)
    logs = _stirling_error(np.array([float(n)])) - _stirling_error(k) - _stirling_error(m)
    logs = logs - _deviance(k, n * phi) - _deviance(m, n * other)
    logs = logs + 0.5 * np.log(n / (2 * math.pi * k * m))
    ends = np.where(counts <= 0, n * _log_of(other, phi), n * _log_of(phi, other))
    return np.asarray(np.where(inner, logs, ends))


def _log_of(share: float, rest: float) -> float:
    """Return ln(share), from the smaller of the share and the rest: the other one may be rounded to 1."""
    return math.log1p(-rest) if rest < share else math.log(share)


def _stirling_error(k: Floats) -> Floats:
    """Return ln(k!) - ln(sqrt(2 pi k) (k/e)^k) for k >= 1."""
    inverse = 1 / np.maximum(k, 16.0)
    series = np.zeros(len(k))
    for coefficient in reversed(STIRLING):
        series = series * inverse**2 + coefficient
    return np.where(k < 16, SMALL_ERRORS[np.minimum(k, 15).astype(np.int64)], series * inverse)


def _deviance(k: Floats, mean: float) -> Floats:
    """Return k ln(k / mean) + mean - k, without cancellation where k is close to the mean."""
    x = (mean - k) / k
    small = np.abs(x) < 0.1
    y = np.where(small, x, 0.0)  # y - ln(1 + y) as a series
    series, power = np.zeros(len(y)), y * y
    for i in range(2, 20):
        series = series + power / i
        power = -power * y
    return np.asarray(k * np.where(small, series, x + np.log(k) - math.log(mean)))
