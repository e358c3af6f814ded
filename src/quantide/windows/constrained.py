"""ConstrainedWindow: quantiles of any & and | of the last n, the last span of time, and filters."""

from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError, SpanError, TypeMismatchError
from quantide.sketches.frame import FrameReader
from quantide.sketches.intake import Intake
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N, check_not_empty
from quantide.summary.summary import Summary
from quantide.windows.ahead import read_ahead
from quantide.windows.arrivals import Arrivals
from quantide.windows.classes import Said, as_table, classes, codes_of
from quantide.windows.constraint import UNKNOWN, Clause, Constraint
from quantide.windows.filters import shown
from quantide.windows.layout import layout_for
from quantide.windows.timeline import Timed, Timeline, kept_rows
from quantide.windows.view import Start, View, Views, WindowAnswer, both, cut_at, either

MAGIC = b"QTX"
NUMBER, TIME = 0, 1  # the marks of arrivals


class ConstrainedWindow(Timed, Intake):
    """Quantiles of every arrival for which an expression of `last`, `within` and `where` holds now, each within eps.

    Arrivals come as Arrow tables or record batches; `value` and `time` name their columns. `last(n)` counts all
    arrivals, also those that filters leave out. Arrivals are divided into classes by what the filters say of them, each
    class keeps its own recent past, and a window is one cut through each class. So any other expression over the same
    filters that reaches no further back can be asked for as well: `quantile(phi, window=...)`.

    Parameters: `expression`; `eps`, the largest error as a fraction of the window's values; `value`, `time`, names of
    columns (times are needed when the expression has `within`); `nan`, "refuse" or "skip"; `late`, "refuse" or "clamp";
    `value_type`, when it shall not be that of the first values; `max_ahead`, how far a time may be ahead of the wall
    clock ("1 hour"), beyond which update() raises FutureTimeError; None, for any time. The newest timestamp defines
    "now": one value dated a year ahead empties every time window until then.

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
        expression: Constraint,
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
        self._lanes: dict[Said, Arrivals] = {}
        self._left_out: set[Said] = set()  # classes that came and are in no clause
        self._views = Views()

    @property
    def expression(self) -> Constraint:
        """The window that is meant when no other is named."""
        return self._expression

    @property
    def arrived(self) -> int:
        """How many values have ever come, those included that filters leave out."""
        return self._arrivals

    @property
    def n(self) -> int:
        """How many values the window holds now, at most."""
        moment = self._times.newest
        starts = [(lane, self._start(lane, self._ages(said), moment)) for said, lane in self._lanes.items()]
        return cut_at(starts).n_hi

    @property
    def tuples(self) -> int:
        """How many values are held."""
        return sum(lane.values for lane in self._lanes.values())

    @property
    def nbytes(self) -> int:
        return sum(lane.nbytes for lane in self._lanes.values()) + self._views.nbytes

    def update(self, table: Any, nan: str | None = None, late: str | None = None) -> None:
        """Take the rows of an Arrow table or record batch, or of anything that can be read as one.

        All of them or, when it raises, none. `nan` and `late` override the window's own rules for this call.
        """
        table = as_table(table)
        plain = self._column(table, self._value)
        column = self._read(plain, nan)
        column.check_nan()
        timed = self._times.needed or self._time in table.column_names
        times = self._column(table, self._time) if timed else None
        arrived = self._times.read(times, plain, column, late, self._arrivals)
        codes = codes_of(table, self._expression.filters)
        if len(column) < len(codes):
            codes = codes[kept_rows(plain, column)]
        if len(column):
            self._times.accept(arrived)
            self._type = self._type or column.type
            self._take(codes, column, arrived.times)
        self._note(column)
        self._views.clear()

    def answer(self, phi: float, window: Constraint | None = None, now: Any = None) -> WindowAnswer:
        """The phi-quantile of a window, with the ranks it is proved to have and what it covers."""
        return self._view(window, now).answer(phi)

    def quantile(self, phi: float, window: Constraint | None = None, now: Any = None) -> Any:
        """The value of the phi-quantile of a window."""
        return self._view(window, now).summary.quantile(phi)

    def quantiles(self, phis: ArrayLike, window: Constraint | None = None, now: Any = None) -> NDArray[Any]:
        """The values for many phis in one call."""
        return self._view(window, now).summary.quantiles(phis)

    def rank(self, value: Any, window: Constraint | None = None, now: Any = None) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values of a window are <= value."""
        return self.summary(window, now).rank(value)

    def cdf(self, values: Any, window: Constraint | None = None, now: Any = None) -> Any:
        """The fraction of a window's values that are <= each value."""
        return self._view(window, now).summary.cdf(values)

    def summary(self, window: Constraint | None = None, now: Any = None) -> Summary:
        """A summary of all that a window may hold; those only known by number are lifted in."""
        if not self._arrivals:
            return self._nothing()
        return self._view(window, now).summary.with_skipped(self._nulls, self._nans)

    @property
    def error(self) -> float:
        """The error certified now; never above eps."""
        return self._view(None, None).error if self.n else 0.0

    def to_bytes(self) -> bytes:
        """The whole state: from_bytes() continues exactly as if never stopped."""
        frame = self._frame(MAGIC)
        self._expression.write(frame)
        frame.text(self._value)
        frame.text(self._time)
        self._times.write(frame)
        frame.number(self._arrivals)
        for known in (sorted(self._left_out), sorted(self._lanes)):
            frame.number(len(known))
            for said in known:
                frame.blob(bytes(said))
        for said in sorted(self._lanes):
            self._lanes[said].write(frame)
        return frame.finish()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A window in exactly the state that to_bytes() wrote."""
        frame = FrameReader(MAGIC, data)
        expression = Constraint.read(frame)
        names = frame.text(), frame.text()
        window = cls(expression, frame.eps, *names, frame.nan, value_type=frame.type_name)
        window._nulls, window._nans = frame.nulls, frame.nans
        window._times = Timeline.from_frame(frame, expression.needs_times)
        window._arrivals = frame.number(MAX_N)
        left_out, held = ([tuple(frame.blob()) for _ in range(frame.number(MAX_N))] for _ in range(2))
        for said in left_out + held:
            frame.require(len(said) == len(expression.filters) and max(said, default=0) <= UNKNOWN)
        window._left_out = set(left_out)
        for said in held:
            window._lane(said).read(frame)
        frame.require(len(window._lanes) == len(held) and sum(x.n for x in window._lanes.values()) <= window._arrivals)
        frame.finish()
        return window

    def _column(self, table: pa.Table, name: str) -> Any:
        if table.column_names.count(name) != 1:
            found = "several columns" if name in table.column_names else "no column"
            raise InvalidArgumentError(f"there is {found} {name!r} among {table.column_names}; give one")
        return table[name]

    def _take(self, codes: NDArray[np.int64], column: Column, times: NDArray[Any] | None) -> None:
        values = Column(self._type, column.pieces).carried()
        numbers = np.arange(self._arrivals, self._arrivals + len(values))
        self._arrivals += len(values)
        for said, rows in classes(codes, len(self._expression.filters)):
            if self._ages(said):
                marks = [numbers] if times is None else [numbers, times]
                self._lane(said).append(values[rows], *(mark[rows] for mark in marks))
            else:
                self._left_out.add(said)

    def _lane(self, said: Said) -> Arrivals:
        """The arrivals of one class, which forgets what is outside the expression for good."""
        if said not in self._lanes:
            ages = self._ages(said)

            def needed() -> int:
                lane = self._lanes[said]
                newest = lane.newest(TIME) if self._times.clock else None
                return self._start(lane, ages, newest, lane.newest(NUMBER) + 1)[0]

            marks = [np.dtype(np.int64), *self._times.dtypes]
            items = [clause.items for clause in ages if clause.items is not None]
            layout = layout_for(self._eps, max(items) if items and len(items) == len(ages) else None)
            self._lanes[said] = Arrivals(layout, self._kind(), marks, needed)
        return self._lanes[said]

    def _ages(self, said: Said, window: Constraint | None = None) -> list[Clause]:
        return (self._expression if window is None else window).ages(
            dict(zip(self._expression.filters, said, strict=True))
        )

    def _start(self, lane: Arrivals, ages: list[Clause], moment: Any, arrived: int | None = None) -> Start:
        """Where a window starts in a class: the longest of its clauses, each as long as the shorter of its ages."""
        found: Start = (lane.n, lane.n)
        for clause in ages:
            start: Start = (0, 0)
            if clause.items is not None:
                start = both(start, lane.after(NUMBER, (arrived or self._arrivals) - clause.items - 1))
            if clause.span is not None:
                start = both(start, lane.after(TIME, self._times.back(moment, clause.span)))
            found = either(found, start)
        return found

    def _view(self, window: Constraint | None, now: Any) -> View:
        return self._views.get((window, now), self._look)

    def _look(self, window: Constraint | None, now: Any) -> View:
        """Find where the window starts in each class, cut there, and summarise what is left."""
        window = self._expression if window is None else self._check_window(window)
        if now is not None and not window.needs_times:
            raise InvalidArgumentError("now= is of use only when the window has within()")
        check_not_empty(self._arrivals)
        moment = self._times.now(now) if window.needs_times else None
        starts = []
        for said, lane in self._lanes.items():
            start = self._start(lane, self._ages(said, window), moment)
            if start[0] < lane.levels.start and start[0] < lane.n:
                raise SpanError(
                    f"the window {window} reaches back further than {self._expression}, which is all that is kept"
                )
            starts.append((lane, start))
        cut = cut_at(starts)
        summary = cut.summary(self._kind())
        return View(summary, cut.n_lo, cut.n_hi, cut.missing, self._since(cut.lanes), self.newest)

    def _check_window(self, window: Constraint) -> Constraint:
        """An expression over declared filters, about classes that are kept."""
        _check_expression(window)
        used = {text for clause in window.clauses for text, _ in clause.says}
        if unknown := sorted(used - set(self._expression.filters)):
            raise InvalidArgumentError(
                f"the filter {shown(unknown[0])} was not declared; this window knows "
                f"{[shown(name) for name in self._expression.filters]}"
            )
        if any(self._ages(said, window) for said in self._left_out):
            raise SpanError(
                f"the window {window} asks for arrivals that {self._expression} leaves out, and that are not kept; "
                "declare an expression that includes them"
            )
        return window

    def _since(self, lanes: Any) -> Any:
        """The time of the first element that is covered."""
        if self._times.clock is None:
            return None
        firsts = [lane.first_mark(TIME, cut) for lane, cut in lanes if cut < lane.n]
        return self._times.show(min(firsts, default=None))


def _check_expression(expression: Any) -> Constraint:
    if not isinstance(expression, Constraint):
        raise TypeMismatchError(
            f"a window is an expression of last(n), within(span) and where(filter), not {expression!r}"
        )
    return expression
