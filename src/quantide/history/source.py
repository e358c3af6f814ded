"""Source files: a column of Parquet files, with its keys, in pieces of bounded size."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.arrivals import Arrivals
from quantide.history.keys import read_keys
from quantide.store.settings import VALUE, Settings
from quantide.summary.column import Column, read_column
from quantide.summary.types import type_named

PIECE = 1 << 23  # rows that are sorted together


class Piece(NamedTuple):
    """Some rows: keys and values without nulls, and what makes them recent rows, where they are to be those, too."""

    keys: pa.Array | None
    column: Column
    arrivals: Arrivals | None = None


def check_paths(paths: Any) -> list[str]:
    """The names of files, each as text."""
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
    settings: Settings,
    key_types: Callable[[], list[pa.DataType] | None],
) -> Iterator[Piece]:
    """Keys and values of all files, PIECE rows at a time; nulls are left out, and counted."""
    waiting: list[pa.Table] = []
    rows = 0
    for path in paths:
        for batch in _batches(path, column, settings.keys):
            if waiting and batch.schema != waiting[0].schema:  # files of narrower and wider numbers
                yield _piece(pa.concat_tables(waiting), settings, key_types())
                waiting, rows = [], 0
            waiting.append(batch)
            rows += len(batch)
            if rows >= PIECE:
                yield _piece(pa.concat_tables(waiting), settings, key_types())
                waiting, rows = [], 0
    if waiting:
        yield _piece(pa.concat_tables(waiting), settings, key_types())


def _batches(path: str, column: str | None, keys: Sequence[str]) -> Iterator[pa.Table]:
    try:
        with pq.ParquetFile(path) as parquet:
            names = parquet.schema_arrow.names
            value = column or _only(names, keys, path)
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


def _only(names: Sequence[str], keys: Sequence[str], path: str) -> str:
    others = [name for name in names if name not in keys]
    if VALUE in others:
        return VALUE
    if len(others) == 1:
        return others[0]
    raise InvalidArgumentError(f"{path} has the columns {', '.join(others)}; say which with column=")


def _piece(table: pa.Table, settings: Settings, types: list[pa.DataType] | None) -> Piece:
    column = read_column(table[VALUE], type_named(settings.value_type))
    if not settings.keys:
        return Piece(None, column)
    valid = table.filter(table[VALUE].is_valid()) if column.nulls else table
    columns = {name: valid[name] for name in settings.keys}
    given: Any = columns if len(columns) > 1 else columns[settings.keys[0]]
    return Piece(read_keys(given, settings.keys, len(valid), types), column)
