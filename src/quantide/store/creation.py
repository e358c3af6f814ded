"""Creation: a new store, an empty table that has its settings."""

import os

import pyarrow as pa

from quantide.errors import InvalidArgumentError, StorageError
from quantide.store.commits import WritableTable
from quantide.store.datafile import stored_type
from quantide.store.delta import DeltaError, DeltaTable, Schema
from quantide.store.place import Folder
from quantide.store.settings import PROPERTY, VALUE, Settings
from quantide.summary.types import type_named

PROPERTIES = {
    "delta.checkpointInterval": "10",  # commits: one costs more the more entries come after the last checkpoint
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 minutes",  # every checkpoint lists them; vacuum() needs no list
}


def create_table(path: str, settings: Settings) -> WritableTable:
    """A new, empty store; or the one that someone else made there a moment ago."""
    _check_room(path)
    schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
    try:
        table = DeltaTable.create(
            path,
            schema=Schema.from_arrow(schema),
            name="quantide",
            configuration={PROPERTY: settings.to_json(), **PROPERTIES},
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        found = WritableTable.open(Folder(path))
        if found is None:
            raise StorageError(f"no store can be made at {path}: {error}") from error
        return found
    return WritableTable(Folder(path), table)


def _check_room(path: str) -> None:
    """Make the folder; refuse one that holds something else."""
    try:
        os.makedirs(path, exist_ok=True)
        others = set(os.listdir(path)) - {"_quantide"}
    except OSError as error:
        raise StorageError(f"no store can be made at {path}: {error}") from error
    if others and not os.path.isdir(os.path.join(path, "_delta_log")):
        raise InvalidArgumentError(f"{path} is not empty and not a store; choose a new folder")
