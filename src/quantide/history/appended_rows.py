"""Rows to append: in arrival order, with their times and filter flags, from arrays or from Parquet files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.key_columns import read_keys
from quantide.store.log_repair import ASIDE
from quantide.store.recent_file import FLAG
from quantide.store.recent_manifest import RecentManifest
from quantide.store.storage import Storage
from quantide.store.store_settings import VALUE, StoreSettings
from quantide.store.stored_rows import RecentRows
from quantide.summary.value_column import ValueColumn, has_nan, read_column
from quantide.summary.value_types import ValueType, type_named
from quantide.summary.weighted_values import read_weights, repeat_indexes
from quantide.typing import Array, Ints
from quantide.windows.time_clock import TimeClock, TimeHorizon

BATCH_ROWS = 1 << 20  # rows of a file that are read together
MAX_FILE_ROWS = 1 << 22  # of a recent file
PIECE_ROWS = 1 << 23  # sorted together
MAX_ROW_WEIGHT = 1 << 20  # rows that one row of a stream is stored as
MAX_WEIGHTED_ROWS = 1 << 26  # rows of one append with weights, or of one batch of a file


@dataclass(frozen=True)
class AppendedRows:
    """Rows without nulls and NaN; `times` is one number for all or one for each, None if rows are dated on arrival."""

    keys: pa.Array | None
    values: Array
    clock: TimeClock | None
    times: Array | None
    flags: Array | None

    def split(self, settings: StoreSettings, manifest: RecentManifest, now: int) -> tuple[TimeClock, list[RecentRows]]:
        """Split the rows for recent files of bounded size, on the store's clock; rows without times are dated `now`."""
        clock = self._check_clock(manifest)
        times = self.times if self.times is not None else np.array([now])
        kind, pieces = type_named(settings.value_type), []
        for start in range(0, len(self.values), MAX_FILE_ROWS):
            rows = slice(start, start + MAX_FILE_ROWS)
            values = self.values[rows]
            row_times = times[rows] if len(times) == len(self.values) else np.broadcast_to(times, (len(values),))
            keys = None if self.keys is None else self.keys.slice(start, MAX_FILE_ROWS)
            flags = None if self.flags is None else self.flags[rows]
            pieces.append(RecentRows.of(kind, clock.kind, keys, values, row_times, flags))
        return clock, pieces

    def repeat(self, counts: Ints) -> "AppendedRows":
        """Return every row as often as its count says."""
        index = np.repeat(np.arange(len(counts)), counts)
        times = self.times if self.times is None or len(self.times) != len(counts) else self.times[index]
        keys = None if self.keys is None else self.keys.take(pa.array(index))
        flags = None if self.flags is None else self.flags[index]
        return AppendedRows(keys, self.values[index], self.clock, times, flags)

    def check_ahead(self, ahead: Fraction | None) -> None:
        """Raise FutureTimeError if a time is more than `ahead` seconds ahead of the wall clock."""
        if ahead is not None and self.clock is not None and self.times is not None:
            TimeHorizon.of(ahead).check(self.clock, self.times)

    def _check_clock(self, manifest: RecentManifest) -> TimeClock:
        """Return the store's clock; raise InvalidArgumentError if these rows are not timed by it."""
        given = self.times is not None
        if manifest.clock is None:
            return self.clock or TimeClock("timestamp with zone")
        if given != manifest.given:
            before = "with times; give the times of these, too" if manifest.given else "without times; give none"
            raise InvalidArgumentError(f"earlier values came {before}")
        clock = TimeClock(manifest.clock)
        if self.clock is not None and self.clock.kind != clock.kind:
            raise InvalidArgumentError(f"times are {self.clock.kind} here and were {clock.kind} before; give one kind")
        return clock


def read_appended_rows(
    keys: pa.Array | None,
    column: ValueColumn,
    valid: NDArray[np.bool_] | None,
    times: Any,
    filters: Mapping[str, Any] | None,
    names: Sequence[str],
) -> AppendedRows:
    """Read the rows of an append; `keys` and `column` are without nulls already, `valid` marks the rows they are from.

    Check the arguments only: nothing is written.
    """
    rows = len(column) if valid is None else len(valid)
    values = column.carried()
    not_nan = ~np.isnan(values) if has_nan(values) else None
    clock, numbers = _read_times(times, rows)
    flags = _read_flags(filters, names, rows)

    def select(array: Array | None) -> Array | None:
        if array is None or len(array) != rows:
            return array
        array = array if valid is None else array[valid]
        return array if not_nan is None else array[not_nan]

    if not_nan is not None:
        values, keys = values[not_nan], None if keys is None else keys.filter(pa.array(not_nan))
    return AppendedRows(keys, values, clock, select(numbers) if _has_length(times) else numbers, select(flags))


