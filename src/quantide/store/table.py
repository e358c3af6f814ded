"""The Delta table: which files are active, and commits that change that all at once."""

import json
import os
import time
from collections.abc import Sequence
from threading import RLock
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from quantide.errors import InvalidArgumentError, StorageError, WriterConflictError
from quantide.store import faults
from quantide.store.datafile import stored_type
from quantide.store.disk import sync_folder
from quantide.store.names import FileName
from quantide.store.settings import PROPERTY, VALUE, Settings
from quantide.summary.types import type_named

WRITER, STEP, BATCH, SOURCE = "quantide.writer", "quantide.step", "quantide.batch:", "quantide.source:"
CHECKPOINT = 10


class StreamTable:
    """A store's table as of one version. Only a writer that took an epoch may commit."""

    def __init__(self, path: str, table: DeltaTable) -> None:
        self.path, self._table = path, table
        self._lock = RLock()
        self.epoch = 0  # of this writer; 0 for readers
        text = table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise InvalidArgumentError(f"{path} is a Delta table, but not one that Quantide made")
        self.settings = Settings.from_json(text)

    @classmethod
    def open(cls, path: str) -> "StreamTable | None":
        """The store there; None when there is none."""
        if not os.path.isdir(os.path.join(path, "_delta_log")):
            return None
        try:
            return cls(path, DeltaTable(path))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise StorageError(f"{path} cannot be opened: {error}") from error

    @classmethod
    def create(cls, path: str, settings: Settings) -> "StreamTable":
        """A new, empty store; or the one that someone else made there a moment ago."""
        schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
        os.makedirs(path, exist_ok=True)
        if os.listdir(path) and not os.path.isdir(os.path.join(path, "_delta_log")):
            known = {"_quantide"}
            if set(os.listdir(path)) - known:
                raise InvalidArgumentError(f"{path} is not empty and not a store; choose a new folder")
        try:
            table = DeltaTable.create(
                path,
                schema=Schema.from_arrow(schema),
                name="quantide",
                configuration={PROPERTY: settings.to_json(), "delta.checkpointInterval": str(CHECKPOINT)},
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            found = cls.open(path)
            if found is None:
                raise StorageError(f"no store can be made at {path}: {error}") from error
            return found
        return cls(path, table)

    @property
    def version(self) -> int:
        return int(self._table.version())

    def refresh(self) -> bool:
        """Look for commits of others; whether there were any."""
        with self._lock:
            following = os.path.join(self.path, "_delta_log", f"{self.version + 1:020}.json")
            if not os.path.exists(following):
                return False
            before = self.version
            self._table.update_incremental()
            return self.version != before

    def reload(self) -> None:
        """Read the whole log again, whatever this handle knew."""
        with self._lock:
            self._table = DeltaTable(self.path)

    def files(self) -> list[FileName]:
        """The active files, by the steps they cover."""
        with self._lock:
            paths = pa.table(self._table.get_add_actions(flatten=True)).column("path").to_pylist()
        found = [FileName.parse(path) for path in paths]
        return sorted(name for name in found if name is not None)

    def key_types(self) -> list[pa.DataType] | None:
        """The types of the key columns; None while no batch has told them."""
        schema = pa.schema(self._table.schema().to_arrow())
        names = self.settings.keys
        return [schema.field(name).type for name in names] if all(n in schema.names for n in names) else None

    def add_keys(self, types: Sequence[pa.DataType]) -> None:
        """Give the table its key columns."""
        fields = [pa.field(name, kind) for name, kind in zip(self.settings.keys, types, strict=True)]
        with self._lock:
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(fields)).fields)
            self._table.update_incremental()

    @property
    def step(self) -> int:
        """The number of the open step; steps count from 1."""
        return int(self._table.transaction_version(STEP) or 0) + 1

    def batch_seen(self, batch: Any) -> bool:
        app, number = batch_transaction(batch)
        seen = self._table.transaction_version(app)
        return seen is not None and int(seen) >= number

    def take_over(self) -> None:
        """Become the writer: a new epoch, which fences off any other."""
        with self._lock:
            self._table.update_incremental()
            self.epoch = int(self._table.transaction_version(WRITER) or 0) + 1
            self._commit([], [])

    def commit(
        self,
        add: Sequence[tuple[FileName, int, int]] = (),
        remove: Sequence[FileName] = (),
        step: int | None = None,
        batch: Any = None,
        durable: bool = False,
    ) -> None:
        """Add files (name, size, rows) and remove others, end a step, mark a batch: all of it or nothing."""
        now = int(time.time() * 1000)
        transactions = [] if step is None else [Transaction(STEP, step)]
        if batch is not None:
            transactions.append(Transaction(*batch_transaction(batch)))
        with self._lock:
            active = set(self.files()) if remove else set()
            if not set(remove) <= active:
                raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
            actions: list[Any] = [
                AddAction(name.data, size, {}, now, True, json.dumps({"numRecords": rows})) for name, size, rows in add
            ]
            actions += [RemoveAction(name.data, True, now, None, {}) for name in remove]
            faults.point("commit.before")
            self._commit(actions, transactions)
            faults.point("commit.after")
        if durable:
            sync_folder(os.path.join(self.path, "_delta_log"))

    def _commit(self, actions: list[Any], transactions: list[Transaction]) -> None:
        if self._table.transaction_version(WRITER) not in (None, self.epoch, self.epoch - 1):
            raise self._fenced()
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(WRITER, self.epoch), *transactions], max_commit_retries=0
                ),
                post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
            )
        except CommitFailedError as error:
            raise self._fenced() from error
        except (DeltaError, OSError) as error:
            raise StorageError(f"{self.path}: the commit failed, nothing was changed: {error}") from error
        self._table.update_incremental()

    def _fenced(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self.path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def expired(self, hours: float) -> list[str]:
        """Paths of files that were removed from the table that long ago and still lie there."""
        with self._lock:
            return list(self._table.vacuum(retention_hours=int(hours), dry_run=True, enforce_retention_duration=False))


def batch_transaction(batch: Any) -> tuple[str, int]:
    """A batch as Delta's log remembers it: an id of its own, or the number in a source that counts upwards."""
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], str) and isinstance(batch[1], int):
        return f"{SOURCE}{batch[0]}", batch[1]
    if isinstance(batch, (str, int)) and not isinstance(batch, bool):
        return f"{BATCH}{type(batch).__name__}:{batch}", 1
    raise InvalidArgumentError(f"batch_id is text, a number, or (source, number), not {batch!r}")
