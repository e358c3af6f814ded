"""SlidingWindow: the last N values, N fixed, in the least space."""

from typing import Any, Self

from quantide.errors import SpanError
from quantide.sketches.frame import FrameReader
from quantide.sketches.singles import Singles
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N, check_not_empty, check_size
from quantide.summary.summary import Summary
from quantide.windows.buckets import Buckets, bucket_of
from quantide.windows.tail import Tail
from quantide.windows.view import View, WindowAnswer

MAGIC = b"QTW"
EXACT = 1 << 17  # windows up to this size keep their values themselves
WORTH = 4  # summarising buckets is worth it when it leaves a quarter of the values


class SlidingWindow(Singles):
    """Quantiles of the last `size` values, each within eps times their number.

    Small windows, and windows so precise that a summary would be no smaller, keep their values and answer exactly.
    Others keep 2/eps buckets of fewer than 1/eps values each, however large they are.

    Parameters: `size`, how many values; `eps`, the largest error as a fraction of them; `nan`, "refuse" or "skip";
    `value_type`, when it shall not be that of the first values.

    >>> import numpy as np
    >>> window = SlidingWindow(1_000_000, eps=0.01)
    >>> for block in range(300):
    ...     window.update(np.arange(10_000.0) + block * 10_000)
    >>> window.n, window.tuples < 25_000
    (1000000, True)
    >>> answer = window.answer(0.5)
    >>> answer.error <= 0.01, bool(2_490_000 <= answer.value <= 2_510_000)
    (True, True)

    Guarantee, proof and sizes: docs/guarantees/windows.md. After Lin, Lu, Xu and Yu, "Continuously maintaining quantile
    summaries of the most recent N elements over a data stream", ICDE 2004, section 3.
    """

    def __init__(self, size: int, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        self._size = min(check_size("size", size, 1), MAX_N)
        self._arrivals = 0
        self._held: Tail | Buckets | None = None
        self._viewed: View | None = None
        self._expect_singles()

    @property
    def size(self) -> int:
        """How many values the window holds when it is full."""
        return self._size

    @property
    def arrived(self) -> int:
        return self._arrivals + len(self._singles)

    @property
    def n(self) -> int:
        """How many values the window holds now."""
        return min(self.arrived, self._size)

    @property
    def tuples(self) -> int:
        """How many values are held."""
        return (self._held.tuples if self._held else 0) + len(self._singles)

    @property
    def nbytes(self) -> int:
        viewed = self._viewed.summary.nbytes if self._viewed else 0
        return (self._held.nbytes if self._held else 0) + self._singles.itemsize * len(self._singles) + viewed

    def update(self, values: Any, nan: str | None = None) -> None:
        """Take values of any source and number: numpy, Arrow, pandas, polars, lists, single numbers.

        All of them or, when it raises, none. `nan` overrides the window's own rule for this call.
        """
        if nan is None and self._wait(values):
            self._viewed = None
            return
        self._join_singles()
        column = self._read(values, nan)
        column.check_nan()
        if len(column):
            self.take_column(column)
        self._note(column)
        self._changed()

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        """Take a block that was summarised elsewhere; its certified error may be at most eps/2.

        A block leaves the window as a whole, with its first value. Times mean nothing to a window of a fixed number of
        values: they are accepted so that blocks for a RecentWindow fit here, too.
        """
        self._join_singles()
        self._check_summary(summary)
        if summary.n:
            self._type = summary.type
            self._hold().add(summary.with_skipped(0, 0))
            self._arrivals += summary.n
        self._note_summary(summary)
        self._changed()

    def summary(self) -> Summary:
        """A summary of the window; the few values that are not covered are lifted in."""
        if not self.arrived:
            return self._nothing()
        return self._view().summary

    def answer(self, phi: float) -> WindowAnswer:
        """The phi-quantile with the ranks it is proved to have."""
        check_not_empty(self.arrived)
        return self._view().answer(phi)

    def to_bytes(self) -> bytes:
        """The whole state: from_bytes() continues exactly as if never stopped."""
        self._join_singles()
        frame = self._frame(MAGIC)
        frame.number(self._size)
        frame.number(self._arrivals)
        if self._held:
            self._held.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A window in exactly the state that to_bytes() wrote."""
        frame = FrameReader(MAGIC, data)
        size = frame.number(MAX_N)
        frame.require(size > 0)
        window = cls(size, frame.eps, frame.nan, frame.type_name)
        window._nulls, window._nans, window._arrivals = frame.nulls, frame.nans, frame.number(MAX_N)
        if window._arrivals:
            held = window._hold()
            held.read(frame)
            frame.require(0 <= window.n - held.live < max(1, held.left))
        frame.finish()
        window._expect_singles()
        return window

    def _hold(self) -> Tail | Buckets:
        """What keeps the values: themselves, or summaries of buckets of them."""
        if self._held is None:
            _, step = bucket_of(self._size, self._eps)
            kind = Tail if self._size <= EXACT or step < WORTH else Buckets
            self._held = kind(self._size, self._eps, self._kind())
        return self._held

    def take_column(self, column: Column) -> None:
        self._type = self._type or column.type
        held = self._hold()
        for part in Column(self._type, column.pieces).carried_parts():
            held.append(part)
            self._arrivals += len(part)

    def _changed(self) -> None:
        self._viewed = None
        self._expect_singles()

    def _view(self) -> View:
        """The window as it is now; refused when a block of another make is too large to be cut."""
        if self._viewed is None:
            self._join_singles()
            held = self._hold()
            missing = self.n - held.live
            if held.live:
                summary = held.summary().lift(missing).with_skipped(self._nulls, self._nans)
                view = View(summary, self.n, self.n, missing, None, None)
                if view.error <= self._eps:
                    self._viewed = view
                    return view
            raise SpanError(
                f"the last {self.n} values begin inside a block of {held.left} that was summarised elsewhere; the "
                f"smallest window that can be answered within eps={self._eps} now is one of {held.live + held.left}"
            )
        return self._viewed
