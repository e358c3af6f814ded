"""Table of a store as its one writer uses it, with atomic commits."""

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from quantide.errors import CommitUncertainError, CorruptBytesError, StorageError, WriterConflictError
from quantide.store import fault_points
from quantide.store.delta_library import DeltaError, DeltaTable, Schema, is_loadable, is_readable
from quantide.store.delta_log import CHECKPOINT_INTERVAL, LinkedLog, LogRetention, LogWriter, survey_log
from quantide.store.durable_files import sync, sync_filesystem, touch, write_bytes
from quantide.store.file_clock import FileClock
from quantide.store.file_names import DATA, INDEXES, QUARANTINE, RECENT, AddedFile, FileName, manifest_name
from quantide.store.location import Location, translate_log_errors
from quantide.store.log_entry import (
    COMMIT,
    EXTENDED_FROM,
    EXTENDED_UNTIL,
    MANIFEST,
    RECENT_FILES,
    STEP,
    WRITER,
    Action,
    LogEntry,
    batch_transaction,
    file_actions,
    transaction_actions,
)
from quantide.store.log_repair import LogFinding, LogRepair
from quantide.store.recent_manifest import RecentManifest, remove_stale_files
from quantide.store.store_settings import PROPERTY, StoreSettings
from quantide.store.stream_table import ATTEMPTS, StreamTable
from quantide.store.writer_lease import unused_epoch

MAX_COPY_BYTES = 1 << 14  # of a manifest that is copied into the log
_IDENTITY = re.compile(rf"{re.escape(COMMIT)}:(\d{{1,18}}):([0-9a-f]{{32}})")

ManifestChange = Callable[[RecentManifest], RecentManifest]


