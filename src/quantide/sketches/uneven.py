"""The uneven tower: as the tower, of sorted blocks that may be of any size from a leaf on.

Nothing in the proof of the tower asks that blocks be of one size: a sorted block of n values of which every S-th is
kept is a row of type (S, S - 1) whatever n is, and the larger n, the smaller its share of error.
"""

from typing import Any, Self

from numpy.typing import NDArray

from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.sketches.schedule import FAN, Schedule
from quantide.sketches.tower import Row, Tower
from quantide.summary.ranks import MAX_N


class UnevenTower(Tower):
    """Rows with the number of values behind each."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.counts: list[list[int]] = []

    def copy(self) -> Self:
        twin = super().copy()
        twin.counts = [list(counts) for counts in self.counts]
        return twin

    def add_block(self, block: NDArray[Any]) -> None:
        """Take a sorted block of at least schedule.leaf values."""
        step = self.schedule.spacing[0]
        self.widen(block[0], block[-1])
        self._count(len(block))
        self.add_row(block[step - 1 :: step].copy(), 0)

    def add(self, other: "Tower") -> None:
        raise NotImplementedError("what a monitor watches is not merged")

    def write(self, frame: FrameWriter) -> None:
        frame.number(len(self.levels))
        for rows, counts in zip(self.levels, self.counts, strict=True):
            frame.number(len(rows))
            for row, count in zip(rows, counts, strict=True):
                frame.number(count)
                frame.number(len(row))
                frame.array(row)
        self._write_ends(frame)

    def read(self, frame: FrameReader) -> None:
        top = len(self.schedule.size) - 1
        for level in range(frame.number(top + 1)):
            rows: list[Row] = []
            counts: list[int] = []
            for _ in range(frame.number(MAX_N if level == top else FAN - 1)):
                counts.append(frame.number(MAX_N))
                rows.append(frame.sorted_values(frame.number(MAX_N)))
                kept = len(rows[-1]) * self.schedule.spacing[level]
                frame.require(kept <= counts[-1] <= kept + self.schedule.loose[level])
                frame.require(counts[-1] >= self.schedule.size[level])
            self.levels.append(rows)
            self.counts.append(counts)
        self._read_ends(frame)

    def _count(self, size: int) -> None:
        """Note the size of the next row, and what becomes of the sizes of full levels."""
        for counts in self.counts[: len(self.schedule.size) - 1]:
            counts.append(size)
            if len(counts) < FAN:
                return
            size = sum(counts)
            counts.clear()
        if len(self.counts) < len(self.schedule.size):
            self.counts.append([])
        self.counts[-1].append(size)

    def _size(self, level: int) -> int:
        return sum(self.counts[level])
