"""Delta table of a stream as of one version: active files, transactions, settings, manifest of recent files.

The log is read here, not by Delta's library: to follow a commit, only its entry is read, however many files the table
has.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import ClassVar, Self

import pyarrow as pa

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.store.checkpoint_file import read_checkpoint
from quantide.store.delta_library import Schema
from quantide.store.delta_log import DeltaLog, LogSurvey, survey_log
from quantide.store.file_clock import running_time
from quantide.store.file_names import FileName, manifest_name
from quantide.store.location import unreachable_error
from quantide.store.log_entry import (
    DELETED_BEFORE,
    DELETES,
    EXTENDED_FROM,
    EXTENDED_UNTIL,
    RECENT_FILES,
    STEP,
    UNLISTED,
    LogEntry,
    check_number,
    is_whole,
)
from quantide.store.log_state import FileChanges, LogState
from quantide.store.recent_manifest import RecentManifest
from quantide.store.storage import Storage
from quantide.store.store_settings import PROPERTY, StoreSettings

ATTEMPTS = 10  # to take over, or to read a changing log
MAX_CHANGES = 1000  # commits whose changes are remembered for snapshots
Position = tuple[int, int]  # number of the load of the log, and version


@dataclass(frozen=True)
class TableState:
    """State of the table at one version: number of the open step, types of the key columns, and the files.

    `changes` are the changes since another position; if they are not known, `files` are all files. `deletes` is the
    number of commits that deleted rows; steps before `first_step` were deleted.
    """

    version: int
    position: Position
    step: int
    key_types: list[pa.DataType] | None
    manifest_number: int | None
    changes: FileChanges | None
    files: list[FileName]
    deletes: int
    first_step: int


class StreamTable:
    """Table of a store as of its last refresh. Thread-safe."""

    KEEPS_BATCHES: ClassVar[bool] = False  # True if the ids of batches are needed

    def __init__(self, storage: Storage, state: LogState) -> None:
        self.storage, self.path, self._state = storage, storage.path, state
        self._lock, self.log = RLock(), DeltaLog(storage)
        self._loads = 0
        self._changes: deque[tuple[int, FileChanges]] = deque(maxlen=MAX_CHANGES)
        self._manifest: tuple[int | None, RecentManifest] = (None, RecentManifest())  # the last one read, by its number
        self._property = ""  # settings as stored in the table
        self._schema: tuple[str, pa.Schema] = ("", pa.schema([]))
        self._seen_newest = self._seen_current = running_time()
        self._read_settings()
        self.identity = str(state.metadata.get("id"))
        storage.use_cache(self.identity)

    @classmethod
    def open(cls, storage: Storage) -> Self | None:
        """Open the store at a location; return None if there is none."""
        state = load_state(storage, cls.KEEPS_BATCHES)
        return None if state is None else cls(storage, state)

    def _current(self) -> LogState:
        """Return the state of the version to read."""
        return self._state

    @property
    def version(self) -> int:
        return self._current().version

    def refresh(self) -> bool:
        """Update to the newest version; return True if it changed. The log may no longer have the current version."""
        with self._lock:
            before = self.version
            if not self.storage.is_same():
                raise self._replaced_error()
            self._update()
            return self.version != before

    def reload(self) -> None:
        """Read the log from scratch."""
        with self._lock:
            state = load_state(self.storage, self.KEEPS_BATCHES)
            if state is None:
                raise StorageError(f"{self.path} cannot be read any more: its log is gone")
            if str(state.metadata.get("id")) != self.identity:
                raise self._replaced_error()
            self._state, self._loads = state, self._loads + 1
            self._changes.clear()
            self._seen_newest = self._seen_current = running_time()
            self._read_settings()

    def _update(self) -> None:
        """Apply the entries after the current version; leave out a torn one, and what follows it."""
        with _translate_errors(self.path):
            began = running_time()
            while (data := self._next_entry()) is not None and is_whole(data, self._state.version + 1):
                entry = LogEntry.read(data)
                if not entry.follows(self._state.token):
                    self.reload()  # another table, or an older copy of this one, is here now
                    continue
                try:
                    self._apply(entry)
                except CorruptBytesError:
                    raise
                except ValueError as error:
                    number = self._state.version + 1
                    raise StorageError(f"{self.path}: its log cannot be read, at version {number}: {error}") from error
            if data is None:
                self._seen_newest = began

    def _next_entry(self) -> bytes | None:
        """Return the entry after the current version, None if there is none.

        If the log no longer has the current version, it was trimmed past it and is loaded again: what has the name of
        the next version then may be an entry that a fenced writer is about to remove. That cannot be if the current
        version was the newest a short time ago. A store that was removed or replaced is noticed in the same way, so the
        current version is looked for from time to time, however often new ones are.
        """
        version, now = self._state.version, running_time()
        try:
            data = self.log.read_entry(version + 1)
        except FileNotFoundError:
            data = None
        if running_time() - min(self._seen_newest, self._seen_current) >= self.storage.trusted_seconds:
            if not self._has_current():
                self.reload()
                return None
            self._seen_current = now
        return data

    def _has_current(self) -> bool:
        """Return True if the log has the current version; in an object store, where another table can take its place,
        the same entry.
        """
        version, token = self._state.version, self._state.token
        if token is None or not self.storage.trusted_seconds:
            return self.log.has_version(version)
        return self.log.read_token(version) == token

    def _apply(self, entry: LogEntry) -> None:
        """Apply the entry of the next version."""
        state = self._state
        changes = state.apply(state.version + 1, entry)
        self._changes.append((state.version, changes))
        self._read_settings()

    def _read_settings(self) -> None:
        """Read the settings of this version; a writer may have changed some."""
        configuration = self._state.metadata.get("configuration")
        text = configuration.get(PROPERTY) if isinstance(configuration, dict) else None
        if text is None:
            raise InvalidArgumentError(f"{self.path} is a Delta table, but not one that Quantide made")
        if not isinstance(text, str):
            raise CorruptBytesError(f"{self.path}: its log is damaged: the settings of the store are {text!r:.80}")
        if text != self._property:
            self.settings, self._property = StoreSettings.from_json(text), text

    def _replaced_error(self) -> StorageError:
        return StorageError(f"{self.path} was removed or replaced; open it again once it exists")

    def state(self, since: Position | None = None) -> TableState:
        """Return the state of one version, with the changes since another position."""
        with self._lock:
            version = self.version
            position = self._loads, version
            changes = self._changes_since(since)
            files = self.files() if changes is None else []
            return TableState(
                version,
                position,
                self.step,
                self.key_types(),
                self.manifest_number,
                changes,
                files,
                self.deletes,
                self.first_step,
            )

    def _changes_since(self, since: Position | None) -> FileChanges | None:
        """Return what commits after a position changed; None if it is before what is remembered."""
        if since is None or since[0] != self._loads:
            return None
        newer = [changes for version, changes in self._changes if version > since[1]]
        if len(newer) != self._state.version - since[1]:
            return None
        self._check_foreign()
        merged = FileChanges()
        for changes in newer:
            for name in changes.removed:
                merged.remove(name)
            for name in changes.added:
                merged.add(name)
        return merged

    def files(self) -> list[FileName]:
        """Return the active files, ordered by the steps they cover."""
        with self._lock:
            names = list(self._current().files)
            self._check_foreign()
        return sorted(names)

    def has_file(self, name: FileName) -> bool:
        """Return True if a file is active."""
        with self._lock:
            return name in self._current().files

    def removed_at(self, name: FileName) -> float | None:
        """Return the time at which a commit removed a file; None if the log does not tell any more."""
        with self._lock:
            return self._current().removed.get(name)

    def _check_foreign(self) -> None:
        for path in self._state.foreign:
            raise CorruptBytesError(
                f"{self.path}: the log lists {path[:200]!r}, which is not a file that Quantide writes: another "
                "program changed the table. Restore its _delta_log from a copy, or build a new store out of the table"
            )

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return bytes and rows of each active file by its path, as recorded by the commit that added it."""
        with self._lock:
            return {name.data: (file.size, file.rows) for name, file in self._current().files.items()}

    def rows(self) -> int:
        """Return the number of rows in the active files."""
        return sum(rows for _, rows in self.sizes().values())

    def key_types(self) -> list[pa.DataType] | None:
        """Return the types of the key columns; None before the first batch."""
        schema, names = self.schema, self.settings.keys
        return [schema.field(name).type for name in names] if all(n in schema.names for n in names) else None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        text = str(self._current().metadata.get("schemaString"))
        if text != self._schema[0]:
            try:
                self._schema = text, pa.schema(Schema.from_json(text).to_arrow())
            except Exception as error:  # Delta's library raises several
                raise CorruptBytesError(f"{self.path}: the log has a schema that cannot be read: {error}") from error
        return self._schema[1]

    @property
    def step(self) -> int:
        """Number of the open step; steps count from 1."""
        return int(self._transaction(STEP) or 0) + 1

    @property
    def manifest_number(self) -> int | None:
        """Number of the manifest of recent files; None before the first one."""
        return self._transaction(RECENT_FILES)

    @property
    def deletes(self) -> int:
        """Number of commits that deleted rows."""
        return self._transaction(DELETES) or 0

    @property
    def unlisted(self) -> int:
        """Number of rows that repairs and deletions removed from windows, but not from the table."""
        return self._transaction(UNLISTED) or 0

    @property
    def first_step(self) -> int:
        """First step that was not deleted."""
        return max(1, self._transaction(DELETED_BEFORE) or 1)

    @property
    def extended_steps(self) -> range:
        """Steps with extended retention: they expire as if they had ended when the step after them was open."""
        return range(self._transaction(EXTENDED_FROM) or 0, self._transaction(EXTENDED_UNTIL) or 0)

    def load_manifest(self, number: int | None) -> RecentManifest:
        """Return a manifest by its number, from its copy in the log or from its file.

        Raise FileNotFoundError if a newer manifest replaced it; CorruptBytesError if it is damaged.
        """
        cached = self._manifest
        if cached[0] != number:
            assert number is not None  # the first manifest replaces none
            manifest = self._copied_manifest(number)
            if manifest is None:
                try:
                    manifest = self.read_manifest(number)
                except (FileNotFoundError, CorruptBytesError):
                    manifest = self.find_manifest_copy(number)
                    if manifest is None:
                        raise
            self._manifest = cached = number, manifest
        return cached[1]

    def _copied_manifest(self, number: int) -> RecentManifest | None:
        """Return the manifest that the newest entry has a copy of, if it is that one."""
        copy = self._state.manifest
        if copy is None or copy[0] != number:
            return None
        with suppress(CorruptBytesError):
            return RecentManifest.from_json(copy[1], manifest_name(number))
        return None

    def read_manifest(self, number: int) -> RecentManifest:
        """Read the file of a manifest."""
        name = manifest_name(number)
        return RecentManifest.read(self.storage.map(name), name)

    def find_manifest_copy(self, number: int) -> RecentManifest | None:
        """Return the copy of a manifest in the log; None if the log has none, or no longer has that version."""
        for version in range(self.version, -1, -1):
            try:
                entry = LogEntry.read(self.log.read_entry(version))
            except FileNotFoundError:
                return None
            recorded = entry.transactions.get(RECENT_FILES)
            if isinstance(recorded, int) and recorded <= number:
                if recorded != number or entry.manifest is None:
                    return None
                with suppress(CorruptBytesError):
                    return RecentManifest.from_json(entry.manifest, manifest_name(number))
        return None

    def _transaction(self, app: str) -> int | None:
        """Return the number of a transaction."""
        with self._lock:
            return check_number(app, self._current().transactions.get(app))


