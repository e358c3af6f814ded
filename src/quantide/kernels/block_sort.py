"""Sorting of arrays: by radix sort from a certain size on, by np.sort below, whichever this processor runs faster.

The choice is measured once for each process and carrier type, in a few milliseconds. It never changes a result: both
sort NaN last, and -0.0 becomes 0.0. QUANTIDE_SORT=radix or QUANTIDE_SORT=numpy forces one of them.
"""

import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.kernels import radix_sort, rank_selection
from quantide.kernels.presort import detect_order
from quantide.kernels.radix_sort import key_layout
from quantide.typing import Array, Ints, Words

VARIABLE = "QUANTIDE_SORT"
CARRIERS = ("float64", "float32", "int64")
SIZES = (1 << 14, 1 << 12, 1 << 10, 1 << 8)  # at which both are measured, downwards
MEASURED = 1 << 15  # values that are sorted to measure
NEVER = 1 << 62
MAX_SIZE = 1 << 32  # counters of the radix sort have 32 bits


def sort(values: Array) -> None:
    """Sort an array of a carrier type in place."""
    sort_rows(values.reshape(1, -1))


def sorted_copy(values: Array) -> Array:
    """Return the values sorted, in a new array."""
    copy = values.copy()
    sort(copy)
    return copy


def sort_rows(rows: Array) -> None:
    """Sort every row of a two-dimensional array in place."""
    count, size = rows.shape
    if not size:
        return
    if not radix_from(rows.dtype.name) <= size < MAX_SIZE or not rows.flags.c_contiguous:
        numpy_sort(rows)
    else:
        radix_sort.sort_segments(
            as_bits(rows).reshape(-1),
            np.arange(0, (count + 1) * size, size),
            np.arange(count),
            layout_of(rows.dtype.name),
        )


def sort_segments(values: Array, bounds: Ints) -> None:
    """Sort every segment values[bounds[s]:bounds[s+1]] in place; one that is sorted in either direction is not sorted.

    -0.0 must be 0.0 already.
    """
    unsorted = []
    for s in range(len(bounds) - 1):
        segment = values[bounds[s] : bounds[s + 1]]
        order = detect_order(segment)
        if order < 0:
            segment[:] = segment[::-1].copy()
        elif not order:
            unsorted.append(s)
    if unsorted and len(values) // (len(bounds) - 1) >= radix_from(values.dtype.name):
        radix_sort_segments(values, bounds, np.array(unsorted))
    else:
        for s in unsorted:
            numpy_sort(values[bounds[s] : bounds[s + 1]])


def radix_sort_segments(values: Array, bounds: Ints, chosen: Ints) -> None:
    """Sort the chosen segments values[bounds[s]:bounds[s+1]] in place."""
    radix_sort.sort_segments(as_bits(values), bounds, chosen, layout_of(values.dtype.name))


def as_bits(values: Array) -> Array:
    """Return a view of the values as unsigned integers."""
    return values.view(f"u{values.itemsize}")


@cache
def layout_of(name: str) -> Words:
    """Return the key layout of a carrier type."""
    return key_layout(np.dtype(name))


@cache
def radix_from(name: str) -> int:
    """Return the size from which a radix sort of this carrier type is faster than np.sort; NEVER if it is not."""
    if _setting() == "numpy" or name not in CARRIERS:
        return NEVER
    if _setting() == "radix":
        return 0
    smallest = NEVER
    for size in SIZES:
        radix, plain = sort_speeds(name, size)
        if radix <= plain:
            break
        smallest = size
    return smallest


@cache
def sort_speeds(name: str, size: int) -> tuple[float, float]:
    """Measure both sorts on blocks of random values; return values per second, radix sort first."""
    blocks = _random_blocks(name, size)
    bounds, chosen = np.arange(0, MEASURED + 1, size), np.arange(len(blocks))
    radix = _fastest(lambda values: radix_sort_segments(values.reshape(-1), bounds, chosen), blocks)
    return MEASURED / radix, MEASURED / _fastest(numpy_sort, blocks)


def numpy_sort(rows: Array) -> None:
    """Sort an array in place along its last axis, with np.sort."""
    positive_zeros(rows)
    rows.sort(axis=-1)


def positive_zeros(values: Array) -> Array:
    """Turn -0.0 into 0.0 in place: equal values must give equal bytes."""
    if values.dtype.kind == "f":
        values += 0.0
    return values


def select_rows(blocks: Array, ranks: Ints) -> Array | None:
    """Return the values of each block, a row, that have these ranks; None if there is a NaN.

    The ranks are ascending, counted from 1, and include the first and the last. Blocks that are sorted already, in
    either direction, are only read.
    """
    order = detect_order(blocks.reshape(-1))
    if order:
        return positive_zeros(blocks.take(ranks - 1 if order > 0 else blocks.shape[1] - ranks, axis=1))
    few = rank_selection.FEW * len(ranks) <= blocks.shape[1]
    select = _select_by_radix if selects_by_radix(blocks.dtype.name, few) else _select_by_numpy
    return select(blocks, ranks)


def _select_by_radix(blocks: Array, ranks: Ints) -> Array | None:
    rows = np.empty((len(blocks), len(ranks)), dtype=blocks.dtype)
    found = rank_selection.select_rows(as_bits(blocks), ranks, layout_of(blocks.dtype.name), as_bits(rows))
    return rows if found else None


def _select_by_numpy(blocks: Array, ranks: Ints) -> Array | None:
    sorted_blocks = blocks.copy()
    sorted_blocks.sort(axis=1)
    rows = positive_zeros(sorted_blocks.take(ranks - 1, axis=1))
    return None if (rows[:, -1] != rows[:, -1]).any() else rows


@cache
def selects_by_radix(name: str, few: bool = False) -> bool:
    """Return True if radix selection of every eighth rank, or of few, is faster than np.sort."""
    if _setting() != "auto":
        return _setting() == "radix"
    step = 2 * rank_selection.FEW if few else 8
    blocks, ranks = _random_blocks(name, SIZES[0]), np.concatenate(([1], np.arange(step, SIZES[0] + 1, step)))
    by_radix, by_numpy = (
        _fastest(lambda values: select(values, ranks), blocks)  # noqa: B023
        for select in (_select_by_radix, _select_by_numpy)
    )
    return by_radix < by_numpy


def _setting() -> str:
    setting = os.environ.get(VARIABLE, "auto")
    if setting not in ("auto", "radix", "numpy"):
        raise InvalidArgumentError(f"{VARIABLE}={setting!r} is not a way to sort; set it to radix, numpy or auto")
    return setting


def _random_blocks(name: str, size: int) -> Array:
    """Return different blocks: a processor learns the branches of one that is sorted again and again."""
    return (np.random.default_rng(1).normal(size=(MEASURED // size, size)) * 1e6).astype(np.dtype(name))


def _fastest(function: Callable[[Array], Any], blocks: Array) -> float:
    """Return the shortest of a few processor times, in seconds; the first call may load machine code.

    On a busy machine, the time on the clock would say how long others had the processor.
    """
    times = []
    for _ in range(4):
        values = blocks.copy()
        start = time.thread_time()
        function(values)
        times.append(time.thread_time() - start)
    return max(min(times), 1e-9)
