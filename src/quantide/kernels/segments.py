"""Segments: values laid out key by key, each key's values side by side."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled, pure

Ints = NDArray[np.int64]
Array = NDArray[np.generic]


@pure
def scatter(codes: Ints, values: Array, bounds: Ints) -> Array:
    """Values grouped by code, in arrival order; those of code c go to bounds[c]:bounds[c+1]."""
    places = bounds[:-1].copy()
    out = np.empty_like(values)
    for i in range(len(values)):
        c = codes[i]
        out[places[c]] = values[i]
        places[c] += 1
    return out


@compiled
def sort_short(values: Array, bounds: Ints, longest: int) -> None:
    """Sort every segment of at most `longest` values, in place, by insertion."""
    for s in range(len(bounds) - 1):
        start, end = bounds[s], bounds[s + 1]
        if end - start > longest:
            continue
        for i in range(start + 1, end):
            x = values[i]
            j = i
            while j > start and values[j - 1] > x:
                values[j] = values[j - 1]
                j -= 1
            values[j] = x


@compiled
def gather_rows(values: Array, bounds: Ints, chosen: Ints, rows: Array) -> None:
    """Copy the chosen segments into rows, filling up with each segment's largest value."""
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
def return_rows(values: Array, bounds: Ints, chosen: Ints, rows: Array) -> None:
    """Copy the first values of each row back to its segment."""
    for k in range(len(chosen)):
        start, end = bounds[chosen[k]], bounds[chosen[k] + 1]
        for i in range(start, end):
            values[i] = rows[k, i - start]


@pure
def sample(values: Array, bounds: Ints, steps: Ints) -> tuple[Array, Ints, Ints]:
    """Every steps[s]-th value of each sorted segment from its first on, and its last; with ranks and new bounds."""
    begins = np.zeros(len(bounds), dtype=np.int64)
    for s in range(len(steps)):
        n = bounds[s + 1] - bounds[s]
        begins[s + 1] = begins[s] + (0 if n == 0 else 1 + (n - 2 + steps[s]) // steps[s])
    out = np.empty(begins[-1], dtype=values.dtype)
    ranks = np.empty(begins[-1], dtype=np.int64)
    for s in range(len(steps)):
        n = bounds[s + 1] - bounds[s]
        for i in range(begins[s], begins[s + 1]):
            rank = min(n, 1 + (i - begins[s]) * steps[s])
            out[i] = values[bounds[s] + rank - 1]
            ranks[i] = rank
    return out, ranks, begins


@pure
def spread(bounds: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Places of all elements when segments are put into another order, and the new bounds."""
    begins = np.zeros(len(order) + 1, dtype=np.int64)
    for k in range(len(order)):
        begins[k + 1] = begins[k] + bounds[order[k] + 1] - bounds[order[k]]
    places = np.empty(begins[-1], dtype=np.int64)
    for k in range(len(order)):
        for i in range(begins[k + 1] - begins[k]):
            places[begins[k] + i] = bounds[order[k]] + i
    return places, begins
