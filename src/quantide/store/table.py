"""The Delta table: which files are active, and commits that change that all at once."""

import json
import os
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from quantide.errors import (
    CorruptBytesError,
    InvalidArgumentError,
    MissingPackageError,
    StorageError,
    WriterConflictError,
)
from quantide.store import faults
from quantide.store.datafile import stored_type
from quantide.store.disk import remove, sync, touch, write_bytes
from quantide.store.log import Log
from quantide.store.manifest import Manifest
from quantide.store.names import DATA, RECENT, SIDE, FileName, manifest_name, recent_epoch, without_spare
from quantide.store.place import Folder, Place
from quantide.store.settings import PROPERTY, VALUE, Settings
from quantide.store.storage import out_of_reach
from quantide.summary.types import type_named

try:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, RemoveAction
except ImportError as error:
    raise MissingPackageError.of("a store on disk", "deltalake", "history") from error

WRITER, STEP, BATCH, SOURCE = "quantide.writer", "quantide.step", "quantide.batch:", "quantide.source:"
COMMIT, RECENT_FILES = "quantide.commit", "quantide.recent"
ALWAYS = (WRITER, STEP, RECENT_FILES)  # transactions that every version is asked for
CHECKPOINT = 10  # commits from one to the next: a commit costs more the more entries come after the last
PROPERTIES = {
    "delta.checkpointInterval": str(CHECKPOINT),
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 minutes",  # every checkpoint lists them; vacuum() needs no list
}
VERSIONS = 200  # that the log keeps: every commit costs more the more there are
YOUNG = 0.01  # hours that they are kept in any case: somebody may be opening the table
TRIM = 100  # commits from one trimming of the log to the next
KNOWN = 1000  # transactions that are not looked up again
TRIES = 10  # to take over, or to read a log that changes
AFTERWARDS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


@dataclass(frozen=True)
class TableState:
    """A version of the table: the number of the open step, the active files, the types of the key columns."""

    version: int
    step: int
    files: list[FileName]
    key_types: list[pa.DataType] | None
    recent: int | None  # the number of the manifest of recent files


