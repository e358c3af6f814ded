"""Search for elements of given ranks among many segments, such as all keys of a store, in one pass over blocks.

`block_search` compares the fences of all segments with each other, which is too much for thousands of segments. Here
the summaries of the runs give two elements for each rank: one that is certainly before the cut, and one that is
certainly after it. A pass counts the elements below this interval and collects those inside it, of which there are few;
then the cut is known. Blocks without a value in any interval, as the index shows, are counted and not read.

An interval with more elements than fit into memory is not collected but sampled. The samples give a smaller interval
for the next pass. Memory is bounded by COLLECTED_ROWS, by one batch of blocks, and by the index of one file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.history.block_search import Estimate, RankCut, estimate
from quantide.history.run import Run, RunFile
from quantide.store.data_file import DataFiles
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType
from quantide.typing import Ints

COLLECTED_ROWS = 1 << 22  # in memory, of all intervals of a pass
SAMPLES = 1 << 10  # of the rows of an interval that are sampled together
BATCH_BLOCKS = 16  # blocks that are read together


@dataclass(frozen=True)
class SegmentBlocks:
    """Blocks of all segments of a file: the rows of one key in one block (row group) of the file each.

    Rows starts[i]:ends[i] of the file are sorted, from `low` up to at most `high`.
    """

    group: Ints
    starts: Ints
    ends: Ints
    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, part: RunFile) -> "SegmentBlocks":
        """Derive them from the index of a file."""
        index, size = part.index, part.index.info.block_rows
        first_rows = index.first_rows
        starts = np.unique(np.concatenate((first_rows[:-1], np.arange(0, index.info.rows, size))))
        ends = np.append(starts[1:], index.info.rows)
        key = np.searchsorted(first_rows, starts, side="right") - 1
        group = starts // size
        lowest, highest = index.read_all_min_max()
        low = np.where(starts == first_rows[key], lowest[key], index.fences[group])
        following = index.fences[np.minimum(group + 1, len(index.fences) - 1)]
        high = np.where(ends == first_rows[key + 1], highest[key], following)
        return cls(group, starts, ends, low, high)


@dataclass
class RankInterval:
    """Values between which a cut lies: `low` has an element before the cut, `high` one after it; None: no limit.

    `below` elements are less than `low`, `at_low` are equal to it, `at_high` to `high`. Those between are `collected`,
    or, if they are more than `limit`, sampled.
    """

    low: Any
    high: Any
    limit: int
    kind: ValueType
    below: int = 0
    at_low: int = 0
    at_high: int = 0
    collected: list[NDArray[Any]] = field(default_factory=list)
    rows: int = 0  # of `collected`
    samples: list[Summary] = field(default_factory=list)

    def needs(self, blocks: SegmentBlocks) -> NDArray[np.bool_]:
        """Return True for the blocks whose values must be read to count or collect them."""
        unknown: NDArray[np.bool_] = blocks.low < blocks.high
        inside = np.ones(len(blocks.low), dtype=bool)
        if self.low is not None:
            unknown &= blocks.high >= self.low
            inside &= blocks.low > self.low
        if self.high is not None:
            unknown &= blocks.low <= self.high
            inside &= blocks.high < self.high
        return unknown | inside

    def count(self, blocks: SegmentBlocks, chosen: NDArray[np.bool_]) -> None:
        """Count the rows of chosen blocks, none of which must be read."""
        rows = (blocks.ends - blocks.starts)[chosen]
        if self.low is not None:
            self.below += int(rows[blocks.high[chosen] < self.low].sum())
            self.at_low += int(rows[(blocks.low == self.low)[chosen] & (blocks.high == self.low)[chosen]].sum())
        if self.high is not None:
            self.at_high += int(rows[(blocks.low == self.high)[chosen] & (blocks.high == self.high)[chosen]].sum())

    def add(self, values: NDArray[Any], before: int) -> None:
        """Count and collect sorted values; `before` more were less than all of them."""
        start, end = 0, len(values)
        if self.low is not None:
            first = int(np.searchsorted(values, self.low, side="left"))
            start = int(np.searchsorted(values, self.low, side="right"))
            self.below += before + first
            self.at_low += start - first
        if self.high is not None:
            end = int(np.searchsorted(values, self.high, side="left"))
            self.at_high += int(np.searchsorted(values, self.high, side="right")) - end
        if end > start:
            self.collected.append(values[start:end].copy())
            self.rows += end - start
        if self.rows > self.limit:
            self.sample()

    def sample(self) -> None:
        """Replace the collected values by a summary of them."""
        values = np.sort(np.concatenate(self.collected))
        self.samples.append(Summary.of_sorted(values, self.kind, max(2, len(values) // SAMPLES)))
        self.collected, self.rows = [], 0

    def merge_samples(self) -> Summary:
        """Return a summary of the elements between `low` and `high`."""
        if self.collected:
            self.sample()
        return Summary.merge(*self.samples)

    @property
    def is_point(self) -> bool:
        """True if both ends are one value: then the elements on both sides of the cut have it."""
        return self.low is not None and bool(self.low == self.high)


@dataclass(frozen=True)
class CutTarget:
    """Rank to cut at, among the elements of the runs and those of the open step, whose ranks are estimated."""

    open_step: Summary | None
    rank: int
    which: Estimate

    def estimate(self, values: NDArray[Any]) -> Ints:
        """Return the estimated number of elements of the open step up to each value."""
        return estimate(self.open_step, values, self.which)

    def find_interval(self, summary: Summary, around: RankInterval) -> RankInterval:
        """Return the interval of the cut, by a summary of the elements between `around.low` and `around.high`."""
        before = around.below + around.at_low + self.estimate(summary.carried)
        low = int(np.searchsorted(summary.rmax + before, self.rank, side="left")) - 1
        high = int(np.searchsorted(summary.rmin + before, self.rank, side="left"))
        return RankInterval(
            summary.carried[low] if low >= 0 else around.low,
            summary.carried[high] if high < len(summary) else around.high,
            around.limit,
            around.kind,
        )

    def cut(self, interval: RankInterval) -> tuple[Ints, Any, Any]:
        """Return the number of elements before the cut, and the values on both sides of it, after a pass."""
        low, high = interval.low, interval.high
        if interval.is_point:  # of the elements with this value, as many are before the cut as the rank says
            return self.rank - 1 - self.estimate(np.array([low])), low, high
        inside = np.sort(np.concatenate([np.empty(0, interval.kind.carrier), *interval.collected]))
        ends = [np.array([end] * (end is not None), dtype=interval.kind.carrier) for end in (low, high)]
        values = np.concatenate((ends[0], inside, ends[1]))
        counts = np.ones(len(values), dtype=np.int64)
        if low is not None:
            counts[0] = interval.at_low
        if high is not None:
            counts[-1] = interval.at_high
        starts = interval.below + np.cumsum(counts) - counts
        passed = np.clip(self.rank - 1 - self.estimate(values) - starts, 0, counts)  # before the cut, of each value
        following = int(np.count_nonzero(passed == counts))
        last = following if following < len(values) and passed[following] else following - 1
        is_cut_before_low = low is not None and (last < 0 or not interval.at_low)
        is_cut_after_high = high is not None and (following == len(values) or not interval.at_high)
        if is_cut_before_low or is_cut_after_high:
            raise CorruptBytesError("summaries contradict the rows of their files; verify() finds the file")
        return (
            np.array([interval.below + int(passed.sum())]),
            values[last] if last >= 0 else None,
            values[following] if following < len(values) else None,
        )


class ValueScan:
    """Cuts and counts of all rows of some runs, by passes over their files."""

    def __init__(self, kind: ValueType, files: DataFiles, runs: Sequence[Run], summary: Callable[[], Summary]) -> None:
        self.kind, self._files, self._summary = kind, files, summary
        self._parts = [part for run in runs for part in run.parts]

    def cut(self, open_step: Summary | None, ranks: Sequence[int]) -> list[RankCut]:
        """Cut all rows at ranks among their elements and those of the open step, whose ranks are estimated."""
        return self._cut([CutTarget(open_step, rank, "middle") for rank in ranks])

    def cut_both(self, open_step: Summary | None, highest: int, lowest: int) -> list[RankCut]:
        """Cut at two ranks: the first by the highest ranks of the open step, the second by the lowest."""
        return self._cut([CutTarget(open_step, highest, "highest"), CutTarget(open_step, lowest, "lowest")])

    def _cut(self, targets: Sequence["CutTarget"]) -> list[RankCut]:
        limit = COLLECTED_ROWS // max(1, len(targets))
        everything = RankInterval(None, None, limit, self.kind)
        intervals = [target.find_interval(self._summary(), everything) for target in targets]
        cuts: list[RankCut | None] = [None] * len(targets)
        blocks_read = waves = 0
        while None in cuts:
            open_intervals = [one for one, cut in zip(intervals, cuts, strict=True) if cut is None and not one.is_point]
            if open_intervals:
                blocks_read, waves = blocks_read + self._scan(open_intervals), waves + 1
            for i, (target, interval) in enumerate(zip(targets, intervals, strict=True)):
                if cuts[i] is None and interval.samples:
                    intervals[i] = target.find_interval(interval.merge_samples(), interval)
                elif cuts[i] is None:
                    cuts[i] = RankCut(*target.cut(interval), blocks_read, waves)
        return [cut for cut in cuts if cut is not None]

    def count(self, values: Sequence[Any]) -> list[int]:
        """Return the number of rows that are at most each value."""
        intervals = [RankInterval(value, value, COLLECTED_ROWS, self.kind) for value in values]
        if intervals:
            self._scan(intervals)
        return [interval.below + interval.at_low for interval in intervals]

    def _scan(self, intervals: Sequence[RankInterval]) -> int:
        """Count and collect the rows of all intervals; return the number of blocks read."""
        lows, highs = [one.low for one in intervals], [one.high for one in intervals]
        low = None if None in lows else min(lows)
        high = None if None in highs else max(highs)
        blocks_read = 0
        for part in self._parts:
            blocks = SegmentBlocks.of(part)
            needed = np.zeros(len(blocks.group), dtype=bool)
            for interval in intervals:
                needed |= interval.needs(blocks)
            groups = np.unique(blocks.group[needed])
            unread = ~np.isin(blocks.group, groups)
            for interval in intervals:
                interval.count(blocks, unread)
            for values in self._read(part, blocks, groups):
                blocks_read += 1
                is_in_hull = np.ones(len(values), dtype=bool) if low is None else values >= low
                before = len(values) - int(np.count_nonzero(is_in_hull))
                if high is not None:
                    is_in_hull &= values <= high
                in_order = np.sort(values[is_in_hull])
                for interval in intervals:
                    interval.add(in_order, before)
        return blocks_read

    def _read(self, part: RunFile, blocks: SegmentBlocks, groups: Ints) -> Iterator[NDArray[Any]]:
        """Yield the values of blocks of a file; check that they are those of its index."""
        size, name = part.index.info.block_rows, part.name.data
        for at in range(0, len(groups), BATCH_BLOCKS):
            batch = groups[at : at + BATCH_BLOCKS].tolist()
            for group, values in zip(batch, self._files.read_all([(name, group) for group in batch]), strict=True):
                own = slice(*np.searchsorted(blocks.group, [group, group + 1]).tolist())
                starts, ends = blocks.starts[own] - group * size, blocks.ends[own] - group * size
                falls = np.flatnonzero(values[1:] < values[:-1]) + 1
                if (
                    len(values) != ends[-1]
                    or (values[starts] != blocks.low[own]).any()
                    or (values[ends - 1] > blocks.high[own]).any()
                    or not np.isin(falls, starts).all()
                ):
                    path = self._files.storage.full_path(name)
                    raise CorruptBytesError(f"{path} is damaged: block {group} differs from the index file")
                yield values
