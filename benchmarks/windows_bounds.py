"""How many tuples the papers' own structures may hold over a window of n values, with their constants."""

import math

import numpy as np

TUPLE_BYTES = 16  # a float64 and two numbers of 32 bits, the least that a tuple of these papers takes


def gk(eps: float, n: int) -> float:
    """A sketch of Greenwald and Khanna: 11/(2 eps) * log2(2 eps n) tuples, and never more than there are values."""
    return float(_gk(eps, np.array([n]))[0])


def sliding(eps: float, n: int) -> int:
    """RECENT, algorithm SW: 2/eps buckets of eps*n/2 values, each compressed to 2/eps + 2 tuples, and an open one.

    The open bucket is a sketch of Greenwald and Khanna for eps/4.
    """
    closed = math.ceil(2 / eps) * (math.ceil(2 / eps) + 2)
    return math.ceil(closed + gk(eps / 4, math.ceil(eps * n / 2)))


def recent(eps: float, n: int) -> int:
    """RECENT's nN and CONSTRAINED's framework: a sketch for eps/2 of everything since the start of each bucket.

    Buckets have 1, 2, 4, ... values, up to ceil(2/eps) + 1 of each size, as many as reach back n values. Each sketch is
    counted with the values that it covers; counting each with all n, as the papers' O() does, would give about twice.
    """
    of_a_size = math.ceil(2 / eps) + 1
    covered, tuples, size = 0, 0.0, 1
    while covered < n:
        starts = covered + size * np.arange(1, of_a_size + 1)
        starts = starts[: 1 + int(np.searchsorted(starts, n))]
        tuples += float(_gk(eps / 2, np.minimum(starts, n)).sum())
        covered, size = int(starts[-1]), 2 * size
    return math.ceil(tuples)


def _gk(eps: float, n: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    bound = 11 / (2 * eps) * np.log2(np.maximum(2 * eps * n, 1.0))
    small = 2 * eps * n < 2  # too few to leave any out
    return np.where(small, n, np.minimum(bound, n))
