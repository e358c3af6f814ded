"""Table of a store as its one writer uses it, with atomic commits."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from quantide.errors import CommitUncertainError, CorruptBytesError, StorageError, WriterConflictError
from quantide.store import fault_points
from quantide.store.checkpoint_file import is_loadable, table_actions
from quantide.store.delta_log import MIN_AGE_SECONDS, LogWriter, survey_log
from quantide.store.file_clock import FileClock
from quantide.store.file_names import DATA, INDEXES, LOG, QUARANTINE, RECENT, AddedFile, FileName, manifest_name
from quantide.store.location import translate_log_errors
from quantide.store.log_entry import (
    COMMIT,
    DELETED_BEFORE,
    DELETES,
    EXTENDED_FROM,
    EXTENDED_UNTIL,
    MANIFEST,
    PARENT,
    RECENT_FILES,
    STEP,
    UNLISTED,
    WRITER,
    Action,
    batch_transaction,
    file_actions,
    transaction_actions,
)
from quantide.store.log_maintenance import LogMaintenance
from quantide.store.log_repair import LogFinding, LogRepair
from quantide.store.log_state import LogState
from quantide.store.recent_manifest import RecentManifest, remove_stale_files
from quantide.store.storage import Storage
from quantide.store.store_settings import PROPERTY, StoreSettings
from quantide.store.stream_table import ATTEMPTS, StreamTable
from quantide.store.writer_lease import unused_epoch

MAX_COPY_BYTES = 1 << 14  # of a manifest that is copied into the log
_IDENTITY = re.compile(rf"{re.escape(COMMIT)}:(\d{{1,18}}):([0-9a-f]{{32}})")

ManifestChange = Callable[[RecentManifest], RecentManifest]


class WritableTable(StreamTable):
    """Table that can be changed once take_over() has made this handle its one writer."""

    KEEPS_BATCHES = True

    def __init__(self, storage: Storage, state: LogState) -> None:
        super().__init__(storage, state)
        self.epoch = self._epoch_before = 0  # of this writer and of its predecessor; 0 before take_over()
        self.log_writer = LogWriter(self.log)
        self.is_behind = False  # True if the log has a commit that this handle could not read yet
        self.repairs: list[LogFinding] = []  # of take_over()
        self._manifests = 0  # number of manifests written by this writer
        self._file_clock = FileClock(self.log.entry_time(self.version))
        self.maintenance = LogMaintenance(self.log, self.version, self.file_time)

    def _current(self) -> LogState:
        """Return the state with all commits of this writer; raise StorageError while the log cannot be read."""
        if self.is_behind:
            with self._lock:
                if self.is_behind:
                    self.log_writer.settle()
                    self.log_writer.sync()
                    self._update()
                    self.is_behind = False
        return self._state

    @property
    def durable(self) -> bool:
        """True if a commit must survive a power loss."""
        return self.storage.durable

    @durable.setter
    def durable(self, durable: bool) -> None:
        self.storage.durable = durable

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
        committed = self._transaction(app)
        if committed is not None and committed >= number:
            return True
        match = _IDENTITY.fullmatch(batch) if isinstance(batch, str) else None
        return match is not None and self._has_commit(int(match[1]), match[2])

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
        with self._lock:
            fields = [pa.field(name, kind) for name, kind in zip(self.settings.keys, types, strict=True)]
            try:
                actions = table_actions(pa.schema([*self.schema, *fields]), {})
            except Exception as error:  # Delta's library raises several
                raise StorageError(f"{self.path}: keys of {types} cannot be added: {error}") from error
            [schema] = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
            protocol = [action for action in actions if "protocol" in action]  # some types need a newer one
            self._change_metadata({"schemaString": schema}, "ADD COLUMN", protocol)

    def change_settings(self, settings: StoreSettings) -> None:
        """Commit changed settings."""
        with self._lock:
            if settings != self.settings:
                configuration = self._current().metadata["configuration"] | {PROPERTY: settings.to_json()}
                self._change_metadata({"configuration": configuration}, "SET TBLPROPERTIES")

    def _change_metadata(self, changes: Mapping[str, Any], operation: str, more: Sequence[Action] = ()) -> None:
        metadata = {**self._current().metadata, **changes}
        with _translate_uncertainty("None of the rows was added; repeat the call"):
            self._commit([*more, {"metaData": metadata}], operation=operation)

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
                        self.storage.sync_all()
                    self._update()
                    before = self._epoch_before = int(self._transaction(WRITER) or 0)
                    self.epoch = unused_epoch(self.storage, before) if self.repairs else before + 1
                    with _translate_uncertainty("Nothing was added; repeat the call"):
                        self._commit([])
                    break
                except (WriterConflictError, FileNotFoundError):
                    if not attempts_left:
                        raise
            if any(finding.kind == "checkpoint" for finding in self.repairs):
                self.maintenance.write_checkpoint(self.version)
            self._restore_manifest()

    def _repair_log(self) -> None:
        """Set aside torn entries after the newest version; refuse if whole entries come after them."""
        survey = survey_log(self.storage, is_loadable)
        if survey.stranded:
            raise CorruptBytesError(
                f"{self.path}: an entry of its log before version {survey.stranded[0]} is damaged or missing. Restore "
                f"_delta_log from a copy, or run `quantide history repair {self.path}`"
            )
        if not survey.is_clean:
            self.repairs += LogRepair(self.storage, survey, set(self.files()), self.step).run()
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
            self.storage.replace(name, copy.to_json().encode())
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
        first_step: int | None = None,
        unlisted: int = 0,
    ) -> list[str]:
        """Add and remove files, end a step, record a batch, change the manifest: atomically.

        With `first_step` the commit deletes rows, and all of the steps before it; `unlisted` rows leave the windows,
        but not the table. Return the names of recent files and
        of a manifest that this commit made obsolete.
        """
        transactions = {} if step is None else {STEP: step}
        if batch is not None:
            transactions |= dict([batch_transaction(batch)])
        if extended is not None:
            transactions |= {EXTENDED_FROM: extended.start, EXTENDED_UNTIL: extended.stop}
        with self._lock:
            if unlisted:
                transactions[UNLISTED] = self.unlisted + unlisted
            if first_step is not None:
                transactions |= {DELETES: self.deletes + 1, DELETED_BEFORE: max(first_step, self.first_step)}
            actions = self._actions(add, remove, first_step is not None)
            current = RecentManifest() if change_manifest is None else self.current_manifest()
            changed = current if change_manifest is None else change_manifest(current)
            before, number = self.manifest_number, None if changed == current else self._write_manifest(changed)
            if number is not None:
                transactions[RECENT_FILES] = number
            if self.durable and (add or number is not None):
                self._sync_files()
            fields = {} if number is None else _manifest_field(changed)
            adds_rows = step is not None or batch is not None or (add and not remove)
            outcome = "All rows are there, merged or not" if first_step is None else "Repeat the call"
            with nullcontext() if adds_rows else _translate_uncertainty(outcome):
                self._commit(actions, transactions, batch, fields, "WRITE" if first_step is None else "DELETE")
            if number is None:
                return []
            self._manifest = (number, changed)
            remaining = {entry.name for entry in changed.entries}
            obsolete = [entry.name for entry in current.entries if entry.name not in remaining]
            return obsolete if before is None else [*obsolete, manifest_name(before)]

    def _sync_files(self) -> None:
        """Sync all folders that can have new files; tasks on other machines may have created the folders."""
        folders = (DATA, INDEXES, RECENT, QUARANTINE, "_quantide", "")
        self.storage.sync(*folders)

    def _actions(self, add: Sequence[AddedFile], remove: Sequence[FileName], deletes: bool) -> list[Action]:
        if not all(self.has_file(name) for name in remove):
            raise WriterConflictError(f"{self.path}: files to be merged were merged by another writer; reopen it")
        for name in remove:  # vacuum counts their age from now
            self.storage.touch(name.data, name.index)
        return file_actions(add, remove, self.file_time(), deletes)

    def _write_manifest(self, manifest: RecentManifest) -> int:
        self._manifests += 1
        number = self.epoch << 32 | self._manifests
        self.storage.replace(manifest_name(number), manifest.to_json().encode())
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
        all_actions = [*actions, *transaction_actions({WRITER: self.epoch, **(transactions or {})})]
        token = self._state.token
        all_fields = {**({} if token is None else {PARENT: token}), **(fields or {})}
        try:
            entry = self.log_writer.write_entry(before + 1, operation, all_fields, all_actions, batch)
        except StorageError:
            self.is_behind = True
            raise
        self._apply(entry)
        self.maintenance.committed(self.version, len(self._state.files))

    def file_time(self) -> float:
        """Return the current time for ages of files; a wall clock that runs ahead makes none older."""
        return self._file_clock.now()

    def clear_log(self, hours: float) -> int:
        """Remove versions that are old enough and remains of interrupted commits; return the number of the latter."""
        self.maintenance.wait()
        seconds = max(hours * 3600, MIN_AGE_SECONDS if self.storage.trusted_seconds else 0)
        self.log.trim(self.version - 1, seconds, self.file_time())
        with self._lock:  # no commit is running
            return self.storage.remove_remains(LOG)

    def clear_recent(self, pending: Container[str], hours: float) -> list[int]:
        """Remove obsolete recent files and manifests of at least that age; return their sizes.

        Files in `pending` are about to be committed; files of a later epoch belong to another writer.
        """
        latest = self.file_time() - hours * 3600 if hours else None
        with self._lock:
            number = self.manifest_number
            needed = {entry.name for entry in self.current_manifest().entries}
            needed |= set() if number is None else {manifest_name(number)}
            return remove_stale_files(self.storage, needed, pending, self.epoch, latest)

    def close(self) -> None:
        """Wait for the maintenance of the log."""
        self.maintenance.close()


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
