"""Intake, inside a task: a table of source columns becomes rows of the store, less bad records and why they are bad."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quantide.history.arrivals import read_arrivals
from quantide.history.keys import read_keys
from quantide.history.load import Loaded, Slot, write_chunks
from quantide.history.source import Piece
from quantide.spark.stream.casts import CLOCKS, cast_rows, in_seconds, is_text, suspect_unit, times_of_text
from quantide.spark.stream.lines import BLOCK, ROW, positions
from quantide.spark.stream.origin import LINE
from quantide.spark.stream.selection import Selection
from quantide.summary.column import read_column
from quantide.summary.types import type_named
from quantide.windows.ahead import Horizon
from quantide.windows.clock import NANOSECONDS, Clock, show_span

REASON, COLUMN = "_quantide_reason", "_quantide_column"  # why a row is bad, and the column at fault
AHEAD = "the time is ahead"  # a reason begins with this


@dataclass(frozen=True)
class Rules:
    """How the rows of a stream are read. It travels to the tasks."""

    selection: Selection
    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    value_type: str
    nan: str
    clock: str = ""  # what times are: "seconds" or "timestamp"
    timed: bool = False  # whether the newest time is wanted
    late_before: float | None = None  # times before this one, in seconds, are late
    time_unit: str | None = None  # of times that are numbers; None: seconds, unless they look like another unit
    horizon: Horizon | None = None  # how far times may be ahead of the clock


@dataclass(frozen=True)
class Rows:
    """Rows that are good, in the order of arrival; values may be null."""

    value: Any
    time: Any | None
    keys: tuple[Any, ...]
    filters: tuple[Any, ...]
    newest: float | None = None

    def __len__(self) -> int:
        return len(self.value)

    def filter(self, mask: Any) -> "Rows":
        time = None if self.time is None else self.time.filter(mask)
        keys, filters = (tuple(c.filter(mask) for c in held) for held in (self.keys, self.filters))
        return replace(self, value=self.value.filter(mask), time=time, keys=keys, filters=filters)

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        if len(parts) == 1:
            return parts[0]
        times = [part.time for part in parts]
        newest = [part.newest for part in parts if part.newest is not None]
        return cls(
            _joined([part.value for part in parts]),
            None if times[0] is None else _joined(times),
            tuple(_joined(list(columns)) for columns in zip(*(part.keys for part in parts), strict=True)),
            tuple(_joined(list(columns)) for columns in zip(*(part.filters for part in parts), strict=True)),
            max(newest, default=None),
        )


def write_rows(slot: Slot, task: int, number: int, rows: Rows, rules: Rules) -> list[Loaded]:
    """The rows as chunk `number` of a task: sorted, with its side file; and as recent rows, with times and filters."""
    valid = rows.filter(rows.value.is_valid()) if rows.value.null_count else rows
    column = read_column(rows.value, type_named(rules.value_type))
    keys = None
    if rules.keys:
        given: Any = dict(zip(rules.keys, valid.keys, strict=True)) if len(rules.keys) > 1 else valid.keys[0]
        keys = read_keys(given, rules.keys, len(valid), list(rules.key_types))
    arrivals = None
    if slot.settings.window is not None:
        names = slot.settings.filters
        filters = dict(zip(names, valid.filters, strict=True))
        arrivals = read_arrivals(keys, column, None, valid.time, filters, names)
    return write_chunks(slot.from_chunk(number), task, [Piece(keys, column, arrivals)], rules.nan)


def read_rows(table: pa.Table, rules: Rules) -> tuple[Rows, pa.Table | None]:
    """The good rows of a table, and the bad ones as they came, with the reason; None when there are none."""
    found = rules.selection.select(table)
    bad = _Bad(len(table))
    if found.problem is not None:
        bad.told(found.problem, found.fault)
    kind = type_named(rules.value_type)
    bad.column = rules.selection.value
    value = bad.cast(found.value, kind.arrow, f"the value is not {kind}")
    if kind.is_float and rules.nan == "refuse":
        bad.add(pc.is_nan(value), "the value is nan")
    keys = tuple(
        bad.key(column, wanted, name)
        for column, wanted, name in zip(found.keys, rules.key_types, rules.keys, strict=True)
    )
    bad.column = rules.selection.time or ""
    time = None if found.time is None else bad.time(found.time, rules.clock, rules.time_unit)
    if time is not None and rules.horizon is not None:
        bad.ahead(time, rules.horizon)
    newest = bad.newest(time, rules.late_before) if time is not None and rules.timed else None
    rows = Rows(value, time, keys, found.filters, newest)
    if not bad.some:
        return rows, None
    mask = bad.mask
    kept = table.filter(pa.array(mask))
    dropped = {REASON, COLUMN} | {name for name in table.column_names if name.startswith("=")} - {ROW, BLOCK}
    kept = kept.select([name for name in kept.column_names if name not in dropped])
    if LINE not in kept.column_names:
        kept = kept.append_column(LINE, positions(mask))
    for name, texts in ((REASON, bad.reasons), (COLUMN, bad.columns)):
        kept = kept.append_column(name, pa.array(texts, pa.string()))
    return rows.filter(pa.array(~mask)), kept


class _Bad:
    """Which rows are bad, and the first reason found for each; nothing is kept while all are good."""

    def __init__(self, rows: int) -> None:
        self._rows, self._texts = rows, [("", "")]
        self.column = ""  # the column that is looked at, as the configuration names it
        self._codes: NDArray[np.int16] | None = None  # places of reasons; 0 for a good row

    @property
    def some(self) -> bool:
        return self._codes is not None

    @property
    def mask(self) -> NDArray[np.bool_]:
        return np.zeros(self._rows, dtype=bool) if self._codes is None else self._codes != 0

    @property
    def reasons(self) -> list[str]:
        """Of the bad rows."""
        return [reason for reason, _ in self._found]

    @property
    def columns(self) -> list[str | None]:
        """The column at fault of each bad row, where one is."""
        return [column or None for _, column in self._found]

    @property
    def _found(self) -> list[tuple[str, str]]:
        return [] if self._codes is None else [self._texts[code] for code in self._codes[self._codes != 0].tolist()]

    def add(self, where: Any, reason: str) -> None:
        """Rows for which something holds."""
        if pc.any(where).as_py():
            self._mark(where.fill_null(False).to_numpy(zero_copy_only=False), reason)

    def told(self, reasons: Any, columns: Any | None) -> None:
        """Reasons that came with the rows, and the columns at fault."""
        given = pa.repeat(pa.scalar(""), len(reasons)) if columns is None else columns.fill_null("")
        for reason in reasons.unique().drop_null().to_pylist():
            same = pc.equal(reasons, reason).fill_null(False)
            for self.column in given.filter(same).unique().to_pylist():
                self.add(pc.and_(same, pc.equal(given, self.column)), reason)

    def cast(self, column: Any, kind: pa.DataType, reason: str) -> Any:
        """A column in that type, null where that cannot be."""
        out, failed = cast_rows(column, kind)
        if failed is not None:
            self._mark(failed, f"{reason}, but {column.type}" if not is_text(column.type) else reason)
        return out

    def key(self, column: Any, kind: pa.DataType, name: str) -> Any:
        """A key column in its type."""
        self.column = name
        return self.cast(column, kind, f"the key {name} is not {kind}")

    def time(self, column: Any, clock: str, unit: str | None = None) -> Any:
        """Times as seconds, or as timestamps in UTC; text is read as timestamps."""
        nulls = column.is_null()
        if unit is None:
            for where, reason in suspect_unit(column):
                self._mark(where, reason)
        elif clock == "seconds":
            column = in_seconds(column, unit)
            self.add(pc.and_not(column.is_null(), nulls), "the time is no number")
        if clock == "timestamp" and is_text(column.type):
            column, failed = times_of_text(column)
            self._mark(failed, "the time cannot be read")
        column = self.cast(column, CLOCKS[clock], f"the time is no {clock}")
        self.add(nulls, "the row has no time")
        if clock == "seconds":
            self.add(pc.invert(pc.is_finite(column)), "the time is not finite")
        return column

    def newest(self, column: Any, late_before: float | None) -> float | None:
        """The newest time, in seconds; older ones than allowed are late."""
        clock, numbers = self._good_times(column)
        if not len(numbers):
            return None
        each = 1 if clock.kind == "seconds" else NANOSECONDS
        if late_before is not None:
            self._mark(self._among_all(numbers < late_before * each), "the row is late")
        return float(numbers.max()) / each

    def ahead(self, column: Any, horizon: Horizon) -> None:
        """Times further ahead of the clock than is plausible."""
        clock, numbers = self._good_times(column)
        if len(numbers) and numbers.max() > horizon.latest(clock):
            reason = f"{AHEAD} of this machine's clock by more than max_ahead, {show_span(horizon.ahead)}"
            self._mark(self._among_all(numbers > horizon.latest(clock)), reason)

    def _good_times(self, column: Any) -> tuple[Clock, NDArray[Any]]:
        """The times of the rows that are not bad."""
        return Clock.read(column.filter(pa.array(~self.mask)) if self.some else column, None)

    def _among_all(self, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rows of the good ones, as rows of all."""
        found = np.zeros(self._rows, dtype=bool)
        found[~self.mask] = good
        return found

    def _mark(self, where: NDArray[np.bool_], reason: str) -> None:
        if not where.any():
            return
        if self._codes is None:
            self._codes = np.zeros(self._rows, dtype=np.int16)
        self._codes[where & (self._codes == 0)] = len(self._texts)
        self._texts.append((reason, self.column))


def _joined(columns: list[Any]) -> Any:
    chunks = [chunk for column in columns for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    kinds = {chunk.type for chunk in chunks}
    return pa.chunked_array([chunk.cast(chunks[0].type) for chunk in chunks] if len(kinds) > 1 else chunks)
