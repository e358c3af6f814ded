"""ConstrainedWindow: quantiles of any combination of last(n), within(span) and where(filter)."""

from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, SpanError, TypeMismatchError
from quantide.sketches.byte_frame import FrameReader
from quantide.sketches.sketch_base import SketchBase
from quantide.summary.ranks import MAX_N, check_not_empty
from quantide.summary.summary import Summary
from quantide.summary.value_column import ValueColumn
from quantide.summary.weighted_values import check_repeats
from quantide.typing import Array, Floats, Ints
from quantide.windows.block_layout import layout_for
from quantide.windows.filter_expressions import (
    UNKNOWN,
    FilterResults,
    as_table,
    filter_classes,
    filter_codes,
    filter_text,
)
from quantide.windows.recent_values import RecentValues
from quantide.windows.time_clock import read_ahead
from quantide.windows.timeline import TimedWindow, Timeline, valid_rows
from quantide.windows.window_expression import WindowClause, WindowExpression
from quantide.windows.window_view import (
    Start,
    WindowAnswer,
    WindowView,
    WindowViewCache,
    cut_at,
    earlier_start,
    later_start,
)

MAGIC = b"QTX"
NUMBER, TIME = 0, 1  # marks of arrivals


class ConstrainedWindow(TimedWindow, SketchBase):
    """Quantiles of all arrivals for which an expression of `last`, `within` and `where` is true now, each within eps.

    Arrivals are rows of Arrow tables or record batches; `value` and `time` name their columns. `last(n)` counts all
    arrivals, also those that filters exclude. Arrivals are divided into classes by their filter results, each class
    has its own recent values, and a window is one cut through each class. So any other expression over the same
    filters that reaches no further back can be queried as well: `quantile(phi, window=...)`.

    Parameters: `expression`; `eps`, the largest error as a fraction of the window's values; `value`, `time`, names of
    columns (times are required if the expression has `within`); `nan`, "refuse" or "skip"; `late`, "refuse" or "clamp";
    `value_type`, by default that of the first values; `max_ahead`, how far a time may be ahead of the wall clock
    ("1 hour") before update() raises FutureTimeError; None for no limit. The newest timestamp defines "now": one value
    dated a year ahead empties every time window until then.

    >>> import pyarrow.compute as pc
    >>> from quantide import last, where, within
    >>> slow = within("60 s") & where(pc.field("path") == "/pay")
    >>> window = ConstrainedWindow(slow | last(1000), eps=0.01, value="ms")
    >>> table = {"time": np.arange(10_000) / 10, "path": ["/pay", "/cart"] * 5000, "ms": np.arange(10_000.0)}
    >>> window.update(pa.table(table))
    >>> window.n, float(window.quantile(0.5, window=slow)), float(window.quantile(1, window=last(10)))
    (1000, 9698.0, 9999.0)

    Guarantee and proof: docs/guarantees/windows.md. After Lin and others on continuous quantiles under constraints,
    whose section 4 is repaired there.
    """

    def __init__(
        self,
        expression: WindowExpression,
        eps: float,
        value: str = "value",
        time: str = "time",
        nan: str = "refuse",
        late: str = "refuse",
        value_type: str | None = None,
        max_ahead: Any = None,
    ) -> None:
        super().__init__(eps, nan, value_type)
        self._expression = _check_expression(expression)
        self._value, self._time = value, time
        ahead = None if max_ahead is None else read_ahead(max_ahead)
        self._times = Timeline(late, self._expression.needs_times, ahead)
        self._arrivals = 0
        self._classes: dict[FilterResults, RecentValues] = {}
        self._excluded: set[FilterResults] = set()  # classes that occurred and match no clause
        self._views = WindowViewCache()

    @property
    def expression(self) -> WindowExpression:
        """Default window of queries."""
        return self._expression

    @property
    def arrived(self) -> int:
        """Number of values ever inserted, including those that filters exclude."""
        return self._arrivals

    @property
    def n(self) -> int:
        """Largest number of values that the window may contain now."""
        moment = self._times.newest
        starts = [(values, self._start(values, self._clauses(key), moment)) for key, values in self._classes.items()]
        return cut_at(starts).n_hi

    @property
    def tuples(self) -> int:
        """Number of values in memory."""
        return sum(values.stored_values for values in self._classes.values())

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self._classes.values()) + self._views.nbytes

    def update(self, table: Any, nan: str | None = None, late: str | None = None, weights: Any = None) -> None:
        """Insert the rows of an Arrow table or record batch, or of anything convertible to one.

        Inserts all of them or, if it raises, none. `nan` and `late` override the window's policies for this call.
        `weights`: the name of a column of whole numbers, or such numbers, one for each row or one for all. A row of
        weight w is w arrivals; their sum may be at most 2**27 in a call.
        """
        table = as_table(table)
        if weights is not None:
            self._update_weighted_rows(table, nan, late, weights)
            return
        plain = self._column(table, self._value)
        column = self._read(plain, nan)
        column.check_nan()
        timed = self._times.needed or self._time in table.column_names
        times = self._column(table, self._time) if timed else None
        checked = self._times.read(times, plain, column, late, self._arrivals)
        codes = filter_codes(table, self._expression.filters)
        if len(column) < len(codes):
            codes = codes[valid_rows(plain, column)]
        if len(column):
            self._times.accept(checked)
            self._type = self._type or column.type
            self._insert(codes, ValueColumn(self._type, column.pieces).carried(), checked.times)
        self._record(column)
        self._views.clear()

    def _update_weighted_rows(self, table: pa.Table, nan: str | None, late: str | None, weights: Any) -> None:
        plain = self._column(table, self._value)
        numbers = self._column(table, weights) if isinstance(weights, str) else weights
        weighted = self._read_weighted(plain, numbers, nan)
        check_repeats(weighted.total)
        timed = self._times.needed or self._time in table.column_names
        times = self._column(table, self._time) if timed else None
        checked = self._times.read(times, plain, weighted.skipped(), late, self._arrivals, weighted)
        codes = filter_codes(table, self._expression.filters)[weighted.valid]
        if len(weighted):
            self._times.accept(checked)
            self._type = self._type or weighted.type
            for index in weighted.index_parts():
                moments = None if checked.times is None else checked.times[index]
                self._insert(codes[index], weighted.values[index], moments)
        self._record(weighted.skipped())
        self._views.clear()

    def answer(self, phi: float, window: WindowExpression | None = None, now: Any = None) -> WindowAnswer:
        """Return the phi-quantile of a window with its proved rank bounds and what it covers."""
        return self._view(window, now).answer(phi)

    def quantile(self, phi: float, window: WindowExpression | None = None, now: Any = None) -> Any:
        """Return the value of the phi-quantile of a window."""
        return self._view(window, now).summary.quantile(phi)

    def quantiles(self, phis: ArrayLike, window: WindowExpression | None = None, now: Any = None) -> Array:
        """Return the values of many quantiles of a window in one call."""
        return self._view(window, now).summary.quantiles(phis)

    def rank(
        self, value: Any, window: WindowExpression | None = None, now: Any = None, *, inclusive: bool = True
    ) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values of a window that are <= value, or < value."""
        return self.summary(window, now).rank(value, inclusive=inclusive)

    def cdf(
        self, values: Any, window: WindowExpression | None = None, now: Any = None, *, inclusive: bool = True
    ) -> Any:
        """Return the fraction of a window's values that are <= each value; < with inclusive=False."""
        return self._view(window, now).summary.cdf(values, inclusive=inclusive)

    def pmf(
        self, splits: Any, window: WindowExpression | None = None, now: Any = None, *, inclusive: bool = True
    ) -> Floats:
        """Return the fraction of a window's values in each interval between splits; see Summary.pmf."""
        return self._view(window, now).summary.pmf(splits, inclusive=inclusive)

    def summary(self, window: WindowExpression | None = None, now: Any = None) -> Summary:
        """Summarise all values that a window may contain; those not covered are added with lift()."""
        if not self._arrivals:
            return self._empty_summary()
        return self._view(window, now).summary.with_skipped(self._nulls, self._nans)

    @property
    def error(self) -> float:
        """Certified error now; never above eps."""
        return self._view(None, None).error if self.n else 0.0

    def to_bytes(self) -> bytes:
        """Serialize the whole state: from_bytes() continues exactly from here."""
        frame = self._start_frame(MAGIC)
        self._expression.write(frame)
        frame.text(self._value)
        frame.text(self._time)
        self._times.write(frame)
        frame.number(self._arrivals)
        for keys in (sorted(self._excluded), sorted(self._classes)):
            frame.number(len(keys))
            for key in keys:
                frame.blob(bytes(key))
        for key in sorted(self._classes):
            self._classes[key].write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a window from the bytes of to_bytes()."""
        frame = FrameReader(MAGIC, data)
        expression = WindowExpression.read(frame)
        names = frame.text(), frame.text()
        window = cls(expression, frame.eps, *names, frame.nan, value_type=frame.type_name)
        window._nulls, window._nans = frame.nulls, frame.nans
        window._times = Timeline.from_frame(frame, expression.needs_times)
        window._arrivals = frame.number(MAX_N)
        excluded, keys = ([tuple(frame.blob()) for _ in range(frame.number(MAX_N))] for _ in range(2))
        for key in excluded + keys:
            frame.require(len(key) == len(expression.filters) and max(key, default=0) <= UNKNOWN)
        window._excluded = set(excluded)
        for key in keys:
            window._class_values(key).read(frame)
        frame.require(len(window._classes) == len(keys))
        frame.require(sum(x.n for x in window._classes.values()) <= window._arrivals)
        frame.require(not keys or not expression.needs_times or window._times.clock is not None)
        frame.require(all(window._keeps_expression(key) for key in keys))
        frame.finish()
        return window

    def _column(self, table: pa.Table, name: str) -> Any:
        if table.column_names.count(name) != 1:
            number = "several columns" if name in table.column_names else "no column"
            raise InvalidArgumentError(f"the table has {number} {name!r} among {table.column_names}; give one")
        return table[name]

    def _insert(self, codes: Ints, values: Array, times: Array | None) -> None:
        numbers = np.arange(self._arrivals, self._arrivals + len(values))
        self._arrivals += len(values)
        for key, rows in filter_classes(codes, len(self._expression.filters)):
            if self._clauses(key):
                marks = [numbers] if times is None else [numbers, times]
                self._class_values(key).append(values[rows], *(mark[rows] for mark in marks))
            else:
                self._excluded.add(key)

    def _class_values(self, key: FilterResults) -> RecentValues:
        """Return the values of one class, created on first use; it forgets values that left the expression for good."""
        if key not in self._classes:
            clauses = self._clauses(key)

            def first_needed() -> int:
                values = self._classes[key]
                newest = values.newest(TIME) if self._times.clock else None
                return self._start(values, clauses, newest, values.newest(NUMBER) + 1)[0]

            marks = [np.dtype(np.int64), *self._times.dtypes]
            items = [clause.items for clause in clauses if clause.items is not None]
            layout = layout_for(self._eps, max(items) if items and len(items) == len(clauses) else None)
            self._classes[key] = RecentValues(layout, self._kind(), marks, first_needed)
        return self._classes[key]

    def _clauses(self, key: FilterResults, window: WindowExpression | None = None) -> list[WindowClause]:
        """Return the clauses of a window that a class may meet."""
        return (self._expression if window is None else window).matching_clauses(
            dict(zip(self._expression.filters, key, strict=True))
        )

    def _start(
        self, values: RecentValues, clauses: list[WindowClause], moment: Any, arrived: int | None = None
    ) -> Start:
        """Return the start of a window in a class: that of the longest clause, each as long as its shorter limit."""
        start: Start = (values.n, values.n)
        for clause in clauses:
            clause_start: Start = (0, 0)
            if clause.items is not None:
                threshold = (arrived or self._arrivals) - clause.items - 1
                clause_start = later_start(clause_start, values.start_after(NUMBER, threshold))
            if clause.span is not None:
                threshold = self._times.back(moment, clause.span)
                clause_start = later_start(clause_start, values.start_after(TIME, threshold))
            start = earlier_start(start, clause_start)
        return start

    def _keeps_expression(self, key: FilterResults) -> bool:
        """Return True unless values of a class that the expression includes are forgotten; only forged bytes say so."""
        values = self._classes[key]
        start, _ = self._start(values, self._clauses(key), self._times.newest)
        return start >= min(values.levels.start, values.n)

    def _view(self, window: WindowExpression | None, now: Any) -> WindowView:
        return self._views.get((window, now), self._compute_view)

    def _compute_view(self, window: WindowExpression | None, now: Any) -> WindowView:
        """Find the start of the window in each class, cut there, and summarise the rest."""
        window = self._expression if window is None else self._check_window(window)
        if now is not None and not window.needs_times:
            raise InvalidArgumentError("now= has a meaning only if the window has within()")
        check_not_empty(self._arrivals)
        moment = self._times.now(now) if window.needs_times else None
        starts = []
        for key, values in self._classes.items():
            start = self._start(values, self._clauses(key, window), moment)
            if start[0] < min(values.levels.start, values.n):
                raise SpanError(
                    f"the window {window} reaches back further than {self._expression}, which is all that is kept"
                )
            starts.append((values, start))
        cut = cut_at(starts)
        summary = cut.summary(self._kind())
        return WindowView(summary, cut.n_lo, cut.n_hi, cut.missing, self._since(cut.cuts), self.newest)

    def _check_window(self, window: WindowExpression) -> WindowExpression:
        """Raise unless the expression uses declared filters and selects only classes that are kept."""
        _check_expression(window)
        used = {name for clause in window.clauses for name, _ in clause.conditions}
        if unknown := sorted(used - set(self._expression.filters)):
            raise InvalidArgumentError(
                f"the filter {filter_text(unknown[0])} was not declared; this window has "
                f"{[filter_text(name) for name in self._expression.filters]}"
            )
        if any(self._clauses(key, window) for key in self._excluded):
            raise SpanError(
                f"the window {window} includes arrivals that {self._expression} leaves out, and that are not kept; "
                "declare an expression that includes them"
            )
        return window

    def _since(self, cuts: Any) -> Any:
        """Return the time of the first value that is covered."""
        if self._times.clock is None:
            return None
        firsts = [values.first_mark(TIME, cut) for values, cut in cuts if cut < values.n]
        return self._times.show(min(firsts, default=None))


def _check_expression(expression: Any) -> WindowExpression:
    if not isinstance(expression, WindowExpression):
        raise TypeMismatchError(
            f"a window is an expression of last(n), within(span) and where(filter), not {expression!r}"
        )
    return expression
