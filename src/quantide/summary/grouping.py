"""Grouping: values partitioned by key and every key's values sorted, in a few compiled passes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.segments import gather_rows, return_rows, scatter, sort_short

SHORT = 24  # segments up to this length are sorted by insertion
LONG = 1 << 14  # longer ones are sorted by a call each; there are few of them
AT_ONCE = 1 << 18  # values of rows that are sorted together


def group_by_code(
    codes: NDArray[np.int64], values: NDArray[Any], groups: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The values of each code side by side and sorted, and where each code's begin."""
    bounds = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=groups), out=bounds[1:])
    grouped = scatter(codes, values, bounds)
    sort_segments(grouped, bounds)
    return grouped, bounds


def sort_segments(values: NDArray[Any], bounds: NDArray[np.int64]) -> None:
    """Sort every segment in place.

    Segments of like length become rows of one array, filled up to a common width, and one call sorts them all
    at the speed of np.sort. Widths grow by a quarter at most, so little is sorted in vain.
    """
    sort_short(values, bounds, SHORT)
    lengths = np.diff(bounds)
    width = SHORT
    while width < LONG:
        narrower, width = width, max(width + 8, width * 5 // 4)
        chosen = np.flatnonzero((lengths > narrower) & (lengths <= width))
        at_once = max(1, AT_ONCE // width)
        for start in range(0, len(chosen), at_once):
            some = chosen[start : start + at_once]
            rows = np.empty((len(some), width), dtype=values.dtype)
            gather_rows(values, bounds, some, rows)
            rows.sort(axis=1)
            return_rows(values, bounds, some, rows)
    for segment in np.flatnonzero(lengths > width):
        values[bounds[segment] : bounds[segment + 1]].sort()
