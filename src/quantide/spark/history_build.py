"""History build: loads a Parquet or Delta table into a new history. Tasks read, sort and write; the driver commits."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
from pyspark.sql import SparkSession

from quantide.config.stream_config import tail_settings
from quantide.errors import InvalidArgumentError
from quantide.history.appended_rows import PIECE_ROWS, ParquetPiece, repeat_tables
from quantide.history.bulk_load import NameReservation, WrittenFile, write_chunks
from quantide.history.history import History
from quantide.history.key_columns import plain_type, read_keys
from quantide.spark.source_files import Split, find_files, plan_splits, read_split
from quantide.spark.spark_executor import SparkExecutor, run_tasks
from quantide.spark.spark_session import count_cores, start_session
from quantide.store.location import StorageOptions
from quantide.store.store_settings import StoreSettings
from quantide.summary.ranks import DEFAULT
from quantide.summary.value_column import read_column
from quantide.summary.value_json import count, write_line
from quantide.summary.value_types import type_named, type_of_arrow

BAR = 40  # columns of the progress bar


class SourceColumns(NamedTuple):
    """Columns of a source: the value, the keys with their types, and the weight if rows have one."""

    value: str
    keys: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    weights: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.keys, self.value, *([] if self.weights is None else [self.weights]))))


def build_history(
    session: SparkSession,
    source: str | Sequence[str],
    path: str,
    column: str | None = None,
    by: str | Sequence[str] | None = None,
    nan: str = "refuse",
    storage_options: dict[str, str] | None = None,
    progress: TextIO | None = None,
    store_options: dict[str, str] | None = None,
    weights: str | None = None,
    **settings: Any,
) -> History:
    """Build a history of one step from a column of a Parquet or Delta table; `by` names the columns to group by.

    `storage_options` are those of the source, and of a history at a URI that has no `store_options` of its own. One
    commit makes all values visible: a build that fails, or is killed, leaves an empty history. `weights` names a column
    of whole numbers: a value of weight w is stored as w rows.
    """
    keys = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    storage = StorageOptions.of(storage_options)
    files = find_files([source] if isinstance(source, str) else list(source), storage)
    added = () if weights is None else (weights,)
    value = column or _only_column(files.schema.names, (*keys, *added))
    used = tuple(dict.fromkeys((*keys, value, *added)))
    for name in used:
        if name not in files.schema.names:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(files.schema.names)}")
    kind = type_of_arrow(files.schema.field(value).type).name
    if store_options is None and "://" in os.fspath(path):
        store_options = storage_options
    target: dict[str, Any] = {"storage_options": store_options, "executor": SparkExecutor(session)}
    history = History(path, keys=keys or None, value_type=kind, **target, **settings)
    if history.n:
        raise InvalidArgumentError(f"{path} has {history.n:,} values already; build into a new folder")
    splits = plan_splits(files, used, count_cores(session), storage)
    types = [plain_type(files.schema.field(name).type, name) for name in keys]

    at_once = 4 * count_cores(session)
    with history.bulk_load(types) as load:
        names, written = load.reserve(len(splits)), []
        for start in range(0, len(splits), at_once):
            numbered = list(enumerate(splits))[start : start + at_once]
            columns = SourceColumns(value, keys, tuple(types), weights)
            written += _load_splits(session, names, numbered, columns, files.schema, storage, nan)
            _show_progress(progress, "loading", min(start + at_once, len(splits)), len(splits))
        load.commit(names, written)
    _show_progress(progress, "merging", 0, 1)
    history.end_step()
    _show_progress(progress, "merging", 1, 1)
    return history


def build(
    source: str,
    path: str,
    column: str | None,
    by: Sequence[str] | None,
    eps: float | None,
    kappa: int | None,
    master: str,
    out: TextIO,
    json: bool = False,
    storage_options: dict[str, str] | None = None,
    tail: float | None = DEFAULT,
    weights: str | None = None,
) -> None:
    """Run the command `history build` in the active Spark session, or in a new one (bound to loopback if local)."""
    if "://" not in source:
        find_files([source], StorageOptions.of(storage_options))  # raises before Spark starts if nothing is there
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.master(master).appName("quantide history build")
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = start_session(builder)
    progress = None if json else out
    settings = {"eps": eps, "kappa": kappa} | tail_settings(tail)
    try:
        with build_history(
            session, source, path, column, by, "refuse", storage_options, progress, weights=weights, **settings
        ) as history:
            stats = history.stats()
        if json:
            write_line(out, {"path": path} | stats)
            return
        out.write(
            f"{stats['values']:,} values in {count(stats['files'], 'file')}, {stats['bytes'] / 1e6:,.1f} MB: {path}\n"
        )
    finally:
        if running is None:
            session.stop()


def _load_splits(
    session: SparkSession,
    names: NameReservation,
    numbered: list[tuple[int, Split]],
    columns: SourceColumns,
    schema: pa.Schema,
    storage: StorageOptions,
    nan: str,
) -> list[WrittenFile]:
    """Read, sort and write splits, one task each; return the files they wrote."""

    def load(index: int) -> Any:
        number, split = numbered[index]
        tables = read_split(split, columns.names, schema, None, storage)
        pieces = _to_pieces(tables, columns, names.settings)
        return [asdict(file) for file in write_chunks(names, number, pieces, nan)]

    return [WrittenFile.from_dict(file) for files in run_tasks(session, len(numbered), load) for file in files]


def _to_pieces(tables: Iterable[pa.Table], columns: SourceColumns, settings: StoreSettings) -> Iterator[ParquetPiece]:
    """Join the tables of a split into pieces of bounded size."""
    value, keys, types, weights = columns
    pending: list[pa.Table] = []
    rows = 0
    kind = type_named(settings.value_type)

    def piece() -> ParquetPiece:
        table = pa.concat_tables(pending)
        column = read_column(table[value], kind)
        if not keys:
            return ParquetPiece(None, column)
        valid = table.filter(table[value].is_valid()) if column.nulls else table
        key_values: Any = {name: valid[name] for name in keys} if len(keys) > 1 else valid[keys[0]]
        return ParquetPiece(read_keys(key_values, keys, len(valid), list(types)), column)

    if weights is not None:
        tables = chain.from_iterable(repeat_tables(table, weights) for table in tables)
    for table in tables:
        pending.append(table)
        rows += len(table)
        if rows >= PIECE_ROWS:
            yield piece()
            pending, rows = [], 0
    if pending:
        yield piece()


def _only_column(names: Sequence[str], keys: Sequence[str]) -> str:
    others = [name for name in names if name not in keys]
    if len(others) == 1:
        return others[0]
    raise InvalidArgumentError(f"the source has the columns {', '.join(others)}; name one with column=")


def _show_progress(out: TextIO | None, phase: str, done: int, total: int) -> None:
    if out is not None:
        filled = BAR * done // max(1, total)
        out.write(f"\r{phase:<8} [{'#' * filled}{'.' * (BAR - filled)}] {done:,} of {total:,} tasks")
        out.write("\n" if done == total else "")
        out.flush()