def read_row_counts(weights: Any, rows: int) -> Ints:
    """Return the weights of an append; raise if they would write more rows than fit into memory."""
    counts = read_weights(weights, rows)
    if int(counts.sum()) > MAX_WEIGHTED_ROWS:
        raise InvalidArgumentError(
            f"a value of weight w is stored as w rows, and these would be {int(counts.sum())}; at most "
            f"{MAX_WEIGHTED_ROWS} in a call, or in {BATCH_ROWS} rows of a file, are possible. Divide them among "
            "several, or use a StreamSketch"
        )
    return counts


def repeat_tables(table: pa.Table, weights: str) -> Iterator[pa.Table]:
    """Yield the rows of a table as often as the column of weights says, PIECE_ROWS at a time."""
    for start in range(0, len(table), BATCH_ROWS):
        batch = table.slice(start, BATCH_ROWS)
        for index in repeat_indexes(read_row_counts(batch[weights], len(batch)), PIECE_ROWS):
            yield batch.take(pa.array(index))


def repeat_rows(
    keys: pa.Array | None,
    column: ValueColumn,
    recent_rows: AppendedRows | None,
    counts: Ints,
    valid: NDArray[np.bool_] | None,
) -> tuple[pa.Array | None, ValueColumn, AppendedRows | None]:
    """Return keys, values and recent rows with every row as often as its count says; `valid` marks those not null."""
    own, nulls = (counts, 0) if valid is None else (counts[valid], int(counts[~valid].sum()))
    index, values = np.repeat(np.arange(len(own)), own), column.carried()
    if recent_rows is not None:
        recent_rows = recent_rows.repeat(own[~np.isnan(values)] if has_nan(values) else own)
    repeated = ValueColumn(column.type, [values[index]], nulls)
    return None if keys is None else keys.take(pa.array(index)), repeated, recent_rows


def _read_times(times: Any, rows: int) -> tuple[TimeClock | None, Array | None]:
    if times is None:
        return None, None
    clock, numbers = TimeClock.read(times, None)
    if _has_length(times) and len(numbers) != rows:
        raise InvalidArgumentError(f"{len(numbers)} times for {rows} values; give one for each, or one for all")
    return clock, numbers


def _read_flags(filters: Mapping[str, Any] | None, names: Sequence[str], rows: int) -> Array | None:
    """Return one bit for each filter: 1 where the row satisfies it; null counts as false."""
    masks = {} if filters is None else filters
    if not isinstance(masks, Mapping):
        raise InvalidArgumentError(
            f"filters={masks!r} is not a dict of masks: one true or false for each value, by filter"
        )
    if set(masks) != set(names):
        mismatched = sorted(set(masks) ^ set(names))
        hint = f"declared are {', '.join(names)}" if names else "none are declared: History(path, filters=[...])"
        raise InvalidArgumentError(f"filters={mismatched} are missing or not declared; {hint}")
    if not names:
        return None
    flags = np.zeros(rows, dtype=FLAG)
    for bit, name in enumerate(names):
        flags |= _mask(masks[name], name, rows).astype(FLAG) << FLAG.type(bit)
    return flags


def _mask(mask_like: Any, name: str, rows: int) -> NDArray[np.bool_]:
    if isinstance(mask_like, (bool, np.bool_)):
        return np.full(rows, bool(mask_like))
    try:
        array = mask_like if isinstance(mask_like, (pa.Array, pa.ChunkedArray)) else pa.array(mask_like)
        mask = array.cast(pa.bool_()) if pa.types.is_null(array.type) else array
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the filter {name!r} is one true or false for each value: {error}") from error
    if not pa.types.is_boolean(mask.type) or len(mask) != rows:
        raise InvalidArgumentError(
            f"the filter {name!r} is one true or false for each of {rows} values, not {len(mask)} of {mask.type}"
        )
    flags: NDArray[np.bool_] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _has_length(times: Any) -> bool:
    return np.ndim(times) > 0 if isinstance(times, (np.ndarray, np.generic)) else hasattr(times, "__len__")


class ParquetPiece(NamedTuple):
    """Rows of a source: keys and values without nulls, and the same rows for recent files if the store has them."""

    keys: pa.Array | None
    column: ValueColumn
    recent: AppendedRows | None = None


def check_paths(paths: Any) -> list[str]:
    """Return the paths as text; raise InvalidArgumentError if they are not paths."""
    if not isinstance(paths, Iterable) or isinstance(paths, bytes):
        raise InvalidArgumentError(f"files are given by a path or a list of paths, not {paths!r}")
    names = list(paths)
    for name in names:
        if not isinstance(name, (str, os.PathLike)):
            raise InvalidArgumentError(f"files are given by a path or a list of paths, not {name!r}")
    return [os.fspath(name) for name in names]


