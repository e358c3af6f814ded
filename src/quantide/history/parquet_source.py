"""Parquet source: a column of Parquet files, with its keys, in pieces of bounded size."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.appended_rows import AppendedRows
from quantide.history.key_columns import read_keys
from quantide.store.store_settings import VALUE, StoreSettings
from quantide.summary.value_column import ValueColumn, read_column
from quantide.summary.value_types import type_named

PIECE_ROWS = 1 << 23  # sorted together


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
) -> Iterator[ParquetPiece]:
    """Read keys and values of all files, PIECE_ROWS rows at a time; nulls are skipped and counted."""
    batches: list[pa.Table] = []
    rows = 0
    for path in paths:
        for batch in _batches(path, column, settings.keys):
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


def _batches(path: str, column: str | None, keys: Sequence[str]) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as parquet:
            names = parquet.schema_arrow.names
            value = column or _value_column(names, keys, path)
            for name in (value, *keys):
                if name not in names:
                    raise InvalidArgumentError(f"{path} has no column {name!r}; it has {', '.join(names)}")
            for batch in parquet.iter_batches(1 << 20, columns=[*keys, value], use_threads=False):
                table = pa.Table.from_batches([batch])
                yield table.select([*keys, value]).rename_columns([*keys, VALUE])
    except FileNotFoundError as error:
        raise StorageError(f"{path} is not there: {error}") from error
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, InvalidArgumentError):
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
