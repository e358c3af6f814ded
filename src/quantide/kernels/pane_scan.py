"""Rows of panes: the stretches of time into which the edges of windows cut a stream.

Pane p has the times above edges[p - 1] and up to edges[p]; the first pane has no lower edge, the last no upper one.
A window is a run of panes. Rows are in any order, nearly that of their times. They are read in blocks of `block` rows.
The panes of a block's oldest and newest time are known: blocks that no window needs are skipped, and a block in one
pane needs no times.
"""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.jit import compiled
from quantide.typing import Array, Bools, Ints

GROUP = 32  # values that are counted together
# Counts of a pane: rows below an end of a band, or up to it.
BELOW_LOW, UPTO_LOW, BELOW_HIGH, UPTO_HIGH = range(4)

Panes = NDArray[np.int32]


@compiled
def find_pane(time: float, pane: int, edges: Array) -> int:
    """Return the pane of a time; `pane` is a guess."""
    count = len(edges)
    for _ in range(4):
        if pane < count and time > edges[pane]:
            pane += 1
        elif pane > 0 and time <= edges[pane - 1]:
            pane -= 1
        else:
            return pane
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def count_rows(
    times: Array, passes: Bools, n: int, block: int, oldest: Ints, newest: Ints, edges: Array, counts: Ints
) -> None:
    """Add the number of rows of each pane to `counts`; there are n rows.

    `oldest` and `newest` are the panes of each block's oldest and newest time; only blocks in several panes need
    `times`. `passes` masks rows; empty, all rows count.
    """
    every = len(passes) == 0
    for b in range(len(oldest)):
        start, pane = b * block, oldest[b]
        end = min(start + block, n)
        if pane == newest[b]:
            rows = end - start
            if not every:
                rows = 0
                for i in range(start, end):
                    rows += int(passes[i])
            counts[pane] += rows
            continue
        for i in range(start, end):
            pane = find_pane(times[i], pane, edges)
            counts[pane] += 1 if every else int(passes[i])


@compiled
def sample_rows(
    values: Array,
    times: Array,
    passes: Bools,
    block: int,
    oldest: Ints,
    newest: Ints,
    edges: Array,
    needed: Ints,
    stride: int,
    sample: Array,
    panes: Panes,
    size: int,
) -> int:
    """Write about one in `stride` rows of needed panes, and their panes, from `size` on; return the new size.

    needed[p] is the number of panes before p that are needed. It stops when there is no more room.
    """
    for b in range(len(oldest)):
        low, high = oldest[b], newest[b]
        if needed[high + 1] == needed[low]:
            continue
        start, end = b * block, min((b + 1) * block, len(values))
        for i in range(start + (stride - start % stride) % stride, end, stride):
            if size == len(sample):
                return size
            pane = low if low == high else find_pane(times[i], low, edges)
            if needed[pane + 1] > needed[pane] and (len(passes) == 0 or passes[i]):
                sample[size], panes[size] = values[i], pane
                size += 1
    return size


@compiled
def gather_rows_in_band(
    values: Array,
    times: Array,
    passes: Bools,
    block: int,
    oldest: Ints,
    newest: Ints,
    edges: Array,
    needed: Ints,
    band: Array,
    counts: Ints,
    out: Array,
    panes: Panes,
    size: int,
) -> int:
    """Write the values of needed panes between band[0] and band[1], without these, from `size` on; return the new size.

    Add the numbers of rows below, up to and between the ends of the band to `counts`. Return -1 when there is no more
    room.
    """
    passed = np.empty(block if len(passes) else 0, dtype=values.dtype)
    for b in range(len(oldest)):
        low, high = oldest[b], newest[b]
        if needed[high + 1] == needed[low]:
            continue
        i, end = b * block, min((b + 1) * block, len(values))
        pane = low
        while i < end:
            until = end
            if low != high:
                pane = find_pane(times[i], pane, edges)
                until = i + 1
                while until < end and find_pane(times[until], pane, edges) == pane:
                    until += 1
            if needed[pane + 1] > needed[pane]:
                if len(passes):
                    rows = 0
                    for k in range(i, until):
                        passed[rows] = values[k]
                        rows += int(passes[k])
                    size = gather_run(passed, 0, rows, band, counts[:, pane], out, panes, size, pane)
                else:
                    size = gather_run(values, i, until, band, counts[:, pane], out, panes, size, pane)
                if size < 0:
                    return size
            i = until
    return size


@compiled
def gather_run(
    values: Array,
    start: int,
    end: int,
    band: Array,
    counts: Ints,
    out: Array,
    panes: Panes,
    size: int,
    pane: int,
) -> int:
    """Do what gather_rows_in_band() does, for rows of one pane.

    Most groups of values have none in the band, and counting them takes vector instructions.
    """
    least, most = band[0], band[1]
    room, before = len(out) - GROUP, size
    less = low = under = high = 0
    i = start
    while i + GROUP <= end:
        if size > room:
            return -1
        inside = under - low
        for k in range(i, i + GROUP):
            less += int(values[k] < least)
            low += int(values[k] <= least)
            under += int(values[k] < most)
            high += int(values[k] <= most)
        if under - low > inside:
            for k in range(i, i + GROUP):
                out[size] = values[k]
                size += int((values[k] > least) & (values[k] < most))
        i += GROUP
    if size > room:
        return -1
    for k in range(i, end):  # fewer than GROUP
        x = values[k]
        less += int(x < least)
        low += int(x <= least)
        under += int(x < most)
        high += int(x <= most)
        out[size] = x
        size += int((x > least) & (x < most))
    for k in range(before, size):
        panes[k] = pane
    counts[BELOW_LOW] += less
    counts[UPTO_LOW] += low
    counts[BELOW_HIGH] += under
    counts[UPTO_HIGH] += high
    return size