def read_files(
    paths: Sequence[str],
    column: str | None,
    settings: StoreSettings,
    key_types: Callable[[], list[pa.DataType] | None],
    storage: Storage,
    weights: str | None = None,
) -> Iterator[ParquetPiece]:
    """Read keys and values of all files, PIECE_ROWS rows at a time; nulls are skipped and counted.

    `weights` names a column of whole numbers: a row of weight w is read w times.

    Files that a repair of the store at `storage` set aside may have values as they are stored, such as durations as
    integers.
    """
    kind = type_named(settings.value_type)
    batches: list[pa.Table] = []
    rows = 0
    for path in paths:
        aside = _find_aside(path, storage)
        opened = _open_source(path, storage) if aside is None else aside
        for batch in _batches(path, opened, column, settings.keys, None if aside is None else kind, weights):
            if batches and batch.schema != batches[0].schema:  # files with narrower and wider numbers
                yield _piece(pa.concat_tables(batches), settings, key_types())
                batches, rows = [], 0
            batches.append(batch)
            rows += len(batch)
            if rows >= PIECE_ROWS:
                yield _piece(pa.concat_tables(batches), settings, key_types())
                batches, rows = [], 0
    if batches:
        yield _piece(pa.concat_tables(batches), settings, key_types())


def _find_aside(path: str, storage: Storage) -> Any:
    """Return a file that a repair set aside, opened; None for other paths."""
    full_path = path if "://" in path else os.path.abspath(path)
    name = full_path.removeprefix(f"{storage.path}/")
    if name == full_path or not name.startswith(f"{ASIDE}/"):
        return None
    try:
        return storage.uncached().open(name)
    except FileNotFoundError as error:
        raise StorageError(f"{path} is not there: {error}") from error


def _open_source(path: str, storage: Storage) -> Any:
    """Return a local path, or an object, which is read with the options of the store."""
    if "://" not in path or path.startswith("file:"):
        return path
    from quantide.store.object_files import SourceAccess

    filesystem, name = SourceAccess(storage.source_options).locate(path)
    try:
        return filesystem.open_input_file(name)
    except FileNotFoundError as error:
        raise StorageError(f"{path} is not there: {error}") from error


def _restore_type(table: pa.Table, kind: ValueType) -> pa.Table:
    """Return rows of a data file with values of the type that they had before they were stored."""
    index = table.column_names.index(VALUE)
    return table.set_column(index, VALUE, table[VALUE].cast(kind.arrow))


def _batches(
    path: str,
    opened: Any,
    column: str | None,
    keys: Sequence[str],
    stored: ValueType | None,
    weights: str | None = None,
) -> Iterator[pa.Table]:
    """Read a file in batches; values of the type `stored` are converted from the form in which data files have them."""
    try:
        with pq.ParquetFile(opened) as parquet:
            names = parquet.schema_arrow.names
            added = [] if weights is None else [weights]
            value = column or _value_column(names, [*keys, *added], path)
            used = list(dict.fromkeys([*keys, value, *added]))
            for name in used:
                if name not in names:
                    raise InvalidArgumentError(f"{path} has no column {name!r}; it has {', '.join(names)}")
            for batch in parquet.iter_batches(BATCH_ROWS, columns=used, use_threads=False):
                table = pa.Table.from_batches([batch])
                for rows in [table] if weights is None else repeat_tables(table, weights):
                    renamed = rows.select([*keys, value]).rename_columns([*keys, VALUE])
                    yield renamed if stored is None else _restore_type(renamed, stored)
    except FileNotFoundError as error:
        raise StorageError(f"{path} is not there: {error}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        if isinstance(error, InvalidArgumentError | StorageError):
            raise
        raise CorruptBytesError(f"{path} cannot be read as Parquet: {error}") from error


def _value_column(names: Sequence[str], keys: Sequence[str], path: str) -> str:
    others = [name for name in names if name not in keys]
    if VALUE in others:
        return VALUE
    if len(others) == 1:
        return others[0]
    raise InvalidArgumentError(f"{path} has the columns {', '.join(others)}; say which with column=")


def _piece(table: pa.Table, settings: StoreSettings, types: list[pa.DataType] | None) -> ParquetPiece:
    column = read_column(table[VALUE], type_named(settings.value_type))
    if not settings.keys:
        return ParquetPiece(None, column)
    valid = table.filter(table[VALUE].is_valid()) if column.nulls else table
    columns = {name: valid[name] for name in settings.keys}
    key_columns: Any = columns if len(columns) > 1 else columns[settings.keys[0]]
    return ParquetPiece(read_keys(key_columns, settings.keys, len(valid), types), column)
