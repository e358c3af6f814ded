"""Creation: a new store, an empty table that has its settings."""

import os
import tempfile
import warnings

import pyarrow as pa

from quantide.errors import InvalidArgumentError, RepairWarning, StorageError
from quantide.store.aside import move_aside
from quantide.store.commits import WritableTable
from quantide.store.datafile import stored_type
from quantide.store.delta import DeltaTable, Schema
from quantide.store.disk import make_folder, sync
from quantide.store.entry import Action, LogEntry, encode_entry
from quantide.store.lease import Lease
from quantide.store.links import PREFIX
from quantide.store.log import Log
from quantide.store.place import Folder
from quantide.store.settings import PROPERTY, VALUE, Settings
from quantide.summary.types import type_named

PROPERTIES = {
    "delta.checkpointInterval": "10",  # commits: one costs more the more entries come after the last checkpoint
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 minutes",  # every checkpoint lists them; vacuum() needs no list
}


def create_table(path: str, settings: Settings, durable: bool = False) -> WritableTable:
    """A new, empty store; or the one that someone else made there a moment ago."""
    _check_room(path)
    log = Log(path)
    entry = encode_entry("CREATE TABLE", {}, _first_actions(settings))
    try:
        make_folder(log.folder, durable)
        _put_first(log, entry, durable)
        found = WritableTable.open(Folder(path))
        if found is None:  # the first entry is torn, and there is no other
            found = _replace_first(log, path, entry, durable)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if found is None:
        raise StorageError(f"no store can be made at {path}: it was removed in the same moment")
    return found


def _put_first(log: Log, entry: bytes, durable: bool) -> None:
    """Write the first entry, unless there is one."""
    try:
        log.put(0, entry, durable)
    except FileExistsError:
        return
    if durable:
        sync(log.folder)


def _replace_first(log: Log, path: str, entry: bytes, durable: bool) -> WritableTable | None:
    """Begin anew where the first entry is torn: that store was never acknowledged."""
    lease = Lease(path)
    try:
        found = WritableTable.open(Folder(path))
        if found is None:
            moved = move_aside(path, log.entry(0), durable)
            warnings.warn(f"{path}: the first entry of its log was torn; it is kept as {moved}", RepairWarning, 4)
            _put_first(log, entry, durable)
            found = WritableTable.open(Folder(path))
        return found
    finally:
        lease.release()


def _first_actions(settings: Settings) -> list[Action]:
    """The protocol and the metadata of the table, as Delta's library makes them."""
    schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        DeltaTable.create(
            folder,
            schema=Schema.from_arrow(schema),
            name="quantide",
            configuration={PROPERTY: settings.to_json(), **PROPERTIES},
            raise_if_key_not_exists=False,
        )
        return LogEntry.read(Log(folder).read(0)).changes


def _check_room(path: str) -> None:
    """Refuse a folder that holds something else."""
    try:
        others = set(os.listdir(path)) - {"_quantide"}
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if others and not os.path.isdir(os.path.join(path, "_delta_log")):
        raise InvalidArgumentError(f"{path} is not empty and not a store; choose a new folder")
