"""The ladder: summaries made elsewhere, merged and compressed rung by rung within a budget of their own."""

import math
from typing import Self

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.sketches.schedule import FAN
from quantide.summary.ranks import MAX_N
from quantide.summary.summary import Summary

POOL = 64  # tiny summaries held one by one before they are merged


class Ladder:
    """Keeps any number of summaries in the space of a few, adding at most `budget` to their relative error.

    Summaries come in with an error of at most `entry`, and are thinned as far as that allows.
    Summaries of fewer than `leaf` values are pooled without loss until they have as many. From then on each
    climb of a rung merges FAN summaries, which adds nothing, and compresses to `width` tuples, which adds
    1/(2*width). A rung is climbed at most `log_FAN(MAX_N / leaf)` times, so the sum stays within the budget.
    """

    def __init__(self, leaf: int, entry: float, budget: float) -> None:
        self.leaf, self.entry, self.budget = leaf, entry, budget
        climbs = math.ceil(math.log(MAX_N / leaf, FAN))
        self.width = math.ceil(climbs / (2 * budget))
        self.pool: list[Summary] = []
        self.rungs: list[list[Summary]] = []

    def copy(self) -> Self:
        """A ladder that can grow without changing this one."""
        twin = type(self)(self.leaf, self.entry, self.budget)
        twin.pool, twin.rungs = list(self.pool), [list(rung) for rung in self.rungs]
        return twin

    @property
    def held(self) -> list[Summary]:
        return [*self.pool, *(summary for rung in self.rungs for summary in rung)]

    @property
    def n(self) -> int:
        return sum(summary.n for summary in self.held)

    @property
    def nbytes(self) -> int:
        return sum(summary.nbytes for summary in self.held)

    def add(self, summary: Summary) -> None:
        """Take a summary of any size."""
        if summary.n >= self.leaf:
            self.climb(self._thinned(summary), 0)
            return
        self.pool.append(summary)
        if sum(s.n for s in self.pool) >= self.leaf:
            pooled, self.pool = Summary.merge(*self.pool), []
            self.climb(self._thinned(pooled), 0)
        elif len(self.pool) >= POOL:
            self.pool = [Summary.merge(*self.pool)]

    def add_all(self, other: "Ladder") -> None:
        """Take all summaries of another ladder of the same shape."""
        for summary in other.pool:
            self.add(summary)
        for rung, held in enumerate(other.rungs):
            for summary in held:
                self.climb(summary, rung)

    def write(self, frame: FrameWriter) -> None:
        frame.summaries(self.pool)
        frame.number(len(self.rungs))
        for held in self.rungs:
            frame.summaries(held)

    def read(self, frame: FrameReader, most_error: float) -> None:
        """Take the summaries that write() left, refusing what no ladder could have left."""
        self.pool = frame.summaries()
        self.rungs = [frame.summaries() for _ in range(frame.number(64))]
        frame.require(all(s.error <= most_error for s in self.held))
        frame.require(len(self.pool) < POOL and sum(s.n for s in self.pool) < self.leaf)
        frame.require(all(len(held) < FAN for held in self.rungs) and bool(not self.rungs or self.rungs[-1]))
        frame.require(all(s.n >= self.leaf for held in self.rungs for s in held))

    def climb(self, summary: Summary, rung: int) -> None:
        """Put a summary on a rung, and let full rungs climb."""
        while True:
            while rung >= len(self.rungs):
                self.rungs.append([])
            held = self.rungs[rung]
            held.append(summary)
            if len(held) < FAN:
                return
            summary = Summary.merge(*held[:FAN]).compress(self.width)
            self.rungs[rung] = held[FAN:]
            rung += 1

    def _thinned(self, summary: Summary) -> Summary:
        """With as few tuples as an error of `entry` allows: compress(b) raises G by less than n/b."""
        room = 2 * self.entry * summary.n - (summary.gap - 1)
        return summary.compress(math.ceil(summary.n / room)) if room > 0 else summary
