"""Build: a lake table becomes a history. Tasks read, sort and write; the driver commits."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TextIO

import pyarrow as pa
from pyspark.sql import SparkSession

from quantide.errors import InvalidArgumentError
from quantide.history.history import History
from quantide.history.keys import plain_type, read_keys
from quantide.history.load import Loaded, Slot, write_chunks
from quantide.history.source import PIECE, Piece
from quantide.spark.executor import TEXT, SparkExecutor
from quantide.spark.files import find_files
from quantide.spark.reading import read_split
from quantide.spark.rows import Batches
from quantide.spark.session import cores, start_session
from quantide.spark.splits import Split, plan
from quantide.store.settings import Settings
from quantide.store.storage import Storage
from quantide.summary.column import read_column
from quantide.summary.shown import write_line
from quantide.summary.types import type_named, type_of_arrow

BAR = 40


def build_history(
    session: SparkSession,
    source: str | Sequence[str],
    path: str,
    column: str | None = None,
    by: str | Sequence[str] | None = None,
    nan: str = "refuse",
    storage_options: dict[str, str] | None = None,
    progress: TextIO | None = None,
    **settings: Any,
) -> History:
    """A history of a column of a Parquet or Delta table, as one step; `by` names the key columns.

    All of it becomes visible at once: a build that fails, or is killed, leaves an empty history.
    """
    keys = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    storage = Storage(dict(storage_options or {}))
    files = find_files([source] if isinstance(source, str) else list(source), storage)
    value = column or _only(files.schema.names, keys)
    for name in (value, *keys):
        if name not in files.schema.names:
            raise InvalidArgumentError(f"there is no column {name!r}; there are {', '.join(files.schema.names)}")
    kind = type_of_arrow(files.schema.field(value).type).name
    history = History(path, keys=keys or None, value_type=kind, executor=SparkExecutor(session), **settings)
    if history.n:
        raise InvalidArgumentError(f"{path} has {history.n:,} values already; build into a new folder")
    splits = plan(files, (value, *keys), cores(session), storage)
    types = [plain_type(files.schema.field(name).type, name) for name in keys]

    def write(slot: Slot) -> Iterator[Loaded]:
        at_once = 4 * cores(session)
        for start in range(0, len(splits), at_once):
            some = list(enumerate(splits))[start : start + at_once]
            yield from _run(session, slot, some, value, keys, types, files.schema, storage, nan)
            _show(progress, "loading", min(start + at_once, len(splits)), len(splits))

    history.load(len(splits), write, types)
    _show(progress, "merging", 0, 1)
    history.end_step()
    _show(progress, "merging", 1, 1)
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
) -> None:
    """The command: a Spark session of its own, bound to loopback when it is local; or the one that runs already."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.master(master).appName("quantide history build")
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = start_session(builder)
    progress = None if json else out
    try:
        with build_history(session, source, path, column, by, progress=progress, eps=eps, kappa=kappa) as history:
            stats = history.stats()
        if json:
            write_line(out, {"path": path} | stats)
            return
        out.write(f"{stats['values']:,} values in {stats['files']:,} files, {stats['bytes'] / 1e6:,.1f} MB: {path}\n")
    finally:
        if running is None:
            session.stop()


def _run(
    session: SparkSession,
    slot: Slot,
    some: list[tuple[int, Split]],
    value: str,
    keys: tuple[str, ...],
    types: list[pa.DataType],
    schema: pa.Schema,
    storage: Storage,
    nan: str,
) -> list[Loaded]:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                number, split = some[place]
                tables = read_split(split, (*keys, value), schema, None, storage)
                pieces = _pieces(tables, value, keys, types, slot.settings)
                found = [json.dumps(asdict(one)) for one in write_chunks(slot, number, pieces, nan)]
                yield pa.RecordBatch.from_pydict({"text": pa.array(found, pa.string())})

    frame = session.range(0, len(some), 1, len(some)).mapInArrow(run, TEXT)
    return [Loaded.from_dict(json.loads(row["text"])) for row in frame.collect()]


def _pieces(
    tables: Iterator[pa.Table], value: str, keys: tuple[str, ...], types: list[pa.DataType], settings: Settings
) -> Iterator[Piece]:
    """The tables of a split as pieces of bounded size."""
    waiting: list[pa.Table] = []
    rows = 0
    kind = type_named(settings.value_type)

    def piece() -> Piece:
        table = pa.concat_tables(waiting)
        column = read_column(table[value], kind)
        if not keys:
            return Piece(None, column)
        valid = table.filter(table[value].is_valid()) if column.nulls else table
        given: Any = {name: valid[name] for name in keys} if len(keys) > 1 else valid[keys[0]]
        return Piece(read_keys(given, keys, len(valid), types), column)

    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= PIECE:
            yield piece()
            waiting, rows = [], 0
    if waiting:
        yield piece()


def _only(names: Sequence[str], keys: Sequence[str]) -> str:
    others = [name for name in names if name not in keys]
    if len(others) == 1:
        return others[0]
    raise InvalidArgumentError(f"the source has the columns {', '.join(others)}; say which with column=")


def _show(out: TextIO | None, what: str, done: int, total: int) -> None:
    if out is not None:
        filled = BAR * done // max(1, total)
        out.write(f"\r{what:<8} [{'#' * filled}{'.' * (BAR - filled)}] {done:,} of {total:,} tasks")
        out.write("\n" if done == total else "")
        out.flush()
