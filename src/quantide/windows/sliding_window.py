"""SlidingWindow: the last N values, for a fixed N, in the least space."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import SpanError
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.sketch_base import SketchBase
from quantide.summary.ranks import (
    DEFAULT,
    MAX_N,
    check_not_empty,
    check_phi,
    check_phis,
    check_size,
    check_tail,
    target_ranks,
)
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn
from quantide.summary.weighted_values import WeightedValues, check_repeats
from quantide.typing import Array
from quantide.windows.cached_answer import CAPACITY, CachedAnswer, stays_within
from quantide.windows.newest_values import NewestValues
from quantide.windows.window_buckets import WindowBuckets, bucket_sizes, bucket_tuples
from quantide.windows.window_view import WindowAnswer, WindowView

MAGIC = b"QTW"
VERSION = 2
EXACT = 1 << 17  # windows up to this size store all values
MIN_SELECTED, MAX_SELECTIONS = 1 << 11, 4  # values from which on, and phis up to which, selecting beats sorting
MIN_STEP = 4  # buckets are used if they keep at most a quarter of the values


class SlidingWindow(SketchBase):
    """Quantiles of the last `size` values, each within eps times their number.

    Small windows, and windows so precise that a summary would be no smaller, store all values, and their summaries are
    exact. Others store 2/eps buckets of fewer than 1/eps values each, and those that the tail adds, at every size.
    An answer is reused while few values have arrived since it was computed, with wider bounds that are within eps.

    Parameters: `size`, the number of values; `eps`, the largest error as a fraction of them; `nan`, "refuse" or "skip";
    `value_type`, by default that of the first values; `tail`, the largest error as a fraction of the distance from
    either end of the `covered` values, 10 * eps by default for eps up to 0.01, None for none; `exact`, False to store
    buckets also in windows of up to 131,072 values, for less memory.

    >>> import numpy as np
    >>> window = SlidingWindow(1_000_000, eps=0.01)
    >>> for block in range(300):
    ...     window.update(np.arange(10_000.0) + block * 10_000)
    >>> window.n, window.tuples < 35_000
    (1000000, True)
    >>> answer = window.answer(0.5)
    >>> answer.error <= 0.01, bool(2_490_000 <= answer.value <= 2_510_000)
    (True, True)

    Guarantee, proof and sizes: docs/guarantees/windows.md. After Lin, Lu, Xu and Yu, "Continuously maintaining quantile
    summaries of the most recent N elements over a data stream", ICDE 2004, section 3.
    """

    def __init__(
        self,
        size: int,
        eps: float,
        nan: str = "refuse",
        value_type: str | None = None,
        tail: float | None = DEFAULT,
        exact: bool = True,
    ) -> None:
        super().__init__(eps, nan, value_type)
        self._exact = bool(exact)
        self._size = min(check_size("size", size, 1), MAX_N)
        self._tail = check_tail(tail, self._eps)
        self._has_blocks = False
        self._arrivals = 0
        self._storage: NewestValues | WindowBuckets | None = None
        self._cached_view: WindowView | None = None
        self._viewed = 0  # values that had arrived when the view was computed
        self._answers: dict[float, CachedAnswer] = {}  # of the cached view
        self._reset_buffer()

    @property
    def size(self) -> int:
        """Number of values in a full window."""
        return self._size

    @property
    def tail(self) -> float | None:
        """Promised tail: an answer about the `covered` values is within this share of its distance from either end.

        None after update_summary(): blocks are merged as often as they arrive, and only summary().tail is certified.
        """
        return None if self._has_blocks else self._tail

    @property
    def covered(self) -> int:
        """Number of the newest values that the summary is about; of `n - covered` others it has only bounds."""
        self._flush()
        return self._storage.covered if self._storage else 0

    @property
    def arrived(self) -> int:
        return self._arrivals + len(self._scalars)

    @property
    def n(self) -> int:
        """Number of values in the window now."""
        return min(self.arrived, self._size)

    @property
    def tuples(self) -> int:
        """Number of values in memory."""
        return (self._storage.tuples if self._storage else 0) + len(self._scalars)

    @property
    def nbytes(self) -> int:
        cached = self._cached_view.summary.nbytes if self._cached_view else 0
        return (self._storage.nbytes if self._storage else 0) + self._scalars.itemsize * len(self._scalars) + cached

    def update(self, values: Any, nan: str | None = None, weights: Any = None) -> None:
        """Insert values: numpy, Arrow, pandas, polars, lists, single numbers.

        Inserts all of them or, if it raises, none. `nan` overrides the window's NaN policy for this call.
        `weights` are whole numbers, one for each value or one for all: a value of weight w is w arrivals, which leave
        the window one by one. At most 2**27 of them that fit the window are inserted in a call.
        """
        if weights is None and nan is None and self._buffer(values):
            return
        self._flush()
        if weights is not None:
            weighted = self._read_weighted(values, weights, nan)
            check_repeats(min(weighted.total, self._size))
            self._insert_weighted(weighted)
            self._record(weighted.skipped())
            self._reset_buffer()
            return
        column = self._read(values, nan)
        column.check_nan()
        if len(column):
            self.insert_column(column)
        self._record(column)
        self._reset_buffer()

    def update_summary(self, summary: Summary, first_time: Any = None, last_time: Any = None) -> None:
        """Insert a block that was summarised elsewhere; its certified error may be at most eps/2.

        A block leaves the window as a whole, with its first value. Times are ignored: they are accepted so that a call
        for a RecentWindow works here, too.
        """
        self._flush()
        summary = self._check_summary(summary)
        if summary.n:
            self._type = summary.type
            self._has_blocks = True
            self._get_storage().add(summary.with_skipped(0, 0))
            self._arrivals += summary.n
        self._record_summary(summary)
        self._cached_view = None
        self._answers.clear()
        self._reset_buffer()

    def summary(self) -> Summary:
        """Summarise the window; the few values that are not covered are added with lift()."""
        if not self.arrived:
            return self._empty_summary()
        return self._view().summary

    def answer(self, phi: float) -> WindowAnswer:
        """Return the phi-quantile with its proved rank bounds, if possible by an earlier answer with wider bounds."""
        check_not_empty(self.arrived)
        return self._cached_answer(check_phi(phi)).after(self.arrived, self._size)

    def quantile(self, phi: float) -> Any:
        """Return the value of answer(phi)."""
        if type(phi) is float:
            cached = self._answers.get(phi)
            if cached is not None and self._arrivals + len(self._scalars) <= cached.until:
                return cached.answer.value
        return self.answer(phi).value

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the values of many quantiles in one call; all are of one view."""
        array = check_phis(phis)
        check_not_empty(self.arrived)
        if array.size > CAPACITY:
            return self._view().summary.quantiles(array)
        answers = [self._cached_answer(phi) for phi in array.flat]
        if any(cached.arrived != self._viewed for cached in answers):
            answers = [self._cached_answer(phi) for phi in array.flat]
        values = np.array([cached.answer.value for cached in answers], dtype=self._kind().dtype)
        return values.reshape(array.shape)

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        self._flush()
        frame = self._start_frame(MAGIC, VERSION)
        frame.tail(self._tail)
        frame.number(self._has_blocks + 2 * (not self._exact))
        frame.number(self._size)
        frame.number(self._arrivals)
        if self._storage:
            self._storage.write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a window from the bytes of to_bytes(), also from those of earlier versions, without a tail."""
        frame = FrameReader(MAGIC, data, VERSION)
        tail, flags = (frame.tail(), frame.number(3)) if frame.version > 1 else (None, 1)
        size = frame.number(MAX_N)
        frame.require(size > 0)
        window = cls(size, frame.eps, frame.nan, frame.type_name, tail, exact=flags < 2)
        window._has_blocks = bool(flags & 1)
        window._nulls, window._nans, window._arrivals = frame.nulls, frame.nans, frame.number(MAX_N)
        if window._arrivals:
            storage = window._get_storage()
            storage.read(frame)
            missing, evicted = window.n - storage.covered, storage.evicted
            frame.require(0 <= missing < max(1, evicted.n) and (missing > 0 or evicted.summary is None))
            frame.require(window.tail is None or storage.has_tail())
        frame.finish()
        window._reset_buffer()
        return window

    def _get_storage(self) -> NewestValues | WindowBuckets:
        """Return the storage, created on first use: all values, or summarised buckets."""
        if self._storage is None:
            full, step = bucket_sizes(self._size, self._eps)
            few = step >= MIN_STEP and MIN_STEP * bucket_tuples(self._size, self._eps, self._tail) <= full + MIN_STEP
            is_large = self._size > EXACT or not self._exact
            storage_class = WindowBuckets if is_large and few else NewestValues
            self._storage = storage_class(self._size, self._eps, self._kind(), self._tail)
        return self._storage

    def insert_column(self, column: ValueColumn) -> None:
        self._type = self._type or column.type
        storage = self._get_storage()
        for part in ValueColumn(self._type, column.pieces).carried_parts():
            storage.append(part)
            self._arrivals += len(part)

    def _insert_weighted(self, weighted: WeightedValues) -> None:
        """Insert the arrivals that fit the window; those before them leave it at once."""
        if not len(weighted):
            return
        self._type = self._type or weighted.type
        storage, start = self._get_storage(), max(0, weighted.total - self._size)
        self._arrivals += start
        for index in weighted.index_parts(start):
            storage.append(weighted.values[index])
            self._arrivals += len(index)

    def _cached_answer(self, phi: float) -> CachedAnswer:
        """Return a cached answer that is still valid; compute it on a miss, from a new view if values have arrived."""
        cached = self._answers.get(phi)
        if cached is None or self.arrived > cached.until:
            answer = self._select_answer(phi) or self._view().answer(phi)
            assert self._storage is not None
            stored = self._storage.arrivals_before_eviction(self._carried(answer.value))
            until = self._viewed + min(stored, stays_within(answer, self._eps, self.tail))
            cached = CachedAnswer(answer, self._viewed, until)
            if len(self._answers) >= CAPACITY:
                self._answers.clear()
            self._answers[phi] = cached
        return cached

    def _select_answer(self, phi: float) -> WindowAnswer | None:
        """Return the answer of a view without sorting; None where there is a view, many phis make one, or blocks do."""
        self._flush()
        storage = self._storage
        if self._has_blocks or not isinstance(storage, NewestValues) or storage.covered < MIN_SELECTED:
            return None
        if self._viewed != self._arrivals:
            self._answers.clear()
            self._cached_view, self._viewed = None, self._arrivals
        if self._cached_view is not None or len(self._answers) >= MAX_SELECTIONS:
            return None
        n = self.n
        target = int(target_ranks(phi, n))
        value = self._kind().restore(storage.select(target))[0]
        return WindowAnswer(value, float(phi), target, target, target, n, 0.0, n, n, 0, None, None)

    def _view(self) -> WindowView:
        """Return the current view; raise SpanError if the window begins inside too large a block."""
        if self._cached_view is None or self._viewed != self.arrived:
            self._flush()
            self._answers.clear()
            storage = self._get_storage()
            missing = self.n - storage.covered
            if storage.covered:
                summary = storage.evicted.lift(storage.summary(), missing).with_skipped(self._nulls, self._nans)
                view = WindowView(summary, self.n, self.n, missing, None, None)
                if view.error <= self._eps:
                    self._cached_view, self._viewed = view, self._arrivals
                    return view
            raise SpanError(
                f"the last {self.n} values begin inside a block of {storage.evicted.n} that was summarised elsewhere; "
                f"the smallest window that can be answered within eps={self._eps} now has "
                f"{storage.covered + storage.evicted.n} values"
            )
        return self._cached_view
