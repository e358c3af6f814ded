"""Edges of exponential buckets: powers of a base, and the rounding errors of programs that choose a bucket.

A producer computes the index of a value as a logarithm in float64, whose last digits are rounded. So a value very close
to an edge may be counted in the bucket beside its own. The edges here are widened by that error: the logarithm of an
edge is off by at most 16 units of rounding, relative to its size (docs/guarantees/histograms.md).
"""

import math
from functools import lru_cache

import numpy as np

from quantide.kernels.jit import freeze
from quantide.typing import Floats, Ints

UNIT = 2.0**-53  # relative error of one rounded operation
ROUNDINGS = 16  # of a logarithm and its scaling, by the producer and here
MIN_NORMAL = 2.0**-1022
MAX_FLOAT = float(np.finfo(np.float64).max)
MAX_CACHED = 512  # buckets whose edges are cached together
MIN_SCALE, MAX_SCALE = -11, 20  # scales whose indexes fit 32 bits
SCHEMAS = (-4, 8)  # the scales of Prometheus
NO_ENDS: Floats = freeze(np.empty(0))


def powers_of_two(indexes: Ints, scale: int) -> Floats:
    """Return 2 ** (index / 2**scale), exact for whole exponents, and otherwise within one unit in the last place."""
    if scale <= 0:
        fractions, exponents = np.ones(len(indexes)), indexes << -scale
    else:
        fractions, exponents = np.exp2((indexes & ((1 << scale) - 1)) / (1 << scale)), indexes >> scale
    with np.errstate(over="ignore", under="ignore"):
        edges: Floats = np.ldexp(fractions, np.minimum(np.maximum(exponents, -1100), 1100))  # np.clip takes longer
    return edges


def power_buckets(indexes: Ints, scale: int, exact: bool) -> tuple[Floats, Floats]:
    """Return the ends of buckets with increasing indexes, as compute_buckets() does, from a cache."""
    if not len(indexes):
        return NO_ENDS, NO_ENDS
    length = int(indexes[-1] - indexes[0]) + 1
    if length > MAX_CACHED:
        return compute_buckets(indexes, scale, exact)
    lows, highs = _cached_buckets(int(indexes[0]), length, scale, exact)
    return (lows, highs) if length == len(indexes) else (lows[at := indexes - indexes[0]], highs[at])


@lru_cache(maxsize=1024)
def _cached_buckets(first: int, length: int, scale: int, exact: bool) -> tuple[Floats, Floats]:
    lows, highs = compute_buckets(np.arange(first, first + length), scale, exact)
    return freeze(lows), freeze(highs)


def compute_buckets(indexes: Ints, scale: int, exact: bool) -> tuple[Floats, Floats]:
    """Return the ends of buckets (base^index, base^(index+1)] with base = 2^(2^-scale).

    With `exact`, the producer compares values with the edges; then only edges that are no powers of two are widened, by
    the rounding of the edges themselves. An exact lower edge is not in its bucket: the lower end is the next float.
    """
    lows, highs = powers_of_two(indexes, scale), powers_of_two(indexes + 1, scale)
    if not exact:  # of any scale: indexes of a finer scale, which are rounded, may have been merged
        logarithms = np.maximum(np.abs(indexes), np.abs(indexes + 1)) * (math.log(2) / 2.0**scale)
        return limit_ends(*widen_edges(lows, highs, ROUNDINGS * logarithms))
    wide_lows, wide_highs = widen_edges(lows, highs, 0.0)
    is_whole, next_is_whole = ((each & ((1 << max(scale, 0)) - 1)) == 0 for each in (indexes, indexes + 1))
    return limit_ends(
        np.where(is_whole, np.nextafter(lows, np.inf), wide_lows), np.where(next_is_whole, highs, wide_highs)
    )


def widen_edges(lows: Floats, highs: Floats, roundings: Floats | float) -> tuple[Floats, Floats]:
    """Return edges moved outwards by so many roundings of their size, and by four of the operations here."""
    slack = UNIT * (roundings + 4)
    with np.errstate(over="ignore", under="ignore"):
        return lows * (1 - slack), highs * (1 + slack)


def limit_ends(lows: Floats, highs: Floats) -> tuple[Floats, Floats]:
    """Return ends of positive values: producers may count subnormal values in the lowest bucket of normal ones.

    The bucket beyond all finite numbers contains infinity alone.
    """
    lows = np.where(lows <= MIN_NORMAL * (1 + 1e-9), 0.0, np.minimum(lows, MAX_FLOAT))
    return lows, np.where(np.isinf(highs) & (lows < MAX_FLOAT), MAX_FLOAT, highs)
