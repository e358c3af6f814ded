"""Interval masses: the fractions of the values between splits, from a CDF."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.summary.outward_rounding import fractions_above, fractions_below
from quantide.summary.value_column import plain_values
from quantide.typing import Floats


def masses_between(splits: Any, cdf: Callable[[Any], Any]) -> Floats:
    """Return the fractions of values below the first split, between neighbouring splits, and above the last one.

    They are differences of `cdf` and add up to 1. The splits must not decrease.
    """
    _check_ascending(splits)
    fractions = np.atleast_1d(np.asarray(cdf(splits), dtype=np.float64))
    return np.diff(fractions, prepend=0.0, append=1.0)


def bound_masses(splits: Any, rank: Callable[[Any], tuple[Any, Any]], n: int) -> tuple[Floats, Floats]:
    """Return proved bounds on those fractions, from proved bounds on the number of values up to each split."""
    _check_ascending(splits)
    low, high = (np.concatenate(([0], np.atleast_1d(bound), [n])) for bound in rank(splits))
    return fractions_below(np.maximum(low[1:] - high[:-1], 0), n), fractions_above(high[1:] - low[:-1], n)


def _check_ascending(splits: Any) -> None:
    plain = plain_values(splits)
    items = plain.to_pylist() if isinstance(plain, (pa.Array, pa.ChunkedArray)) else list(plain)
    try:
        decreasing = next(((a, b) for a, b in pairwise(items) if b < a), None)
    except TypeError:  # cdf() names the value that cannot be compared
        decreasing = None
    if decreasing is not None:
        raise InvalidArgumentError(f"splits must not decrease, unlike {decreasing[0]}, {decreasing[1]}; sort them")
