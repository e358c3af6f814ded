"""Data files: sorted rows as plain Parquet, in blocks (row groups) that are read one by one.

A footer can be wrong. Its columns, compression and rows are checked before a block is read, and values after it, so
that a block needs the memory of MAX_BLOCK_ROWS rows at most, and kernels receive values of the expected type.
"""

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quantide.caching import ByteLRU
from quantide.store.parquet_footer import CODEC, LZ4, VALUES, read_footer
from quantide.store.storage import Sink, Storage
from quantide.store.store_settings import VALUE
from quantide.store.stored_rows import SortedRows
from quantide.summary.summary_bytes import are_valid_values
from quantide.summary.value_column import read_column
from quantide.summary.value_types import ValueType
from quantide.typing import Ints

BLOCK = 1 << 16  # rows of a block
WRITE_ROWS = 1 << 20  # rows per call of the Parquet writer
MAX_OPEN_FILES = 64
MAX_BLOCK_ROWS = 1 << 16  # of a block that is read
COMPRESSION = "lz4"  # expands a byte to 255 at most
PARQUET_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    pa.ArrowException,
)  # raised for damaged files
NATIVE_TYPES = (
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
    """Return the type of the stored column; types that Delta lacks, such as nanoseconds, are stored as integers."""
    return kind.arrow if kind.name in NATIVE_TYPES or kind.is_decimal else pa.int64()


class DataWriter:
    """Writes sorted rows to a data file, piece by piece. Every block but the last has BLOCK rows.

    Rows that fill no block wait for the next piece, so memory is that of a piece and a block.
    """

    def __init__(self, sink: Sink, names: Sequence[str]) -> None:
        self._sink, self._names = sink, names
        self._writer: Any = None
        self._schema: Any = None
        self._waiting: SortedRows | None = None

    def append(self, rows: SortedRows) -> None:
        """Append rows that follow all earlier ones in the order of (key, value)."""
        if self._waiting is not None:
            fill = min(BLOCK - len(self._waiting), len(rows))
            self._waiting = self._waiting.follow_with(rows.slice(0, fill))
            if len(self._waiting) < BLOCK:
                return
            self._write(self._waiting)
            self._waiting = None
            if fill == len(rows):
                return
            rows = rows.slice(fill, len(rows))
        whole = len(rows) // BLOCK * BLOCK
        if whole:
            self._write(rows if whole == len(rows) else rows.slice(0, whole))
        self._waiting = rows.slice(whole, len(rows)) if whole < len(rows) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Write the last block and the footer; after an error, close the file."""
        try:
            if self._waiting is not None and failure is None:
                self._write(self._waiting)
        finally:
            if self._writer is not None:
                self._writer.close()

    def _write(self, rows: SortedRows) -> None:
        keys = rows.keys.flatten() if len(self._names) > 1 else [rows.keys] * len(self._names)
        coded = [column.dictionary_encode() for column in keys]
        if self._writer is None:
            self._open([column.type for column in coded], rows.kind)
        for start in range(0, len(rows), WRITE_ROWS):
            end = min(start + WRITE_ROWS, len(rows))
            columns = [*_key_columns(rows, coded, start, end), _to_stored(rows.values[start:end], rows.kind)]
            self._writer.write_table(pa.table(columns, schema=self._schema), BLOCK)

    def _open(self, key_types: Sequence[pa.DataType], kind: ValueType) -> None:
        fields = [pa.field(name, key_type) for name, key_type in zip(self._names, key_types, strict=True)]
        self._schema = pa.schema([*fields, pa.field(VALUE, stored_type(kind))])
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._sink, "w"),
            self._schema,
            compression=COMPRESSION,
            use_dictionary=list(self._names),
            column_encoding={VALUE: _value_encoding(kind)},
            write_batch_size=BLOCK,
            write_page_checksum=True,
            store_schema=False,
        )


def write_data(storage: Storage, name: str, pieces: Iterable[SortedRows], keys: Sequence[str]) -> tuple[int, int]:
    """Write sorted rows, given in consecutive pieces; return the size and checksum of the file."""

    def fill(sink: Sink) -> None:
        with DataWriter(sink, keys) as writer:
            for rows in pieces:
                writer.append(rows)

    return storage.write(name, fill)


class DataFiles:
    """Reader of blocks with an LRU cache of open files."""

    def __init__(self, kind: ValueType, storage: Storage) -> None:
        self._kind, self.storage = kind, storage
        self._open = ByteLRU(None, MAX_OPEN_FILES)

    def read_blocks(self, name: str, groups: list[int]) -> NDArray[Any]:
        """Return the values of consecutive blocks, in the carrier type."""
        return self._read(name, self._open_file(name), groups)

    def read_all(self, blocks: Sequence[tuple[str, int]]) -> list[NDArray[Any]]:
        """Return the values of blocks of several files: files are opened in parallel, then blocks are read likewise."""
        names = list(dict.fromkeys(name for name, _ in blocks))
        files = dict(zip(names, self.storage.map_all(self._open_file, names), strict=True))
        return self.storage.map_all(lambda block: self._read(block[0], files[block[0]], [block[1]]), blocks)

    def _read(self, name: str, file: tuple[Any, Lock], groups: list[int]) -> NDArray[Any]:
        parquet, lock = file
        try:
            with lock:
                column = parquet.read_row_groups(groups, columns=[VALUE], use_threads=False)[VALUE]
            return _read_values(column, self._kind)
        except PARQUET_ERRORS as error:
            raise self.storage.read_error(name, error) from error

    def close(self) -> None:
        """Close all files."""
        self._open.clear()

    def _open_file(self, name: str) -> tuple[Any, Lock]:
        def open_file() -> tuple[Any, Lock]:
            return open_data(self.storage, name, self._kind), Lock()

        return self._open.get(None, name, open_file, lambda _: 0)


def open_data(storage: Storage, name: str, kind: ValueType, keys: Sequence[str] = ()) -> Any:
    """Open a data file; raise FileNotFoundError if it was removed. Texts of `keys` are read as dictionary arrays."""
    try:
        file = storage.open(name)
        metadata, chunks = read_footer(file)
        parquet = pq.ParquetFile(
            file, metadata=metadata, pre_buffer=False, page_checksum_verification=True, read_dictionary=list(keys)
        )
        _check_footer(parquet, chunks, kind)
        return parquet
    except FileNotFoundError:
        raise
    except PARQUET_ERRORS as error:
        raise storage.read_error(name, error) from error


def read_rows(
    storage: Storage, name: str, kind: ValueType, keys: Sequence[str]
) -> Iterator[tuple[list[Any], NDArray[Any]]]:
    """Yield the key columns and the values of a data file, several blocks at a time."""
    parquet = open_data(storage, name, kind, keys)
    try:
        if parquet.schema_arrow.names != [*keys, VALUE]:
            raise ValueError(f"it has the columns {', '.join(parquet.schema_arrow.names)[:200]}")
        for batch in parquet.iter_batches(WRITE_ROWS, use_threads=False):
            yield [batch.column(key) for key in keys], _read_values(batch.column(VALUE), kind)
    except PARQUET_ERRORS as error:
        raise storage.read_error(name, error) from error


def _check_footer(parquet: Any, chunks: Ints, kind: ValueType) -> None:
    """Raise ValueError for a file that Quantide cannot have written."""
    names, expected = parquet.schema_arrow.names, stored_type(kind)
    if names.count(VALUE) != 1 or parquet.schema_arrow.field(VALUE).type != expected:
        raise ValueError(f"it has no column {VALUE!r} of {expected}")
    footer = parquet.metadata
    rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    for count, values in zip(rows, chunks[VALUES], strict=True):
        if not 0 < count <= MAX_BLOCK_ROWS or (values != count).any():
            raise ValueError(f"a block of it has {count:,} rows; they have from 1 to {MAX_BLOCK_ROWS:,}")
    if (chunks[CODEC] != LZ4).any():
        raise ValueError(f"it is not compressed with {COMPRESSION}")
    if sum(rows) != footer.num_rows:
        raise ValueError(f"its footer counts {footer.num_rows:,} rows, and its blocks have {sum(rows):,}")


def _read_values(column: Any, kind: ValueType) -> NDArray[Any]:
    """Return the carried values of a stored column; raise ValueError if some are not of the type."""
    values = to_carrier(column, kind)
    if column.null_count or values.dtype != kind.carrier or not are_valid_values(values, kind):
        raise ValueError(f"a value of it is not a {kind}")
    return values


def to_carrier(column: Any, kind: ValueType) -> NDArray[Any]:
    """Convert a stored column to the carrier type."""
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


def _to_stored(values: NDArray[Any], kind: ValueType) -> pa.Array:
    return kind.restore_arrow(values) if stored_type(kind) == kind.arrow else pa.array(values)


def _value_encoding(kind: ValueType) -> str:
    """Return the encoding in which sorted values are smallest: floats split by byte, integers as differences."""
    if kind.is_float:
        return "BYTE_STREAM_SPLIT"
    return "PLAIN" if kind.is_decimal else "DELTA_BINARY_PACKED"


def _key_columns(rows: SortedRows, coded: list[Any], start: int, end: int) -> list[pa.Array]:
    """Return the keys of rows start to end as dictionary arrays, which Parquet writes directly."""
    if not coded:
        return []
    first = int(np.searchsorted(rows.bounds, start, side="right")) - 1
    last = int(np.searchsorted(rows.bounds, end, side="left"))
    inside = np.clip(rows.bounds[first : last + 1], start, end)
    indices = pa.array(np.repeat(np.arange(first, last), np.diff(inside)))
    return [pa.DictionaryArray.from_arrays(column.indices.take(indices), column.dictionary) for column in coded]
