"""Creation of a store: an empty table with its settings."""

import warnings
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa

from quantide.errors import InvalidArgumentError, RepairWarning, StorageError
from quantide.store.checkpoint_file import table_actions
from quantide.store.data_file import stored_type
from quantide.store.file_names import LOG, entry_name
from quantide.store.log_entry import COMMIT, encode_entry
from quantide.store.log_repair import move_aside
from quantide.store.storage import Storage
from quantide.store.store_settings import PROPERTY, VALUE, StoreSettings
from quantide.store.writable_table import WritableTable
from quantide.summary.value_types import type_named

PROPERTIES = {
    "delta.checkpointInterval": "10",  # commits; the cost of one grows with the entries since the last checkpoint
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 2 hours",  # vacuum() takes the time of a removal from checkpoints
}


def create_table(storage: Storage, settings: StoreSettings) -> WritableTable:
    """Create an empty store, or open the one that another process has just created."""
    path = storage.path
    _check_free(storage)
    schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
    actions = table_actions(schema, {PROPERTY: settings.to_json(), **PROPERTIES})
    entry = encode_entry("CREATE TABLE", {COMMIT: uuid4().hex}, actions)
    try:
        storage.prepare()
        _add_first_entry(storage, entry)
        table = WritableTable.open(storage)
        if table is None:  # the only entry is torn
            table = _replace_first_entry(storage, entry)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if table is None:
        raise StorageError(f"no store can be made at {path}: it was removed in the same moment")
    return table


def _add_first_entry(storage: Storage, entry: bytes) -> None:
    """Add the first entry unless it exists."""
    with suppress(FileExistsError):
        storage.create(entry_name(0), entry)
        storage.sync(LOG)


def _replace_first_entry(storage: Storage, entry: bytes) -> WritableTable | None:
    """Replace a torn first entry: the creation of that store was never acknowledged."""
    lease = storage.acquire_lease()
    try:
        table = WritableTable.open(storage)
        if table is None:
            moved = move_aside(storage, entry_name(0))
            warnings.warn(
                f"{storage.path}: the first entry of its log was torn; it was moved to {moved}", RepairWarning, 4
            )
            _add_first_entry(storage, entry)
            table = WritableTable.open(storage)
        return table
    finally:
        lease.release()


def _check_free(storage: Storage) -> None:
    """Refuse a folder with other content."""
    try:
        others = storage.list_top() - {"_quantide"}
    except OSError as error:
        raise StorageError(f"no store can be made at {storage.path}: {error}") from error
    if others and LOG not in others:
        raise InvalidArgumentError(f"{storage.path} is not empty and not a store; choose a new folder")