class StreamTable:
    """A store's table as of one version. Only a writer that took an epoch may commit."""

    def __init__(self, place: Place, table: DeltaTable) -> None:
        self.place, self.path, self._table = place, place.path, table
        self._lock, self._log = RLock(), Log(self.path)
        self._known: dict[str, int | None] = {}  # transactions of this version that were looked up
        self._trimmed = 0  # the version at which the log was trimmed last
        self.epoch = 0  # of this writer; 0 for readers
        self.durable = False  # whether a commit must outlast a loss of power
        self._manifests = 0  # written by this writer
        self._manifest: tuple[int | None, Manifest] = (None, Manifest())
        text = table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise InvalidArgumentError(f"{self.path} is a Delta table, but not one that Quantide made")
        self.settings = Settings.from_json(text)

    @classmethod
    def open(cls, place: Place) -> "StreamTable | None":
        """The store there; None when there is none."""
        if not place.far and not place.has("_delta_log"):
            return None
        try:
            return cls(place, _read(place))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise StorageError(f"{place.path} cannot be opened: {error}") from error

    @classmethod
    def create(cls, path: str, settings: Settings) -> "StreamTable":
        """A new, empty store; or the one that someone else made there a moment ago."""
        schema = pa.schema([pa.field(VALUE, stored_type(type_named(settings.value_type)))])
        try:
            os.makedirs(path, exist_ok=True)
            others = set(os.listdir(path)) - {"_quantide"}
        except OSError as error:
            raise StorageError(f"no store can be made at {path}: {error}") from error
        if others and not os.path.isdir(os.path.join(path, "_delta_log")):
            raise InvalidArgumentError(f"{path} is not empty and not a store; choose a new folder")
        try:
            table = DeltaTable.create(
                path,
                schema=Schema.from_arrow(schema),
                name="quantide",
                configuration={PROPERTY: settings.to_json(), **PROPERTIES},
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            found = cls.open(Folder(path))
            if found is None:
                raise StorageError(f"no store can be made at {path}: {error}") from error
            return found
        return cls(Folder(path), table)

    @property
    def version(self) -> int:
        return int(self._table.version())

    def refresh(self) -> bool:
        """Look for commits of others; whether there were any. The log may have forgotten the version this one knows."""
        with self._lock:
            before = self.version
            if not self.place.far and not self._log.is_same():
                raise StorageError(
                    f"{self.path} was removed, or is not the store any more that it was; open it again once it is there"
                )
            if self.place.far or self._log.has(before + 1) or not self._log.has(before):
                self._update()
            return self.version != before

    def reload(self) -> None:
        """Read the whole log again, whatever this handle knew."""
        with self._lock:
            try:
                self._table = _read(self.place)
            except DeltaError as error:
                raise StorageError(f"{self.path} cannot be read any more: {error}") from error
            self._known.clear()

    def _update(self) -> None:
        self._known.clear()
        try:
            with _reaching(self.path):
                self._table.update_incremental()
        except DeltaError:
            self.reload()

    def state(self) -> TableState:
        """What the table says, all of it of one version."""
        with self._lock:
            return TableState(self.version, self.step, self.files(), self.key_types(), self.recent)

    def files(self) -> list[FileName]:
        """The active files, by the steps they cover."""
        with self._lock, _reaching(self.path):
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
        columns = Schema.from_arrow(pa.schema(fields)).fields
        with self._lock:
            self._commit(
                lambda properties: self._table.alter.add_columns(
                    columns, commit_properties=properties, post_commithook_properties=AFTERWARDS
                )
            )

    @property
    def step(self) -> int:
        """The number of the open step; steps count from 1."""
        return int(self._transaction(STEP) or 0) + 1

    @property
    def recent(self) -> int | None:
        """The number of the manifest of recent files; None when there never was one."""
        return self._transaction(RECENT_FILES)

    def manifest(self, number: int | None) -> Manifest:
        """The manifest of a number; FileNotFoundError when it is gone, because a newer one counts."""
        held = self._manifest
        if held[0] != number:
            assert number is not None  # the first manifest replaces none
            name = manifest_name(number)
            text = bytes(self.place.mapped(name)).decode(errors="replace")
            held = self._manifest = (number, Manifest.from_json(text, name))
        return held[1]

    def own_manifest(self) -> Manifest:
        """The manifest that counts, as a writer must know it."""
        with self._lock:
            number = self.recent
            try:
                return self.manifest(number)
            except FileNotFoundError as error:
                raise CorruptBytesError(
                    f"{error.filename} is missing: what is recent is not known, and no rows can be added"
                ) from error

    def batch_seen(self, batch: Any) -> bool:
        """Whether a batch was committed; the writer asks."""
        app, number = batch_transaction(batch)
        try:
            seen = self._transaction(app)
        except FileNotFoundError as error:
            if not self._log.has(self.version):
                raise self._fenced() from error
            raise StorageError(str(error)) from error
        return seen is not None and seen >= number

    def _transaction(self, app: str) -> int | None:
        """The last version of a transaction; FileNotFoundError when the log has forgotten what this handle knows."""
        with self._lock:
            if app not in self._known:
                if len(self._known) >= KNOWN:
                    self._known = {name: self._known[name] for name in ALWAYS if name in self._known}
                try:
                    with _reaching(self.path):
                        self._known[app] = self._table.transaction_version(app)
                except DeltaError as error:
                    raise FileNotFoundError(f"{self.path}: version {self.version} cannot be read: {error}") from error
            return self._known[app]

    def take_over(self) -> None:
        """Become the writer: a new epoch, which fences off any other.

        A merge of a handle that was dropped may still commit; then the next try comes after it.
        """
        with self._lock:
            for left in reversed(range(TRIES)):
                self._update()
                self.epoch = int(self._transaction(WRITER) or 0) + 1
                try:
                    return self._add([], [])
                except (WriterConflictError, FileNotFoundError):
                    if not left:
                        raise

    def check_writer(self) -> None:
        """Refuse to go on where another writer has taken over."""
        with self._lock:
            self.refresh()
            if self._transaction(WRITER) != self.epoch:
                raise self._fenced()

    def commit(
        self,
        add: Sequence[tuple[FileName, int, int]] = (),
        remove: Sequence[FileName] = (),
        step: int | None = None,
        batch: Any = None,
        recent: Callable[[Manifest], Manifest] | None = None,
    ) -> list[str]:
        """Add files (name, size, rows) and remove others, end a step, mark a batch, change what is recent: all of it or
        nothing. Names of recent files, and of a manifest, that do not count any more."""
        now = int(time.time() * 1000)
        transactions = [] if step is None else [Transaction(STEP, step)]
        if batch is not None:
            transactions.append(Transaction(*batch_transaction(batch)))
        with self._lock:
            active = set(self.files()) if remove else set()
            if not set(remove) <= active:
                raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
            new = not (add and remove)  # a merge changes no data: who follows the table passes it by
            actions: list[Any] = [
                AddAction(name.data, size, {}, now, new, json.dumps({"numRecords": rows})) for name, size, rows in add
            ]
            actions += [RemoveAction(name.data, new, now, None, {}) for name in remove]
            for name in remove:  # from now on they wait for vacuum
                touch(os.path.join(self.path, name.data), os.path.join(self.path, name.side))
            before, number = self.recent, None
            if recent is not None:
                known = self.own_manifest()
                changed = recent(known)
                if changed != known:
                    number = self._write_manifest(changed)
                    transactions.append(Transaction(RECENT_FILES, number))
            if self.durable and (add or number is not None):
                sync(*(os.path.join(self.path, folder) for folder in (DATA, SIDE, RECENT)))
            self._add(actions, transactions)
            if number is None:
                return []
            self._manifest = (number, changed)
            kept = {entry.name for entry in changed.entries}
            gone = [entry.name for entry in known.entries if entry.name not in kept]
            return gone if before is None else [*gone, manifest_name(before)]

    def _write_manifest(self, manifest: Manifest) -> int:
        self._manifests += 1
        number = self.epoch << 32 | self._manifests
        write_bytes(os.path.join(self.path, manifest_name(number)), manifest.to_json().encode(), self.durable)
        faults.point("recent.manifest")
        return number

    def _add(self, actions: list[Any], transactions: list[Transaction]) -> None:
        self._commit(
            lambda properties: self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                commit_properties=properties,
                post_commithook_properties=AFTERWARDS,
            ),
            transactions,
        )

    def _commit(self, change: Callable[[CommitProperties], None], transactions: Sequence[Transaction] = ()) -> None:
        """One change as the writer. A commit that fails can still have happened: its entry in the log tells.

        An entry is free for one writer only, unless the log was trimmed past it: then what came before is gone too.
        """
        before = self.version
        if self._transaction(WRITER) not in (None, self.epoch, self.epoch - 1):
            raise self._fenced()
        token, entry = uuid4().hex, self._log.entry(before + 1)
        properties = CommitProperties(
            custom_metadata={COMMIT: token},
            app_transactions=[Transaction(WRITER, self.epoch), *transactions],
            max_commit_retries=0,
        )
        try:
            faults.point("commit.before")
            change(properties)
            faults.point("commit.after")
        except (DeltaError, OSError) as error:
            if not self._log.has(before):
                raise self._fenced() from error
            if not os.path.exists(entry):
                raise StorageError(f"{self.path}: the commit failed, nothing was changed: {error}") from error
            with open(entry, encoding="utf-8") as file:
                if token not in file.read():
                    raise self._fenced() from error
            # It is done, and only the checkpoint after it failed: the next one makes up for that.
        if not self._log.has(before):
            remove(entry)
            raise self._fenced()
        known = self._known | {WRITER: self.epoch} | {one.app_id: one.version for one in transactions}
        self._update()
        if self.version == before + 1:  # else another came after it
            self._known = known
        if self.durable:
            self._log.sync(before + 1)

    def _fenced(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self.path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def clear_log(self, hours: float) -> int:
        """Remove what cut off commits left in the log, and what is that old and not needed; how many were left."""
        self._log.trim(self.version - 1, hours)
        with self._lock:  # no commit is under way
            return self._log.clear()

    def clear_recent(self, pending: Container[str], hours: float) -> list[int]:
        """Remove recent files and manifests that do not count, written that long ago; how large each was.

        Those that are `pending` will be committed, those of a later epoch are not ours to judge.
        """
        folder, out = os.path.join(self.path, RECENT), []
        with self._lock:
            number = self.recent
            needed = {entry.name for entry in self.own_manifest().entries}
            needed |= set() if number is None else {manifest_name(number)}
            for entry in sorted(os.scandir(folder), key=lambda e: e.name) if os.path.isdir(folder) else []:
                name = f"{RECENT}/{without_spare(entry.name)}"
                epoch, whole = recent_epoch(name), entry.name == os.path.basename(name)
                ours = epoch is not None and epoch <= self.epoch and name not in pending
                if ours and not (whole and name in needed):
                    with suppress(FileNotFoundError):  # it has its whole name now, or is removed already
                        held = entry.stat()
                        if (not whole or held.st_mtime <= time.time() - hours * 3600) and remove(entry.path):
                            out.append(held.st_size)
        return out

    def trim_log(self) -> None:
        """Let the log forget old versions, if it has not done so for long. Readers that had them look again."""
        if self.version - self._trimmed >= TRIM:
            self._trimmed = self.version
            self._log.trim(self.version - VERSIONS, YOUNG)


def _read(place: Place) -> DeltaTable:
    """The table as it is now. Where its log is trimmed meanwhile, it is read again."""
    with _reaching(place.path):
        for _ in range(TRIES - 1):
            try:
                return DeltaTable(place.path, storage_options=place.options)
            except TableNotFoundError:
                raise
            except DeltaError:
                continue
        return DeltaTable(place.path, storage_options=place.options)


@contextmanager
def _reaching(path: str) -> Iterator[None]:
    """What reads the log in here may find that it cannot be reached."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise out_of_reach(path, error) from error


def batch_transaction(batch: Any) -> tuple[str, int]:
    """A batch as Delta's log remembers it: an id of its own, or the number in a source that counts upwards."""
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], str) and _is_number(batch[1]):
        if not 0 <= batch[1] < 2**63:
            raise InvalidArgumentError(f"the number of a batch counts from 0 to 2**63 - 1, and is not {batch[1]}")
        return f"{SOURCE}{batch[0]}", int(batch[1])
    if isinstance(batch, str) or _is_number(batch):
        return f"{BATCH}{'str' if isinstance(batch, str) else 'int'}:{batch}", 1
    raise InvalidArgumentError(f"batch_id is text, a number, or (source, number), not {batch!r}")


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)
