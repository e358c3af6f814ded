"""Commits: the table as its one writer has it, and changes to it, each all at once or not at all."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

import pyarrow as pa

from quantide.errors import (
    CommitUncertainError,
    CorruptBytesError,
    StorageError,
    WriterConflictError,
)
from quantide.store import faults
from quantide.store.delta import DeltaError, DeltaTable, Schema
from quantide.store.disk import remove, sync, sync_filesystem, touch, write_bytes
from quantide.store.entry import COMMIT, MANIFEST, Action, LogEntry
from quantide.store.file_clock import FileClock
from quantide.store.links import PREFIX, LinkedLog
from quantide.store.log_repair import Finding, LogRepair
from quantide.store.log_writer import CHECKPOINT, LogWriter
from quantide.store.manifest import Manifest
from quantide.store.names import (
    DATA,
    QUARANTINE,
    RECENT,
    SIDE,
    File,
    FileName,
    data_epoch,
    manifest_name,
    recent_epoch,
    without_spare,
)
from quantide.store.place import Place
from quantide.store.settings import PROPERTY, Settings
from quantide.store.survey import survey_log
from quantide.store.table import TRIES, StreamTable
from quantide.store.transactions import HELD_FROM, HELD_UNTIL, RECENT_FILES, STEP, WRITER, batch_transaction

LOST = 1000  # take-overs that can have been lost with the log
COPIED = 1 << 14  # bytes of a manifest that a commit has a copy of in the log
VERSIONS = 200  # that the log keeps: every commit costs more the more there are
YOUNG = 0.01  # hours that they are kept in any case: somebody may be opening the table
TRIM = 100  # commits from one trimming of the log to the next
_IDENTITY = re.compile(rf"{re.escape(COMMIT)}:(\d{{1,18}}):([0-9a-f]{{32}})")

Change = Callable[[Manifest], Manifest]  # of what is recent


class WritableTable(StreamTable):
    """A store's table that can be changed, once take_over() has made this its one writer."""

    def __init__(self, place: Place, table: DeltaTable, links: LinkedLog | None = None) -> None:
        super().__init__(place, table, links)
        self.epoch = self._epoch_before = 0  # of this writer, and of the one before; 0 while it is none
        self.log_writer = LogWriter(self.path, self.log)
        self.behind = False  # a commit is in the log that this handle could not read yet
        self.repaired: list[Finding] = []  # by take_over()
        self._manifests = 0  # written by this writer
        self._trimmed = 0  # the version at which the log was trimmed last
        self._file_clock = FileClock(self.log.modified(self.version))

    def _current(self) -> DeltaTable:
        """The table's handle, with all commits of this writer; StorageError while the log cannot be read."""
        if self.behind:
            with self._lock:
                if self.behind:
                    self.log_writer.sync()
                    self._update()
                    self.behind = False
        return self._table

    @property
    def durable(self) -> bool:
        """Whether a commit must outlast a loss of power."""
        return self.log_writer.durable

    @durable.setter
    def durable(self, durable: bool) -> None:
        self.log_writer.durable = durable

    def own_manifest(self) -> Manifest:
        """The manifest that counts, as a writer must know it."""
        with self._lock:
            number = self.recent
            try:
                return self.manifest(number)
            except (FileNotFoundError, CorruptBytesError) as error:
                assert number is not None
                raise CorruptBytesError(
                    f"{self.path}: {manifest_name(number)}, the manifest of recent files, is missing or damaged: no "
                    f"rows can be added. Run `quantide history repair {self.path}`"
                ) from error

    def batch_seen(self, batch: Any) -> bool:
        """Whether a batch was committed; the writer asks. The id may be that of a CommitUncertainError."""
        app, number = batch_transaction(batch)
        try:
            seen = self._transaction(app)
            if seen is not None and seen >= number:
                return True
            found = _IDENTITY.fullmatch(batch) if isinstance(batch, str) else None
            return found is not None and self._has_commit(int(found[1]), found[2])
        except FileNotFoundError as error:
            if not self.log.has(self.version):
                raise self.log_writer.fenced() from error
            raise StorageError(str(error)) from error

    def _has_commit(self, version: int, token: str) -> bool:
        """Return True if the log has a commit of this token, which can only be at one version."""
        if version <= self.version and not self.log.has(version):
            raise StorageError(
                f"{self.path}: the log was trimmed past version {version}, and no longer tells whether this batch was "
                "committed then. Compare the number of values, and append without batch_id if it is missing"
            )
        return self.log.token(version) == token

    def add_keys(self, types: Sequence[pa.DataType]) -> None:
        """Give the table its key columns."""
        fields = [pa.field(name, kind) for name, kind in zip(self.settings.keys, types, strict=True)]
        columns = Schema.from_arrow(pa.schema(fields)).fields
        self._alter(lambda table: table.alter.add_columns(columns), "ADD COLUMN", f"keys of {types} cannot be added")

    def change_settings(self, settings: Settings) -> None:
        """Store other settings with the table."""
        with self._lock:
            if settings != self.settings:
                properties = {PROPERTY: settings.to_json()}
                self._alter(
                    lambda table: table.alter.set_table_properties(properties, raise_if_not_exists=False),
                    "SET TBLPROPERTIES",
                    "the settings cannot be changed",
                )

    def _alter(self, change: Callable[[DeltaTable], None], operation: str, failure: str) -> None:
        """Change the metadata of the table. Delta's library makes the actions, in a log of links."""
        with self._lock:
            try:
                with closing(self.log_writer.link(self.version)) as links:
                    change(links.open())
                    actions = LogEntry.read(links.log.read(links.version + 1)).changes
            except (DeltaError, OSError) as error:
                raise StorageError(f"{self.path}: {failure}: {error}") from error
            with _certain("None of the rows was added; repeat the call"):
                self._commit(actions, operation=operation)

    def take_over(self) -> None:
        """Become the writer: a new epoch, which fences off any other. What a loss of power left is mended before.

        A merge of a handle that was dropped may still commit; then the next try comes after it.
        """
        with self._lock:
            self.repaired = []
            for left in reversed(range(TRIES)):
                try:
                    self._repair_log()
                    if self.durable:  # commits rest on all that was written before
                        sync_filesystem(self.path)
                    self._update()
                    self._epoch_before, _ = int(self._transaction(WRITER) or 0), self.held  # known from now on
                    self.epoch = self._unused_epoch(self._epoch_before)
                    with _certain("Nothing was added; repeat the call"):
                        self._commit([])
                    break
                except (WriterConflictError, FileNotFoundError):
                    if not left:
                        raise
            if any(finding.kind == "checkpoint" for finding in self.repaired):
                self.log_writer.write_checkpoint(self.version, self._table)
            self._restore_manifest()

    def _unused_epoch(self, before: int) -> int:
        """The next epoch. After a repair, names on disk may have those of take-overs that were lost with the log."""
        if not self.repaired:
            return before + 1
        folders = {DATA: data_epoch, RECENT: recent_epoch}
        found = [
            read(f"{folder}/{name}")
            for folder, read in folders.items()
            if os.path.isdir(os.path.join(self.path, folder))
            for name in os.listdir(os.path.join(self.path, folder))
        ]
        near = [epoch for epoch in found if epoch is not None and before < epoch <= before + LOST]
        return max(near, default=before) + 1

    def _repair_log(self) -> None:
        """Set aside what is torn after the newest version; refuse where whole commits come after that."""
        survey = survey_log(self.log.folder, deep=True)
        if survey.stranded:
            raise CorruptBytesError(
                f"{self.path}: an entry of its log before version {survey.stranded[0]} is damaged or missing. Restore "
                f"_delta_log from a copy, or run `quantide history repair {self.path}`"
            )
        if not survey.is_clean:
            self.repaired += LogRepair(self.path, survey, set(self.files()), self.step, self.durable).run()
            self.reload()

    def _restore_manifest(self) -> None:
        """Write a manifest again that is lost, where the log has a copy."""
        number = self.recent
        if number is None:
            return
        try:
            self.read_manifest(number)
        except (FileNotFoundError, CorruptBytesError) as error:
            copy = self.manifest_copy(number)
            if copy is None:
                return  # own_manifest() says what to do
            name = manifest_name(number)
            write_bytes(os.path.join(self.path, name), copy.to_json().encode(), self.durable)
            why = "was missing" if isinstance(error, FileNotFoundError) else "was damaged"
            self.repaired.append(Finding("manifest", name, why, "it is written again from its copy in the log"))

    def replace_manifest(self, manifest: Manifest) -> None:
        """Let a manifest count in the place of one that is lost."""
        with self._lock:
            number = self._write_manifest(manifest)
            if self.durable:
                self._sync_files()
            self._commit([], {RECENT_FILES: number}, fields=_copy(manifest))
            self._manifest = (number, manifest)

    def check_writer(self) -> None:
        """Refuse to go on where another writer has taken over."""
        with self._lock:
            self.refresh()
            if self._transaction(WRITER) != self.epoch:
                raise self.log_writer.fenced()

    def commit(
        self,
        add: Sequence[File] = (),
        remove: Sequence[FileName] = (),
        step: int | None = None,
        batch: Any = None,
        recent: Change | None = None,
        held: range | None = None,
    ) -> list[str]:
        """Add files (name, size, rows) and remove others, end a step, mark a batch, change what is recent: all of it or
        nothing. Names of recent files, and of a manifest, that do not count any more."""
        transactions = {} if step is None else {STEP: step}
        if batch is not None:
            transactions |= dict([batch_transaction(batch)])
        if held is not None:
            transactions |= {HELD_FROM: held.start, HELD_UNTIL: held.stop}
        with self._lock:
            actions = self._actions(add, remove)
            known = Manifest() if recent is None else self.own_manifest()
            changed = known if recent is None else recent(known)
            before, number = self.recent, None if changed == known else self._write_manifest(changed)
            if number is not None:
                transactions[RECENT_FILES] = number
            if self.durable and (add or number is not None):
                self._sync_files()
            fields = {} if number is None else _copy(changed)
            adds = step is not None or batch is not None or (add and not remove)
            with nullcontext() if adds else _certain("All rows are there, merged or not"):
                self._commit(actions, transactions, batch, fields)
            if number is None:
                return []
            self._manifest = (number, changed)
            kept = {entry.name for entry in changed.entries}
            gone = [entry.name for entry in known.entries if entry.name not in kept]
            return gone if before is None else [*gone, manifest_name(before)]

    def _sync_files(self) -> None:
        """Sync the names of new files; tasks of other machines may have made the folders themselves."""
        folders = (DATA, SIDE, RECENT, QUARANTINE, "_quantide", "")
        sync(*(os.path.join(self.path, folder) for folder in folders))

    def _actions(self, add: Sequence[File], remove: Sequence[FileName]) -> list[Action]:
        if remove and not set(remove) <= set(self.files()):
            raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
        for name in remove:  # from now on they wait for vacuum
            touch(os.path.join(self.path, name.data), os.path.join(self.path, name.side))
        now, new = int(time.time() * 1000), not (add and remove)  # a merge adds nothing for those who follow the table
        added = [
            {"path": name.data, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": new}
            | {"stats": json.dumps({"numRecords": rows})}
            for name, size, rows in add
        ]
        removed = [
            {"path": name.data, "deletionTimestamp": now, "dataChange": new, "partitionValues": {}} for name in remove
        ]
        return [*({"add": one} for one in added), *({"remove": one} for one in removed)]

    def _write_manifest(self, manifest: Manifest) -> int:
        self._manifests += 1
        number = self.epoch << 32 | self._manifests
        write_bytes(os.path.join(self.path, manifest_name(number)), manifest.to_json().encode(), self.durable)
        faults.point("recent.manifest")
        return number

    def _commit(
        self,
        actions: Sequence[Action],
        transactions: Mapping[str, int] | None = None,
        batch: Any = None,
        fields: Mapping[str, str] | None = None,
        operation: str = "WRITE",
    ) -> None:
        """One change as the writer."""
        before = self.version
        if self._transaction(WRITER) not in (None, self.epoch, self._epoch_before):
            raise self.log_writer.fenced()
        numbers = {WRITER: self.epoch, **(transactions or {})}
        lines = [*actions, *({"txn": {"appId": app, "version": number}} for app, number in numbers.items())]
        known = self._known | numbers
        try:
            self.log_writer.put(before + 1, operation, fields or {}, lines, batch)
        except CommitUncertainError:
            self.behind = True
            raise
        self._follow(before + 1, known)

    def _follow(self, version: int, known: dict[str, int | None]) -> None:
        """Read a commit that is in the log. Where that fails the handle does so later, before anything else."""
        try:
            self._update()
        except (OSError, DeltaError, CorruptBytesError):
            self.behind = True
            return
        if self._table.version() == version:  # else another came after it
            self._known = known
        if (version + 1) % CHECKPOINT == 0:
            self.log_writer.write_checkpoint(version, self._table)

    def file_time(self) -> float:
        """The time that files are compared with to know how old they are; a clock that runs ahead makes none older."""
        return self._file_clock.now()

    def clear_log(self, hours: float) -> int:
        """Remove what cut off commits left in the log, and what is that old and not needed; how many were left."""
        self.log.trim(self.version - 1, hours, self.file_time())
        with self._lock:  # no commit is under way
            folder = os.path.join(self.path, "_quantide")
            for name in os.listdir(folder):
                if name.startswith(PREFIX):
                    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
            return self.log.clear()

    def clear_recent(self, pending: Container[str], hours: float) -> list[int]:
        """Remove recent files and manifests that do not count, written that long ago; how large each was.

        Those that are `pending` will be committed, those of a later epoch are not ours to judge.
        """
        folder, out, latest = os.path.join(self.path, RECENT), [], self.file_time() - hours * 3600
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
                        held = entry.stat(follow_symlinks=False)
                        if (not whole or not hours or held.st_mtime <= latest) and remove(entry.path):
                            out.append(held.st_size)
        return out

    def trim_log(self) -> None:
        """Let the log forget old versions, if it has not done so for long. Readers that had them look again."""
        if self.version - self._trimmed >= TRIM:
            self._trimmed = self.version
            self.log.trim(self.version - VERSIONS, YOUNG, self.file_time())


@contextmanager
def _certain(outcome: str) -> Iterator[None]:
    """Commit what changes no rows: it does not matter to a caller whether that happened."""
    try:
        yield
    except CommitUncertainError as error:
        raise StorageError(f"{error.reason}. {outcome}") from error


def _copy(manifest: Manifest) -> dict[str, str]:
    """The field of an entry that has a copy of a manifest; none where that is large."""
    text = manifest.to_json()
    return {MANIFEST: text} if len(text) <= COPIED else {}
