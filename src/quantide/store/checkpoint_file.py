"""Checkpoints of the log: made by Delta's library, read with pyarrow, and checked before older entries are removed.

Parquet files have no checksum that every reader verifies, and readers differ: pyarrow accepts some flipped bits on
which Delta's reader fails. Only a load by that reader proves that a checkpoint can replace older entries.

Delta's library works on a copy of the log in a temporary folder. It would choose damaged checkpoints, sync nothing that
it writes, and need the credentials of an object store.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.store.delta_library import DeltaError, DeltaTable, Schema, load_table
from quantide.store.file_names import checkpoint_name, entry_name
from quantide.store.log_entry import Action, LogEntry

COLUMNS = (
    *("txn.appId", "txn.version"),
    *("add.path", "add.size", "add.stats", "add.deletionVector.storageType"),
    *("remove.path", "remove.deletionTimestamp"),
    *("metaData", "protocol"),
)
PREFIX = "quantide-log-"  # of temporary folders


def read_checkpoint(data: bytes) -> Iterator[Action]:
    """Yield the actions of a checkpoint; raise ValueError if it cannot be read."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            table = file.read(columns=[*COLUMNS])
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"a checkpoint cannot be read: {error}") from error
    for kind in table.column_names:
        column = table[kind].combine_chunks()
        for body in column.drop_null().to_pylist():
            yield {kind: _plain(body)}


def is_readable(_version: int, data: bytes) -> bool:
    """Return True if pyarrow can read all values of a checkpoint."""
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            file.read()
        return True
    except (pa.ArrowException, OSError):
        return False


def is_loadable(version: int, data: bytes) -> bool:
    """Return True if pyarrow can read all values, and Delta's reader can load a table from this file alone."""
    if not is_readable(version, data):
        return False
    try:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
            _write_files(folder, {checkpoint_name(version): data})
            load_table(folder)
        return True
    except DeltaError:
        return False


def make_checkpoint(version: int, files: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Return the bytes of the checkpoint of a version and of the file that names it.

    `files` are a checkpoint and the entries after it, or all entries, by their names within the store.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        _write_files(folder, files)
        load_table(folder, version).create_checkpoint()
        paths = [os.path.join(folder, name) for name in (checkpoint_name(version), "_delta_log/_last_checkpoint")]
        return _read_file(paths[0]), _read_file(paths[1])


def table_actions(schema: pa.Schema, configuration: Mapping[str, str]) -> list[Action]:
    """Return the protocol and metadata actions of a new table, as Delta's library writes them."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        DeltaTable.create(
            folder,
            schema=Schema.from_arrow(schema),
            name="quantide",
            configuration=dict(configuration),
            raise_if_key_not_exists=False,
        )
        return LogEntry.read(_read_file(os.path.join(folder, entry_name(0)))).changes


def log_files(base: tuple[int, bytes] | None, entries: Mapping[int, bytes]) -> dict[str, bytes]:
    """Return files of a log by name: a checkpoint, if there is one, and entries."""
    files = {} if base is None else {checkpoint_name(base[0]): base[1]}
    return files | {entry_name(version): data for version, data in entries.items()}


def _write_files(folder: str, files: Mapping[str, bytes]) -> None:
    os.mkdir(os.path.join(folder, "_delta_log"))
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Return an action as entries of the log have it: without nulls, and with maps as objects."""
    plain = {name: value for name, value in body.items() if value is not None}
    if "configuration" in plain:
        plain["configuration"] = dict(plain["configuration"])
    if "format" in plain:
        plain["format"] = {**plain["format"], "options": dict(plain["format"].get("options") or ())}
    return plain