class WritableTable(StreamTable):
    """Table that can be changed once take_over() has made this handle its one writer."""

    def __init__(self, location: Location, table: DeltaTable, links: LinkedLog | None = None) -> None:
        super().__init__(location, table, links)
        self.epoch = self._epoch_before = 0  # of this writer and of its predecessor; 0 before take_over()
        self.log_writer = LogWriter(self.path, self.log)
        self.is_behind = False  # True if the log has a commit that this handle could not read yet
        self.repairs: list[LogFinding] = []  # of take_over()
        self._manifests = 0  # number of manifests written by this writer
        self._log_retention = LogRetention(self.path, self.log)
        self._file_clock = FileClock(self.log.entry_time(self.version))

    def _current(self) -> DeltaTable:
        """Return the Delta table with all commits of this writer; raise StorageError while the log cannot be read."""
        if self.is_behind:
            with self._lock:
                if self.is_behind:
                    self.log_writer.sync()
                    self._update()
                    self.is_behind = False
        return self._table

    @property
    def durable(self) -> bool:
        """True if a commit must survive a power loss."""
        return self.log_writer.durable

    @durable.setter
    def durable(self, durable: bool) -> None:
        self.log_writer.durable = durable

    def current_manifest(self) -> RecentManifest:
        """Return the current manifest; raise CorruptBytesError if it is missing or damaged."""
        with self._lock:
            number = self.manifest_number
            try:
                return self.load_manifest(number)
            except (FileNotFoundError, CorruptBytesError) as error:
                assert number is not None
                raise CorruptBytesError(
                    f"{self.path}: {manifest_name(number)}, the manifest of recent files, is missing or damaged: no "
                    f"rows can be added. Run `quantide history repair {self.path}`"
                ) from error

    def batch_seen(self, batch: Any) -> bool:
        """Return True if a batch was committed. The id may be that of a CommitUncertainError."""
        app, number = batch_transaction(batch)
        try:
            committed = self._transaction(app)
            if committed is not None and committed >= number:
                return True
            match = _IDENTITY.fullmatch(batch) if isinstance(batch, str) else None
            return match is not None and self._has_commit(int(match[1]), match[2])
        except FileNotFoundError as error:
            if not self.log.has_version(self.version):
                raise self.log_writer.fenced_error() from error
            raise StorageError(str(error)) from error

    def _has_commit(self, version: int, token: str) -> bool:
        """Return True if the log has a commit with this token at this version."""
        if version <= self.version and not self.log.has_version(version):
            raise StorageError(
                f"{self.path}: the log was trimmed past version {version}, and no longer tells whether this batch was "
                "committed then. Compare the number of values, and append without batch_id if it is missing"
            )
        return self.log.read_token(version) == token

    def add_keys(self, types: Sequence[pa.DataType]) -> None:
        """Give the table its key columns."""
        fields = [pa.field(name, kind) for name, kind in zip(self.settings.keys, types, strict=True)]
        columns = Schema.from_arrow(pa.schema(fields)).fields
        self._alter(lambda table: table.alter.add_columns(columns), "ADD COLUMN", f"keys of {types} cannot be added")

    def change_settings(self, settings: StoreSettings) -> None:
        """Commit changed settings."""
        with self._lock:
            if settings != self.settings:
                properties = {PROPERTY: settings.to_json()}
                self._alter(
                    lambda table: table.alter.set_table_properties(properties, raise_if_not_exists=False),
                    "SET TBLPROPERTIES",
                    "the settings cannot be changed",
                )

    def _alter(self, change: Callable[[DeltaTable], None], operation: str, failure: str) -> None:
        """Change the metadata of the table. Delta's library creates the actions in a linked log."""
        with self._lock:
            try:
                with closing(self.log_writer.link(self.version)) as links:
                    change(links.open().table)
                    actions = LogEntry.read(links.log.read_entry(links.version + 1)).changes
            except (DeltaError, OSError) as error:
                raise StorageError(f"{self.path}: {failure}: {error}") from error
            with _translate_uncertainty("None of the rows was added; repeat the call"):
                self._commit(actions, operation=operation)

    def take_over(self) -> None:
        """Become the writer: repair the log, then commit a new epoch, which fences off any other writer.

        A merge of a dropped handle may still commit at the same time; then the next attempt follows it.
        """
        with self._lock, translate_log_errors(self.path, "nothing was written"):
            self.repairs = []
            for attempts_left in reversed(range(ATTEMPTS)):
                try:
                    self._repair_log()
                    if self.durable:  # commits rely on all earlier writes
                        sync_filesystem(self.path)
                    self._update()
                    self._epoch_before = int(self._transaction(WRITER) or 0)
                    _ = self.extended_steps  # caches its transactions
                    self.epoch = unused_epoch(self.path, self._epoch_before) if self.repairs else self._epoch_before + 1
                    with _translate_uncertainty("Nothing was added; repeat the call"):
                        self._commit([])
                    break
                except (WriterConflictError, FileNotFoundError):
                    if not attempts_left:
                        raise
            if any(finding.kind == "checkpoint" for finding in self.repairs):
                self.log_writer.write_checkpoint(self.version, self._table)
            self._restore_manifest()

    def _repair_log(self) -> None:
        """Set aside torn entries after the newest version; refuse if whole entries come after them."""
        check = is_readable if self._links is None else is_loadable  # without links, this handle has loaded it
        survey = survey_log(self.log.folder, check)
        if survey.stranded:
            raise CorruptBytesError(
                f"{self.path}: an entry of its log before version {survey.stranded[0]} is damaged or missing. Restore "
                f"_delta_log from a copy, or run `quantide history repair {self.path}`"
            )
        if not survey.is_clean:
            self.repairs += LogRepair(self.path, survey, set(self.files()), self.step, self.durable).run()
            self.reload()

    def _restore_manifest(self) -> None:
        """Write a missing or damaged manifest again if the log has a copy."""
        number = self.manifest_number
        if number is None:
            return
        try:
            self.read_manifest(number)
        except (FileNotFoundError, CorruptBytesError) as error:
            copy = self.find_manifest_copy(number)
            if copy is None:
                return  # current_manifest() raises an error with the remedy
            name = manifest_name(number)
            write_bytes(os.path.join(self.path, name), copy.to_json().encode(), self.durable)
            problem = "was missing" if isinstance(error, FileNotFoundError) else "was damaged"
            self.repairs.append(LogFinding("manifest", name, problem, "it is written again from its copy in the log"))

    def replace_manifest(self, manifest: RecentManifest) -> None:
        """Commit a manifest in place of a lost one."""
        with self._lock:
            number = self._write_manifest(manifest)
            if self.durable:
                self._sync_files()
            self._commit([], {RECENT_FILES: number}, fields=_manifest_field(manifest))
            self._manifest = (number, manifest)

    def check_writer(self) -> None:
        """Raise WriterConflictError if another writer has taken over."""
        with self._lock, translate_log_errors(self.path, "nothing was changed"):
            self.refresh()
            if self._transaction(WRITER) != self.epoch:
                raise self.log_writer.fenced_error()

    def commit(
        self,
        add: Sequence[AddedFile] = (),
        remove: Sequence[FileName] = (),
        step: int | None = None,
        batch: Any = None,
        change_manifest: ManifestChange | None = None,
        extended: range | None = None,
    ) -> list[str]:
        """Add and remove files, end a step, record a batch, change the manifest: atomically.

        Return the names of recent files and of a manifest that this commit made obsolete.
        """
        transactions = {} if step is None else {STEP: step}
        if batch is not None:
            transactions |= dict([batch_transaction(batch)])
        if extended is not None:
            transactions |= {EXTENDED_FROM: extended.start, EXTENDED_UNTIL: extended.stop}
        with self._lock:
            actions = self._actions(add, remove)
            current = RecentManifest() if change_manifest is None else self.current_manifest()
            changed = current if change_manifest is None else change_manifest(current)
            before, number = self.manifest_number, None if changed == current else self._write_manifest(changed)
            if number is not None:
                transactions[RECENT_FILES] = number
            if self.durable and (add or number is not None):
                self._sync_files()
            fields = {} if number is None else _manifest_field(changed)
            adds_rows = step is not None or batch is not None or (add and not remove)
            with nullcontext() if adds_rows else _translate_uncertainty("All rows are there, merged or not"):
                self._commit(actions, transactions, batch, fields)
            if number is None:
                return []
            self._manifest = (number, changed)
            remaining = {entry.name for entry in changed.entries}
            obsolete = [entry.name for entry in current.entries if entry.name not in remaining]
            return obsolete if before is None else [*obsolete, manifest_name(before)]

    def _sync_files(self) -> None:
        """Sync all folders that can have new files; tasks on other machines may have created the folders."""
        folders = (DATA, INDEXES, RECENT, QUARANTINE, "_quantide", "")
        sync(*(os.path.join(self.path, folder) for folder in folders))

    def _actions(self, add: Sequence[AddedFile], remove: Sequence[FileName]) -> list[Action]:
        if remove and not set(remove) <= set(self.files()):
            raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
        for name in remove:  # vacuum counts their age from now
            touch(os.path.join(self.path, name.data), os.path.join(self.path, name.index))
        return file_actions(add, remove)

    def _write_manifest(self, manifest: RecentManifest) -> int:
        self._manifests += 1
        number = self.epoch << 32 | self._manifests
        write_bytes(os.path.join(self.path, manifest_name(number)), manifest.to_json().encode(), self.durable)
        fault_points.point("recent.manifest")
        return number

    def _commit(
        self,
        actions: Sequence[Action],
        transactions: Mapping[str, int] | None = None,
        batch: Any = None,
        fields: Mapping[str, str] | None = None,
        operation: str = "WRITE",
    ) -> None:
        """Commit as the writer; raise WriterConflictError if another one has taken over."""
        before = self.version
        if self._transaction(WRITER) not in (None, self.epoch, self._epoch_before):
            raise self.log_writer.fenced_error()
        numbers = {WRITER: self.epoch, **(transactions or {})}
        all_actions = [*actions, *transaction_actions(numbers)]
        cached = self._transactions | numbers
        try:
            self.log_writer.write_entry(before + 1, operation, fields or {}, all_actions, batch)
        except CommitUncertainError:
            self.is_behind = True
            raise
        self._load_commit(before + 1, cached)

    def _load_commit(self, version: int, transactions: dict[str, int | None]) -> None:
        """Update to a commit that is in the log. If that fails, the next use of the table does it first."""
        try:
            self._update()
        except (OSError, DeltaError, CorruptBytesError):
            self.is_behind = True
            return
        if self._table.version() == version:  # else another commit followed
            self._transactions = transactions
        if (version + 1) % CHECKPOINT_INTERVAL == 0:
            self.log_writer.write_checkpoint(version, self._table)

    def file_time(self) -> float:
        """Return the current time for ages of files; a wall clock that runs ahead makes none older."""
        return self._file_clock.now()

    def clear_log(self, hours: float) -> int:
        """Remove versions that are old enough and remains of interrupted commits; return the number of the latter."""
        self.log.trim(self.version - 1, hours, self.file_time())
        with self._lock:  # no commit is running
            return self._log_retention.clear()

    def clear_recent(self, pending: Container[str], hours: float) -> list[int]:
        """Remove obsolete recent files and manifests of at least that age; return their sizes.

        Files in `pending` are about to be committed; files of a later epoch belong to another writer.
        """
        latest = self.file_time() - hours * 3600 if hours else None
        with self._lock:
            number = self.manifest_number
            needed = {entry.name for entry in self.current_manifest().entries}
            needed |= set() if number is None else {manifest_name(number)}
            return remove_stale_files(self.path, needed, pending, self.epoch, latest)

    def trim_log(self) -> None:
        """Remove old versions from the log now and then. Readers of such a version reload."""
        self._log_retention.trim(self.version, self.file_time())


@contextmanager
def _translate_uncertainty(outcome: str) -> Iterator[None]:
    """Translate CommitUncertainError of a commit that adds no rows: its outcome does not matter to the caller."""
    try:
        yield
    except CommitUncertainError as error:
        raise StorageError(f"{error.reason}. {outcome}") from error


def _manifest_field(manifest: RecentManifest) -> dict[str, str]:
    """Return the field of an entry with a copy of a manifest; empty if the manifest is large."""
    text = manifest.to_json()
    return {MANIFEST: text} if len(text) <= MAX_COPY_BYTES else {}
