"""Creation of a store: an empty table with its settings."""

import os
import tempfile
import warnings

import pyarrow as pa

from quantide.errors import InvalidArgumentError, RepairWarning, StorageError
from quantide.store.data_file import stored_type
from quantide.store.delta_library import DeltaTable, Schema
from quantide.store.delta_log import LINKS_PREFIX, DeltaLog
from quantide.store.durable_files import make_folder, sync
from quantide.store.location import FolderLocation
from quantide.store.log_entry import Action, LogEntry, encode_entry
from quantide.store.log_repair import move_aside
from quantide.store.store_settings import PROPERTY, VALUE, StoreSettings
from quantide.store.writable_table import WritableTable
from quantide.store.writer_lease import Lease
from quantide.summary.value_types import type_named

PROPERTIES = {
    "delta.checkpointInterval": "10",  # commits; the cost of one grows with the entries since the last checkpoint
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 minutes",  # checkpoints list them; vacuum() needs no list
}


def create_table(path: str, settings: StoreSettings, durable: bool = False) -> WritableTable:
    """Create an empty store, or open the one that another process has just created."""
    _check_folder_free(path)
    log = DeltaLog(path)
    entry = encode_entry("CREATE TABLE", {}, _first_actions(settings))
    try:
        make_folder(log.folder, durable)
        _add_first_entry(log, entry, durable)
        table = WritableTable.open(FolderLocation(path))
        if table is None:  # the only entry is torn
            table = _replace_first_entry(log, path, entry, durable)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if table is None:
        raise StorageError(f"no store can be made at {path}: it was removed in the same moment")
    return table


def _add_first_entry(log: DeltaLog, entry: bytes, durable: bool) -> None:
    """Add the first entry unless it exists."""
    try:
        log.add_entry(0, entry, durable)
    except FileExistsError:
        return
    if durable:
        sync(log.folder)


def _replace_first_entry(log: DeltaLog, path: str, entry: bytes, durable: bool) -> WritableTable | None:
    """Replace a torn first entry: the creation of that store was never acknowledged."""
    lease = Lease(path)
    try:
        table = WritableTable.open(FolderLocation(path))
        if table is None:
            moved = move_aside(path, log.entry_path(0), durable)
            warnings.warn(f"{path}: the first entry of its log was torn; it was moved to {moved}", RepairWarning, 4)
            _add_first_entry(log, entry, durable)
            table = WritableTable.open(FolderLocation(path))
        return table
    finally:
        lease.release()


def _first_actions(settings: StoreSettings) -> list[Action]:
    """Return the protocol and metadata actions of the table, as Delta's library writes them."""
    schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
    with tempfile.TemporaryDirectory(prefix=LINKS_PREFIX) as folder:
        DeltaTable.create(
            folder,
            schema=Schema.from_arrow(schema),
            name="quantide",
            configuration={PROPERTY: settings.to_json(), **PROPERTIES},
            raise_if_key_not_exists=False,
        )
        return LogEntry.read(DeltaLog(folder).read_entry(0)).changes


def _check_folder_free(path: str) -> None:
    """Refuse a folder with other content."""
    try:
        others = set(os.listdir(path)) - {"_quantide"}
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if others and not os.path.isdir(os.path.join(path, "_delta_log")):
        raise InvalidArgumentError(f"{path} is not empty and not a store; choose a new folder")
