"""Segments: values grouped by key, each key's values contiguous."""

import numpy as np

from quantide.kernels.jit import compiled, pure
from quantide.kernels.radix_sort import insertion_sort
from quantide.typing import Array, Ints


@pure
def scatter(codes: Ints, values: Array, bounds: Ints) -> Array:
    """Group values by code, in arrival order; those of code c are at bounds[c]:bounds[c+1]."""
    indices = bounds[:-1].copy()
    out = np.empty_like(values)
    for i in range(len(values)):
        c = codes[i]
        out[indices[c]] = values[i]
        indices[c] += 1
    return out


@compiled
def sort_short(values: Array, bounds: Ints, max_length: int) -> None:
    """Sort every segment of at most `max_length` values in place (insertion sort)."""
    for s in range(len(bounds) - 1):
        start, end = bounds[s], bounds[s + 1]
        if end - start <= max_length:
            insertion_sort(values, start, end)


@compiled
def gather_rows(values: Array, bounds: Ints, chosen: Ints, rows: Array) -> None:
    """Copy the chosen segments into rows, padded with each segment's largest value."""
    width = rows.shape[1]
    for k in range(len(chosen)):
        start, end = bounds[chosen[k]], bounds[chosen[k] + 1]
        largest = values[start]
        for i in range(start, end):
            x = values[i]
            rows[k, i - start] = x
            if x > largest:
                largest = x
        for i in range(end - start, width):
            rows[k, i] = largest


@compiled
def write_back_rows(values: Array, bounds: Ints, chosen: Ints, rows: Array) -> None:
    """Copy the first values of each row back to its segment."""
    for k in range(len(chosen)):
        start, end = bounds[chosen[k]], bounds[chosen[k] + 1]
        for i in range(start, end):
            values[i] = rows[k, i - start]


@pure
def sample(values: Array, bounds: Ints, steps: Ints) -> tuple[Array, Ints, Ints]:
    """Return every steps[s]-th value of each sorted segment from its first on, and its last; ranks; new bounds."""
    offsets = np.zeros(len(bounds), dtype=np.int64)
    for s in range(len(steps)):
        n = bounds[s + 1] - bounds[s]
        offsets[s + 1] = offsets[s] + (0 if n == 0 else 1 + (n - 2 + steps[s]) // steps[s])
    out = np.empty(offsets[-1], dtype=values.dtype)
    ranks = np.empty(offsets[-1], dtype=np.int64)
    for s in range(len(steps)):
        n = bounds[s + 1] - bounds[s]
        for i in range(offsets[s], offsets[s + 1]):
            rank = min(n, 1 + (i - offsets[s]) * steps[s])
            out[i] = values[bounds[s] + rank - 1]
            ranks[i] = rank
    return out, ranks, offsets


@pure
def permute_segments(bounds: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the indices of all elements with segments in another order, and the new bounds."""
    offsets = np.zeros(len(order) + 1, dtype=np.int64)
    for k in range(len(order)):
        offsets[k + 1] = offsets[k] + bounds[order[k] + 1] - bounds[order[k]]
    indices = np.empty(offsets[-1], dtype=np.int64)
    for k in range(len(order)):
        for i in range(offsets[k + 1] - offsets[k]):
            indices[offsets[k] + i] = bounds[order[k]] + i
    return indices, offsets