def load_state(storage: Storage, keeps_batches: bool) -> LogState | None:
    """Load the newest version of a table; None if there is no table. Damaged checkpoints are skipped."""
    with _translate_errors(storage.path):
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                return _load(storage, keeps_batches)
            except FileNotFoundError:  # the log was trimmed during the load
                if not attempts_left:
                    raise
            except CorruptBytesError:
                raise
            except ValueError as error:
                raise StorageError(f"{storage.path} cannot be opened: {error}") from error
        raise AssertionError("unreachable")


def _load(storage: Storage, keeps_batches: bool) -> LogState | None:
    states: list[LogState] = []

    def is_intact(version: int, data: bytes) -> bool:
        state = LogState(keeps_batches)
        try:
            state.load(version, read_checkpoint(data))
        except (ValueError, AttributeError, TypeError):
            return False
        states.append(state)
        return True

    survey = survey_log(storage, is_intact, with_hint=False)
    if survey.is_empty:
        return None
    if survey.version is None:
        raise CorruptBytesError(
            f"{storage.path} cannot be opened: no checkpoint of its log can be read, and older entries were removed. "
            f"Run `quantide history repair {storage.path}` to see what is lost"
        )
    return _apply_entries(states[0] if states else LogState(keeps_batches), survey)


def _apply_entries(state: LogState, survey: LogSurvey) -> LogState:
    for version in range(state.version + 1, (survey.version or 0) + 1):
        state.apply(version, LogEntry.read(survey.entries[version]))
    return state


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Translate errors of reads of the log."""
    try:
        yield
    except (FileNotFoundError, StorageError):
        raise
    except OSError as error:
        raise unreachable_error(path, error) from error
