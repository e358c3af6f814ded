"""Bytes of a StreamSketch or a Monitor of version 0.1, which stored rows of evenly spaced ranks, level above level.

A row of level l stands for leaf * FAN**l values, or for at least as many in a monitor. It keeps every `spacing[l]`-th
value of a sorted order: the value at index i (from 1) has a rank of at least i * spacing and of at most
i * spacing + loose + 1 - spacing.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from quantide.sketches.byte_frame import FrameReader
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary
from quantide.typing import Array

FAN = 8
DENSITY = (2, 4, 8, 8, 8, 8, 16, 16, 32, 32, 64)  # kept values per row at level 0, 1, ..., in units; the last repeats
MIN_LEAF, MAX_LEAF = 1 << 10, 1 << 18
LEVELS, INSERTED, SUMMARIES = 11 / 16, 1 / 2, 11 / 64  # shares of eps


class Level(NamedTuple):
    size: int  # values behind a row
    spacing: int
    loose: int
    length: int  # values that a row keeps


def read_version_1(frame: FrameReader, is_uneven: bool) -> tuple[Array, list[Summary]]:
    """Return the values of the open block and summaries of all others; `is_uneven` for the sketch of a monitor."""
    leaf = MIN_LEAF
    while leaf < MAX_LEAF and leaf * frame.eps < 64:
        leaf *= 2
    leaf = leaf // 2 if is_uneven else leaf
    filled = frame.number(leaf - 1)
    values = frame.values(filled) if filled else np.empty(0)
    rows = _read_levels(frame, schedule_for(LEVELS * frame.eps, leaf), is_uneven)
    summaries = frame.summaries()
    for _ in range(frame.number(64)):
        summaries += frame.summaries()
    frame.require(all(s.error <= (INSERTED + SUMMARIES) * frame.eps for s in summaries))
    return values, rows + summaries


def _read_levels(frame: FrameReader, schedule: tuple[Level, ...], is_uneven: bool) -> list[Summary]:
    """Read the rows and the extremes; return a summary of each row, the first with the extremes."""
    parts: list[Summary] = []
    levels = schedule[: frame.number(len(schedule))]
    for level in levels:
        top = level is schedule[-1]
        for _ in range(frame.number(MAX_N if is_uneven and top else MAX_N // level.size if top else FAN - 1)):
            n = frame.number(MAX_N) if is_uneven else level.size
            values = frame.sorted_values(frame.number(MAX_N) if is_uneven else level.length)
            covered = len(values) * level.spacing
            frame.require(frame.kind is not None and 0 < covered <= n <= covered + level.loose and n >= level.size)
            parts.append(_row_summary(frame, level, values, n))
    if levels:
        low, high = frame.sorted_values(2)
        frame.require(bool(parts) and all(low <= part.carried[0] and part.carried[-1] <= high for part in parts))
        parts = [_with_extremes(frame, Summary.merge(*parts), low, high)]
    return parts


def _row_summary(frame: FrameReader, level: Level, values: Array, n: int) -> Summary:
    assert frame.kind is not None
    rmin = np.arange(1, len(values) + 1, dtype=np.int64) * level.spacing
    return Summary(values, rmin, np.minimum(rmin + level.loose + 1 - level.spacing, n), n, frame.kind)


def _with_extremes(frame: FrameReader, rows: Summary, low: float, high: float) -> Summary:
    """Return the tuples with the minimum first and the maximum last, of ranks 1 and n."""
    assert frame.kind is not None
    inner = slice(
        int(np.searchsorted(rows.rmin, 1, side="right")), int(np.searchsorted(rows.rmin, rows.n, side="left"))
    )
    ends = np.array([low, high], dtype=rows.carried.dtype)
    return Summary(
        np.concatenate((ends[:1], rows.carried[inner], ends[1:])),
        np.concatenate(([1], rows.rmin[inner], [rows.n])),
        np.concatenate(([1], np.minimum(rows.rmax[inner], rows.n), [rows.n])),
        rows.n,
        frame.kind,
    )


@lru_cache(maxsize=16)
def schedule_for(eps: float, leaf: int) -> tuple[Level, ...]:
    """Return the levels with the fewest kept values whose error is within eps at every level up to MAX_N."""
    sparse, dense = 1.0 / 64, 4.0 * leaf
    while not _is_within(_schedule(dense, leaf), eps):
        dense *= 4
    while dense / sparse > 1.001:
        middle = (sparse * dense) ** 0.5
        if _is_within(_schedule(middle, leaf), eps):
            dense = middle
        else:
            sparse = middle
    return _schedule(dense, leaf)


def _is_within(levels: tuple[Level, ...], eps: float) -> bool:
    first = levels[0].spacing
    return all((level.loose == 0 and first == 1) or level.loose + first <= 2 * eps * level.size for level in levels)


def _schedule(unit: float, leaf: int) -> tuple[Level, ...]:
    spacing = max(1, int(leaf / (DENSITY[0] * unit)))
    levels = [Level(leaf, spacing, spacing - 1, leaf // spacing)]
    while levels[-1].size * FAN <= MAX_N:
        below = levels[-1]
        density = DENSITY[min(len(levels), len(DENSITY) - 1)]
        q = max(1, int(below.size * FAN / (density * unit) / below.spacing))
        loose = FAN * below.loose + (q - 1) * below.spacing
        levels.append(Level(below.size * FAN, q * below.spacing, loose, FAN * below.length // q))
    return tuple(levels)
