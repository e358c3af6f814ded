"""Merge of sorted runs: cut all of them at common values, and merge the pieces in a processor's cache."""

from collections.abc import Sequence

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Array, Ints

PIECE = 1 << 15  # values of a piece, about
STRIDE = 1 << 9  # every STRIDE-th value of a run may become a cut
GATHERED = 16  # pieces that are gathered from the runs at once
FEW = 8  # values left of a run; then a loop that checks both ends costs less


def merge_runs(runs: Sequence[Array]) -> Array:
    """Return the values of sorted runs, sorted."""
    out = np.empty(sum(map(len, runs)), dtype=runs[0].dtype)
    cuts = cut_runs(runs)
    ends = cuts.sum(axis=1)
    buffers = np.empty((2, int(np.diff(ends).max())), dtype=out.dtype)
    gathered = np.empty(int(np.diff(ends[::GATHERED]).max(initial=0)), dtype=out.dtype)
    for first in range(0, len(cuts) - 1, GATHERED):
        group = cuts[first : first + GATHERED + 1]
        slices = [run[low:high] for run, low, high in zip(runs, group[0], group[-1], strict=True)]
        start, end = int(ends[first]), int(ends[first + len(group) - 1])
        values = gathered[: end - start] if end - start <= len(gathered) else np.empty(end - start, dtype=out.dtype)
        np.concatenate(slices, out=values)
        starts = np.cumsum([0, *map(len, slices[:-1])])
        merge_pieces(values, group - group[0] + starts, buffers, out[start:end])
    return out


def cut_runs(runs: Sequence[Array]) -> Ints:
    """Return rows of positions, one in each run; pieces between consecutive rows have about PIECE values.

    Equal values are ordered by their run, so that they can be cut, too.
    """
    sampled = [run[STRIDE::STRIDE] for run in runs]
    samples = np.concatenate(sampled)
    order = np.argsort(samples, kind="stable")[:: PIECE // STRIDE]
    pivots = samples.take(order)
    owners = np.repeat(np.arange(len(runs)), [len(sample) for sample in sampled]).take(order)
    own_positions = np.concatenate([np.arange(1, len(sample) + 1) * STRIDE for sample in sampled]).take(order)
    columns = []
    for r, run in enumerate(runs):
        left, right = (np.searchsorted(run, pivots, side=side) for side in ("left", "right"))
        inner = np.where(owners == r, own_positions, np.where(owners < r, left, right))
        columns.append(np.concatenate(([0], inner, [len(run)])))
    return np.ascontiguousarray(np.transpose(columns))


@compiled
def merge_pair(values: Array, start: int, middle: int, end: int, out: Array) -> None:
    """Merge two sorted runs of values from both ends at once: two independent chains of dependencies, no branches.

    Each end writes as many values as the shorter run still has, so it cannot exhaust a run; that is repeated until few
    are left of one of them, and the rest is merged with checks.
    """
    i, j, k = np.uint64(start), np.uint64(middle), np.uint64(start)
    x, y, z = np.int64(middle - 1), np.int64(end - 1), np.int64(end - 1)
    one = np.uint64(1)
    shorter = min(middle - start, end - middle)
    while shorter > FEW:
        for _ in range(shorter):
            a, b = values[i], values[j]
            right = b < a
            out[k] = b if right else a
            j += np.uint64(right)
            i += one - np.uint64(right)
            k += one
            c, d = values[np.uint64(x)], values[np.uint64(y)]
            left = d < c
            out[np.uint64(z)] = c if left else d
            x -= np.int64(left)
            y -= 1 - np.int64(left)
            z -= 1
        shorter = int(min(x + 1 - np.int64(i), y + 1 - np.int64(j)))
    left_end, right_end = np.uint64(x + 1), np.uint64(y + 1)
    while i < left_end and j < right_end:
        a, b = values[i], values[j]
        right = b < a
        out[k] = b if right else a
        j += np.uint64(right)
        i += one - np.uint64(right)
        k += one
    out[k : k + (left_end - i)] = values[i:left_end]
    k += left_end - i
    out[k : k + (right_end - j)] = values[j:right_end]


@compiled
def merge_pieces(values: Array, cuts: Ints, buffers: Array, out: Array) -> None:
    """Merge the pieces between consecutive rows of cuts, one after the other, into `out`."""
    runs = cuts.shape[1]
    edges = np.empty(runs + 1, dtype=np.int64)
    at = 0
    for p in range(len(cuts) - 1):
        size = count = 0
        edges[0] = 0
        for r in range(runs):
            low, high = cuts[p, r], cuts[p + 1, r]
            if high > low:
                buffers[0, size : size + high - low] = values[low:high]
                size += high - low
                count += 1
                edges[count] = size
        source = 0
        while count > 2:
            pairs = (count + 1) // 2
            for q in range(pairs):
                start, middle = edges[2 * q], edges[2 * q + 1]
                end = edges[2 * q + 2] if 2 * q + 2 <= count else middle
                merge_pair(buffers[source], start, middle, end, buffers[1 - source])
                edges[q] = start
            edges[pairs] = size
            source = 1 - source
            count = pairs
        merge_pair(buffers[source], 0, edges[1] if count else 0, size, out[at : at + size])
        at += size
