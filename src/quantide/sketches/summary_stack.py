"""Summary stack: summaries made elsewhere, merged and compressed level by level within an error budget."""

import math
from typing import Self

from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.sketches.level_schedule import FAN
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary

POOL_SIZE = 64  # tiny summaries stored one by one before they are merged


class SummaryStack:
    """Stores any number of summaries in the space of a few, adding at most `budget` to their relative error.

    Each added summary has an error of at most `entry_error`, and is thinned as far as that allows. Summaries of fewer
    than `leaf` values are pooled without loss until together they have as many. From then on each promotion merges FAN
    summaries, which adds nothing, and compresses to `width` tuples, which adds 1/(2*width). There are at most
    `log_FAN(MAX_N / leaf)` promotions, so the sum stays within the budget.
    """

    def __init__(self, leaf: int, entry_error: float, budget: float) -> None:
        self.leaf, self.entry_error, self.budget = leaf, entry_error, budget
        promotions = math.ceil(math.log(MAX_N / leaf, FAN))
        self.width = math.ceil(promotions / (2 * budget))
        self.pool: list[Summary] = []
        self.levels: list[list[Summary]] = []

    def copy(self) -> Self:
        """Return a stack that can grow without changing this one."""
        twin = type(self)(self.leaf, self.entry_error, self.budget)
        twin.pool, twin.levels = list(self.pool), [list(level) for level in self.levels]
        return twin

    @property
    def summaries(self) -> list[Summary]:
        return [*self.pool, *(summary for level in self.levels for summary in level)]

    @property
    def n(self) -> int:
        return sum(summary.n for summary in self.summaries)

    @property
    def nbytes(self) -> int:
        return sum(summary.nbytes for summary in self.summaries)

    def add(self, summary: Summary) -> None:
        """Add a summary of any size."""
        if summary.n >= self.leaf:
            self.promote(self._thinned(summary), 0)
            return
        self.pool.append(summary)
        if sum(s.n for s in self.pool) >= self.leaf:
            pooled, self.pool = Summary.merge(*self.pool), []
            self.promote(self._thinned(pooled), 0)
        elif len(self.pool) >= POOL_SIZE:
            self.pool = [Summary.merge(*self.pool)]

    def add_stack(self, other: "SummaryStack") -> None:
        """Add all summaries of a stack with the same parameters."""
        for summary in other.pool:
            self.add(summary)
        for level, summaries in enumerate(other.levels):
            for summary in summaries:
                self.promote(summary, level)

    def promote(self, summary: Summary, level: int) -> None:
        """Add a summary to a level; FAN summaries become one of the next level."""
        while True:
            while level >= len(self.levels):
                self.levels.append([])
            summaries = self.levels[level]
            summaries.append(summary)
            if len(summaries) < FAN:
                return
            summary = Summary.merge(*summaries[:FAN]).compress(self.width)
            self.levels[level] = summaries[FAN:]
            level += 1

    def write(self, frame: FrameWriter) -> None:
        frame.summaries(self.pool)
        frame.number(len(self.levels))
        for summaries in self.levels:
            frame.summaries(summaries)

    def read(self, frame: FrameReader, max_error: float) -> None:
        """Read summaries as write() writes them; raise on a state that no stack can have."""
        self.pool = frame.summaries()
        self.levels = [frame.summaries() for _ in range(frame.number(64))]
        frame.require(all(s.error <= max_error for s in self.summaries))
        frame.require(len(self.pool) < POOL_SIZE and sum(s.n for s in self.pool) < self.leaf)
        frame.require(all(len(level) < FAN for level in self.levels) and bool(not self.levels or self.levels[-1]))
        frame.require(all(s.n >= self.leaf for level in self.levels for s in level))

    def _thinned(self, summary: Summary) -> Summary:
        """Compress to as few tuples as an error of `entry_error` allows: compress(b) raises G by less than n/b."""
        room = 2 * self.entry_error * summary.n - (summary.gap - 1)
        return summary.compress(math.ceil(summary.n / room)) if room > 0 else summary
