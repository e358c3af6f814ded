"""Data files: sorted rows as Parquet that anyone can read, in blocks (row groups) that are read one by one.

A footer can lie. What it says of columns, compression and rows is checked before a block is read, and values after, so
that a block costs the memory of MOST_BLOCK rows at most, and kernels get values of the type they were told.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quantide.store.disk import Sink, write_file
from quantide.store.place import Place
from quantide.store.rows import SortedRows
from quantide.store.settings import VALUE
from quantide.summary.column import read_column
from quantide.summary.format import are_of
from quantide.summary.types import ValueType

BLOCK = 1 << 16  # rows of a block
WRITE_ROWS = 1 << 20  # rows that are handed to the writer at once
OPEN_FILES = 64
MOST_BLOCK = 1 << 16  # rows of a block that is read
CODEC = "lz4"  # it expands a byte to 255 at most
UNREADABLE = (OSError, ValueError, TypeError, LookupError, OverflowError, pa.ArrowException)  # of damaged Parquet
AS_THEY_ARE = (
    "float64",
    "float32",
    "int64",
    "int32",
    "int16",
    "int8",
    "date",
    "timestamp[us]",
    "timestamp[us, tz=UTC]",
)


def stored_type(kind: ValueType) -> pa.DataType:
    """The type of the column of values; what Delta has no type for (nanoseconds, say) is stored as an integer."""
    return kind.arrow if kind.name in AS_THEY_ARE or kind.is_decimal else pa.int64()


def write_data(path: str, rows: SortedRows, names: Sequence[str], durable: bool) -> tuple[int, int]:
    """Write sorted rows; the size and checksum of the file."""
    keys = rows.keys.flatten() if len(names) > 1 else [rows.keys] * len(names)
    coded = [column.dictionary_encode() for column in keys]
    fields = [pa.field(name, column.type) for name, column in zip(names, coded, strict=True)]
    schema = pa.schema([*fields, pa.field(VALUE, stored_type(rows.kind))])

    def fill(sink: Sink) -> None:
        with pq.ParquetWriter(
            pa.PythonFile(sink, "w"),
            schema,
            compression=CODEC,
            use_dictionary=list(names),
            column_encoding={VALUE: _encoding(rows.kind)},
            write_page_checksum=True,
            store_schema=False,
        ) as writer:
            for start in range(0, len(rows), WRITE_ROWS):
                end = min(start + WRITE_ROWS, len(rows))
                columns = [*_key_columns(rows, coded, start, end), _stored(rows.values[start:end], rows.kind)]
                writer.write_table(pa.table(columns, schema=schema), BLOCK)

    return write_file(path, fill, durable)


class DataFiles:
    """Reads blocks; keeps the files it read last open."""

    def __init__(self, kind: ValueType, place: Place) -> None:
        self._kind, self._place = kind, place
        self._open: OrderedDict[str, tuple[Any, Lock]] = OrderedDict()
        self._lock = Lock()

    def values(self, path: str, groups: list[int]) -> NDArray[Any]:
        """The values of some blocks, one after the other, carried."""
        parquet, lock = self._file(path)
        try:
            with lock:
                column = parquet.read_row_groups(groups, columns=[VALUE], use_threads=False)[VALUE]
            return _checked(column, self._kind)
        except UNREADABLE as error:
            raise self._place.trouble(path, error) from error

    def forget(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._open.clear()

    def _file(self, path: str) -> tuple[Any, Lock]:
        with self._lock:
            found = self._open.get(path)
            if found is None:
                found = self._open[path] = (open_data(path, self._place, self._kind), Lock())
                while len(self._open) > OPEN_FILES:
                    self._open.popitem(last=False)
            self._open.move_to_end(path)
            return found


def open_data(path: str, place: Place, kind: ValueType, keys: Sequence[str] = ()) -> Any:
    """A data file; FileNotFoundError when it is gone. Texts of `keys` are read as numbers into the distinct ones."""
    try:
        parquet = pq.ParquetFile(
            place.open(path), pre_buffer=False, page_checksum_verification=True, read_dictionary=list(keys)
        )
        _check_footer(parquet, kind)
        return parquet
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise place.trouble(path, error) from error


def read_rows(
    path: str, place: Place, kind: ValueType, names: Sequence[str]
) -> Iterator[tuple[list[Any], NDArray[Any]]]:
    """Everything in a data file, some blocks at a time: the key columns, and the values carried."""
    parquet = open_data(path, place, kind, names)
    try:
        if parquet.schema_arrow.names != [*names, VALUE]:
            raise ValueError(f"it has the columns {', '.join(parquet.schema_arrow.names)[:200]}")
        for batch in parquet.iter_batches(WRITE_ROWS, use_threads=False):
            yield [batch.column(name) for name in names], _checked(batch.column(VALUE), kind)
    except UNREADABLE as error:
        raise place.trouble(path, error) from error


def _check_footer(parquet: Any, kind: ValueType) -> None:
    """Refuse a file that Quantide does not write; ValueError says why."""
    names, wanted = parquet.schema_arrow.names, stored_type(kind)
    if names.count(VALUE) != 1 or parquet.schema_arrow.field(VALUE).type != wanted:
        raise ValueError(f"it has no column {VALUE!r} of {wanted}")
    footer, rows = parquet.metadata, 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        columns = [group.column(i) for i in range(group.num_columns)]
        if not 0 < group.num_rows <= MOST_BLOCK or any(column.num_values != group.num_rows for column in columns):
            raise ValueError(f"a block of it has {group.num_rows:,} rows; they have from 1 to {MOST_BLOCK:,}")
        if any(column.compression != CODEC.upper() for column in columns):
            raise ValueError(f"it is not compressed with {CODEC}")
        rows += group.num_rows
    if rows != footer.num_rows:
        raise ValueError(f"it tells of {footer.num_rows:,} rows, and its blocks have {rows:,}")


def _checked(column: Any, kind: ValueType) -> NDArray[Any]:
    """A stored column as carried numbers; ValueError for any that are not of the type."""
    values = carried(column, kind)
    if column.null_count or values.dtype != kind.carrier or not are_of(values, kind):
        raise ValueError(f"a value of it is not a {kind}")
    return values


def carried(column: Any, kind: ValueType) -> NDArray[Any]:
    """A stored column as carried numbers."""
    if kind.is_decimal:
        return read_column(column, kind).carried()
    if not kind.is_float and column.type != pa.int64():
        column = column.cast(pa.int32()) if pa.types.is_date(column.type) else column
        column = column.cast(pa.int64())
    if isinstance(column, pa.ChunkedArray):
        chunks = [chunk.to_numpy() for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, kind.carrier), *chunks])
    values: NDArray[Any] = column.to_numpy()
    return values


def _stored(values: NDArray[Any], kind: ValueType) -> pa.Array:
    return kind.restore_arrow(values) if stored_type(kind) == kind.arrow else pa.array(values)


def _encoding(kind: ValueType) -> str:
    """Sorted floats are small when their bytes lie apart, sorted integers as differences."""
    if kind.is_float:
        return "BYTE_STREAM_SPLIT"
    return "PLAIN" if kind.is_decimal else "DELTA_BINARY_PACKED"


def _key_columns(rows: SortedRows, coded: list[Any], start: int, end: int) -> list[pa.Array]:
    """The keys of rows start to end, as numbers into the distinct ones, which Parquet writes as they are."""
    if not coded:
        return []
    first = int(np.searchsorted(rows.bounds, start, side="right")) - 1
    last = int(np.searchsorted(rows.bounds, end, side="left"))
    inside = np.clip(rows.bounds[first : last + 1], start, end)
    place = pa.array(np.repeat(np.arange(first, last), np.diff(inside)))
    return [pa.DictionaryArray.from_arrays(column.indices.take(place), column.dictionary) for column in coded]
