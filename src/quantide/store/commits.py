"""Commits: the table as its one writer has it, and changes to it, each all at once or not at all."""

import json
import os
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa

from quantide.errors import CorruptBytesError, StorageError, WriterConflictError
from quantide.store import faults
from quantide.store.delta import (
    AddAction,
    CommitProperties,
    DeltaError,
    DeltaTable,
    PostCommitHookProperties,
    RemoveAction,
    Schema,
    Transaction,
)
from quantide.store.disk import remove, sync, touch, write_bytes
from quantide.store.manifest import Manifest
from quantide.store.names import DATA, RECENT, SIDE, File, FileName, manifest_name, recent_epoch, without_spare
from quantide.store.place import Place
from quantide.store.table import TRIES, StreamTable
from quantide.store.transactions import RECENT_FILES, STEP, WRITER, batch_transaction

COMMIT = "quantide.commit"  # where an entry of the log has the token of its commit
VERSIONS = 200  # that the log keeps: every commit costs more the more there are
YOUNG = 0.01  # hours that they are kept in any case: somebody may be opening the table
TRIM = 100  # commits from one trimming of the log to the next
AFTERWARDS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)

Change = Callable[[Manifest], Manifest]  # of what is recent


class WritableTable(StreamTable):
    """A store's table that can be changed, once take_over() has made this its one writer."""

    def __init__(self, place: Place, table: DeltaTable) -> None:
        super().__init__(place, table)
        self.epoch = 0  # of this writer; 0 while it is none
        self.durable = False  # whether a commit must outlast a loss of power
        self._manifests = 0  # written by this writer
        self._trimmed = 0  # the version at which the log was trimmed last

    def own_manifest(self) -> Manifest:
        """The manifest that counts, as a writer must know it."""
        with self._lock:
            number = self.recent
            try:
                return self.manifest(number)
            except FileNotFoundError as error:
                raise CorruptBytesError(
                    f"{error.filename} is missing: what is recent is not known, and no rows can be added; restore it "
                    "from a copy, or build a new store out of the table (quantide history build)"
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

    def take_over(self) -> None:
        """Become the writer: a new epoch, which fences off any other.

        A merge of a handle that was dropped may still commit; then the next try comes after it.
        """
        with self._lock:
            for left in reversed(range(TRIES)):
                try:
                    self._update()
                    self.epoch = int(self._transaction(WRITER) or 0) + 1
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
        add: Sequence[File] = (),
        remove: Sequence[FileName] = (),
        step: int | None = None,
        batch: Any = None,
        recent: Change | None = None,
    ) -> list[str]:
        """Add files (name, size, rows) and remove others, end a step, mark a batch, change what is recent: all of it or
        nothing. Names of recent files, and of a manifest, that do not count any more."""
        transactions = [] if step is None else [Transaction(STEP, step)]
        if batch is not None:
            transactions.append(Transaction(*batch_transaction(batch)))
        with self._lock:
            actions = self._actions(add, remove)
            known = Manifest() if recent is None else self.own_manifest()
            changed = known if recent is None else recent(known)
            before, number = self.recent, None if changed == known else self._write_manifest(changed)
            if number is not None:
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

    def _actions(self, add: Sequence[File], remove: Sequence[FileName]) -> list[Any]:
        if remove and not set(remove) <= set(self.files()):
            raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
        for name in remove:  # from now on they wait for vacuum
            touch(os.path.join(self.path, name.data), os.path.join(self.path, name.side))
        now, new = int(time.time() * 1000), not (add and remove)  # a merge adds nothing for those who follow the table
        added = [AddAction(name.data, size, {}, now, new, json.dumps({"numRecords": rows})) for name, size, rows in add]
        return [*added, *(RemoveAction(name.data, new, now, None, {}) for name in remove)]

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
