"""Exact quantiles and counts of many overlapping windows, from rows in any order.

The edges of all windows cut time into panes, so that each window is a run of panes. Counts of panes add up. For
quantiles, windows that overlap are answered together: samples of some of them give a narrow band of values around the
quantile. Rows below the band are counted pane by pane, and only the values in it are sorted. If the quantile of a
window is outside of the band all the same, the rows on that side are read again: a band never changes an answer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quantide.kernels.jit import freeze
from quantide.kernels.pane_scan import (
    BELOW_HIGH,
    BELOW_LOW,
    GROUP,
    UPTO_HIGH,
    UPTO_LOW,
    count_rows,
    gather_rows_in_band,
    sample_rows,
)
from quantide.kernels.pane_selection import select_in_windows
from quantide.kernels.radix_sort import key_layout
from quantide.live.pane_rows import PaneRows
from quantide.live.recent_snapshot import TimeInterval
from quantide.typing import Array, Floats, Ints

SHORT = 1 << 13  # rows of a window up to which all rows of the windows around it are sorted
LEAST_ROWS = 1 << 16  # rows of a group of windows, about
OVERLAP = 4  # rows of a group, as a multiple of those of its first window
MAX_GATHERED = 1 << 22  # rows sorted together
SAMPLE_ROWS = 1 << 13  # rows of a window that are sampled, about
SHARE = 8  # rows of a window for each of its sample, at least
SAMPLE_WINDOWS = 5  # windows of a group that are sampled
DEVIATIONS, LEAST_MARGIN = 3.0, 8.0  # ranks of a sample on either side: standard deviations, at least so many


@dataclass(frozen=True)
class TimePanes:
    """Edges of all windows, ascending; window k has the panes from starts[k] to ends[k], neither of which falls."""

    edges: Array
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, intervals: Sequence[TimeInterval], time_type: "np.dtype[np.generic]") -> "TimePanes":
        """Return the panes of windows, the earliest first."""
        limits = np.iinfo(np.int64)
        least, most = (-np.inf, np.inf) if time_type.kind == "f" else (limits.min, limits.max)
        above = np.array([max(least, interval.above) for interval in intervals], dtype=time_type)
        upto = np.array([most if i.upto is None else max(least, i.upto) for i in intervals], dtype=time_type)
        edges = np.unique(np.concatenate([above, upto]))
        starts, ends = np.searchsorted(edges, above) + 1, np.searchsorted(edges, upto) + 1
        return cls(freeze(edges), starts, np.maximum(starts, ends))

    def count(self, parts: Sequence[PaneRows], check_time: Callable[[], None] | None = None) -> Ints:
        """Return the number of rows of each pane."""
        counts = np.zeros(len(self.edges) + 1, dtype=np.int64)
        for part in parts:
            if check_time is not None:
                check_time()
            count_rows(part.times, part.passes, part.size, *part.blocks, self.edges, counts)
        return counts

    def window_sums(self, counts: Ints) -> Ints:
        """Return the sum of each window, from those of its panes."""
        before = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1), dtype=np.int64)
        np.cumsum(counts, axis=-1, out=before[..., 1:])
        sums: Ints = before[..., self.ends] - before[..., self.starts]
        return sums

    def total(self, counts: Ints) -> int:
        """Return the sum over panes that belong to at least one window."""
        return int(counts[np.diff(self.needed) > 0].sum())

    def subset(self, chosen: Ints) -> "TimePanes":
        return TimePanes(self.edges, self.starts[chosen], self.ends[chosen])

    @cached_property
    def needed(self) -> Ints:
        """Cumulative number of panes that belong to at least one window."""
        change = np.zeros(len(self.edges) + 2, dtype=np.int64)
        np.add.at(change, self.starts, 1)
        np.add.at(change, self.ends, -1)
        return np.concatenate(([0], np.cumsum(np.cumsum(change[:-1]) > 0)))


class PaneQuantiles:
    """Quantiles of windows of panes. Values are of one carrier type."""

    def __init__(
        self,
        panes: TimePanes,
        parts: Sequence[PaneRows],
        carrier: "np.dtype[np.generic]",
        check_time: Callable[[], None] | None = None,
    ) -> None:
        self._panes, self._parts, self._carrier = panes, parts, carrier
        self._counts = panes.count(parts, check_time)
        self.sizes = panes.window_sums(self._counts)
        self._buffers = np.empty(0, carrier), np.empty(0, np.int32)

    def scanned_rows(self, phis: int) -> int:
        """Return about how many rows select() reads."""
        total = 0
        for group in self._groups():
            first, last = int(self._panes.starts[group[0]]), int(self._panes.ends[group[-1]]) - 1
            reads = phis if self._is_long(group) else 1
            total += reads * sum(part.rows_between(first, last) for part in self._parts)
        return total

    def select(self, phis: Floats, targets: Ints, check_time: Callable[[], None] | None = None) -> Array | None:
        """Return the values with targets[j, k] values of window k below them, near its quantile phis[j].

        Return None if a band has more than MAX_GATHERED values. Values of empty windows are undefined.
        """
        out = np.zeros(targets.shape, dtype=self._carrier)
        for group in self._groups():
            if check_time is not None:
                check_time()
            if not self._select_group(group, phis, targets, out):
                return None
        return out

    def _groups(self) -> Iterator[Ints]:
        """Yield the indexes of consecutive windows that are answered together; empty windows are in none."""
        some = np.flatnonzero(self.sizes)
        before = np.concatenate(([0], np.cumsum(self._counts)))
        begins, ends = before[self._panes.starts[some]], before[self._panes.ends[some]]
        i = 0
        while i < len(some):
            limit = begins[i] + max(LEAST_ROWS, OVERLAP * (ends[i] - begins[i]))
            until = max(i + 1, int(np.searchsorted(ends, limit, side="right")))
            yield some[i:until]
            i = until

    def _is_long(self, group: Ints) -> bool:
        return bool(self.sizes[group].mean() > SHORT)

    def _select_group(self, group: Ints, phis: Floats, targets: Ints, out: Array) -> bool:
        """Write the values of a group of windows; return False if a band has too many values."""
        everything = np.arange(len(phis)), self._limits()
        if not self._is_long(group) and self._select_within(group, *everything, targets, out):
            return True  # else a few of its windows have most of the rows
        for j, band in enumerate(self._find_bands(group, phis)):
            if self._select_within(group, np.array([j]), band, targets, out):
                continue
            one = slice(j, j + 1)
            halves = np.array_split(group, 2)  # bands of fewer windows are narrower
            if len(group) == 1 or not all(self._select_group(h, phis[one], targets[one], out[one]) for h in halves):
                return False
        return True

    def _limits(self) -> Array:
        """Return the least and the highest value of the carrier type."""
        if self._carrier.kind == "f":
            return np.array([-np.inf, np.inf], dtype=self._carrier)
        limits = np.iinfo(np.int64)
        return np.array([limits.min, limits.max], dtype=self._carrier)

    def _find_bands(self, group: Ints, phis: Floats) -> list[Array]:
        """Return, for each phi, an interval that probably contains the quantiles of all windows."""
        chosen = np.unique(np.linspace(0, len(group) - 1, SAMPLE_WINDOWS).astype(np.int64))
        windows = self._panes.subset(group[chosen])
        rows = int(self.sizes[group].mean())
        stride = max(SHARE, rows // SAMPLE_ROWS)
        wanted = windows.total(self._counts)
        room = wanted // stride + 4 * SAMPLE_ROWS
        sample, codes, size = np.empty(room, self._carrier), np.empty(room, np.int32), 0
        for part in self._parts:
            rows_of_part = part.values, part.times, part.passes, *part.blocks
            size = sample_rows(*rows_of_part, windows.edges, windows.needed, stride, sample, codes, size)
        sample, codes = sample[:size], codes[:size]
        lowest, highest = self._limits()
        bands = [np.array([highest, lowest]) for _ in phis]
        for start, end in zip(windows.starts, windows.ends, strict=True):
            ordered = np.sort(sample[(codes >= start) & (codes < end)])
            n = len(ordered)
            margins = np.maximum(LEAST_MARGIN, DEVIATIONS * np.sqrt(phis * (1 - phis) * n)) + 1
            for band, low, high in zip(bands, phis * n - margins, phis * n + margins, strict=True):
                band[0] = min(band[0], ordered[int(low)] if low > 0 and n else lowest)
                band[1] = max(band[1], ordered[int(high)] if high < n else highest)
        return bands

    def _select_within(self, group: Ints, phis: Ints, band: Array, targets: Ints, out: Array) -> bool:
        """Select from the values of a band, and from those beside it for windows whose targets are there.

        Return False if there are more than MAX_GATHERED.
        """
        windows = self._panes.subset(group)
        counts, size = self._gather(windows, band)
        if size < 0:
            return False
        sums = windows.window_sums(counts)
        wanted = targets[np.ix_(phis, group)]
        results = np.where(wanted < sums[UPTO_LOW], band[0], band[1])
        inside = (wanted >= sums[UPTO_LOW]) & (wanted < sums[BELOW_HIGH])
        if inside.any():
            values, codes = (buffer[:size] for buffer in self._buffers)
            bounds = np.concatenate(([0], np.cumsum(counts[BELOW_HIGH] - counts[UPTO_LOW])))
            bits, layout = values.view(f"u{values.itemsize}"), key_layout(values.dtype)
            within = np.where(inside, wanted - sums[UPTO_LOW], -1)
            done = select_in_windows(values, bits, codes, bounds, windows.starts, windows.ends, within, layout, results)
            assert done, "a window has fewer values than were counted"
        out[np.ix_(phis, group)] = results
        lowest, highest = self._limits()
        for beside, missed in (
            (np.array([lowest, band[0]]), wanted < sums[BELOW_LOW]),
            (np.array([band[1], highest]), wanted >= sums[UPTO_HIGH]),
        ):
            for j in np.flatnonzero(missed.any(axis=1)):
                if not self._select_within(group[missed[j]], phis[j : j + 1], beside, targets, out):
                    return False
        return True

    def _gather(self, windows: TimePanes, band: Array) -> tuple[Ints, int]:
        """Gather the values of a band; return the counts of panes, and the number of values, -1 if it is too large."""
        room = min(MAX_GATHERED, windows.total(self._counts)) + GROUP
        if len(self._buffers[0]) < room:
            self._buffers = np.empty(room, self._carrier), np.empty(room, np.int32)
        counts, size = np.zeros((UPTO_HIGH + 1, len(self._counts)), dtype=np.int64), 0
        for part in self._parts:
            rows = part.values, part.times, part.passes, *part.blocks
            size = gather_rows_in_band(*rows, windows.edges, windows.needed, band, counts, *self._buffers, size)
            if size < 0:
                break
        return counts, size
