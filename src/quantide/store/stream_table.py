"""Delta table of a stream as of one version: active files, transactions, settings, manifest of recent files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Self

import pyarrow as pa

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.store.delta_library import (
    DeltaError,
    DeltaTable,
    LoadedTable,
    TableNotFoundError,
    has_footer,
    is_loadable,
    load_table,
    panics_as_errors,
)
from quantide.store.delta_log import DeltaLog, LinkedLog, LogSurvey, survey_log
from quantide.store.file_names import FileName, manifest_name
from quantide.store.location import Location, unreachable_error
from quantide.store.log_entry import EXTENDED_FROM, EXTENDED_UNTIL, RECENT_FILES, STEP, WRITER, LogEntry, check_number
from quantide.store.recent_manifest import RecentManifest
from quantide.store.store_settings import PROPERTY, StoreSettings

ALWAYS_CACHED = (WRITER, STEP, RECENT_FILES, EXTENDED_FROM, EXTENDED_UNTIL)
MAX_CACHED = 1000  # transactions
ATTEMPTS = 10  # to take over, or to read a changing log


@dataclass(frozen=True)
class TableState:
    """State of the table at one version: number of the open step, active files, types of the key columns."""

    version: int
    step: int
    files: list[FileName]
    key_types: list[pa.DataType] | None
    manifest_number: int | None


class StreamTable:
    """Table of a store as of its last refresh. Thread-safe."""

    def __init__(self, location: Location, table: DeltaTable, links: LinkedLog | None = None) -> None:
        self.location, self.path, self._table = location, location.path, table
        self._links = links  # read in place of a damaged log
        self._lock, self.log = RLock(), DeltaLog(self.path)
        self._transactions: dict[str, int | None] = {}  # cached, of this version
        self._manifest: tuple[int | None, RecentManifest] = (None, RecentManifest())  # the last one read, by its number
        self._property = ""  # settings as stored in the table
        self._read_settings()

    @classmethod
    def open(cls, location: Location) -> Self | None:
        """Open the store at a location; return None if there is none."""
        if not location.is_remote and not location.exists("_delta_log"):
            return None
        try:
            loaded, links = _load(location)
            opened = cls(location, loaded.table, links)
            opened._transactions[STEP] = check_number(STEP, loaded.number)
            return opened
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise StorageError(f"{location.path} cannot be opened: {error}") from error

    def _current(self) -> DeltaTable:
        """Return the Delta table at the version to read."""
        return self._table

    @property
    def version(self) -> int:
        return int(self._current().version())

    def refresh(self) -> bool:
        """Update to the newest version; return True if it changed. The log may no longer have the current version."""
        with self._lock:
            before = self.version
            if not self.location.is_remote and not self.log.is_same_folder():
                raise StorageError(f"{self.path} was removed or replaced; open it again once it exists")
            if self.location.is_remote or self._has_changed(before):
                self._update()
            return self.version != before

    def _has_changed(self, before: int) -> bool:
        """Return True if the log has a newer whole version, or no longer has this one."""
        with _translate_errors(self.path):
            last, is_last = self.log.follow(before)
            return last > before or (is_last and not self.log.has_version(before))

    def reload(self) -> None:
        """Read the log from scratch."""
        with self._lock:
            try:
                loaded, self._links = _load(self.location)
            except DeltaError as error:
                raise StorageError(f"{self.path} cannot be read any more: {error}") from error
            self._table, self._transactions = loaded.table, {STEP: check_number(STEP, loaded.number)}
            self._read_settings()

    def _update(self) -> None:
        """Move to the newest version; leave out a torn entry, which Delta's reader may accept."""
        self._transactions.clear()
        try:
            with _translate_errors(self.path):
                if self._links is not None or not self._can_update():
                    return self.reload()
                self._table.update_incremental()
        except DeltaError:
            self.reload()
        self._read_settings()

    def _can_update(self) -> bool:
        """Return True if only whole entries follow the current version."""
        return self.location.is_remote or self.log.follow(self._table.version())[1]

    def _read_settings(self) -> None:
        """Read the settings of this version; a writer may have changed some."""
        text = self._table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise InvalidArgumentError(f"{self.path} is a Delta table, but not one that Quantide made")
        if text != self._property:
            self.settings, self._property = StoreSettings.from_json(text), text

    def state(self) -> TableState:
        """Return the state of one version."""
        with self._lock:
            return TableState(self.version, self.step, self.files(), self.key_types(), self.manifest_number)

    def files(self) -> list[FileName]:
        """Return the active files, ordered by the steps they cover."""
        with self._lock, _translate_errors(self.path):
            paths = pa.table(self._current().get_add_actions(flatten=True)).column("path").to_pylist()
        names = {FileName.parse(path): path for path in paths}
        if None in names:
            raise CorruptBytesError(
                f"{self.path}: the log lists {names[None][:200]!r}, which is not a file that Quantide writes: another "
                "program changed the table. Restore its _delta_log from a copy, or build a new store out of the table"
            )
        return sorted(name for name in names if name is not None)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return bytes and rows of each active file by its path, as recorded by the commit that added it."""
        with self._lock, _translate_errors(self.path):
            actions = pa.table(self._current().get_add_actions(flatten=True))
        columns = (actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
        return {path: (size, rows or 0) for path, size, rows in zip(*columns, strict=True)}

    def rows(self) -> int:
        """Return the number of rows in the active files."""
        return sum(rows for _, rows in self.sizes().values())

    def key_types(self) -> list[pa.DataType] | None:
        """Return the types of the key columns; None before the first batch."""
        schema = pa.schema(self._current().schema().to_arrow())
        names = self.settings.keys
        return [schema.field(name).type for name in names] if all(n in schema.names for n in names) else None

    @property
    def step(self) -> int:
        """Number of the open step; steps count from 1."""
        return int(self._transaction(STEP) or 0) + 1

    @property
    def manifest_number(self) -> int | None:
        """Number of the manifest of recent files; None before the first one."""
        return self._transaction(RECENT_FILES)

    @property
    def extended_steps(self) -> range:
        """Steps with extended retention: they expire as if they had ended when the step after them was open."""
        return range(self._transaction(EXTENDED_FROM) or 0, self._transaction(EXTENDED_UNTIL) or 0)

    def load_manifest(self, number: int | None) -> RecentManifest:
        """Return a manifest by its number, from its file or from its copy in the log.

        Raise FileNotFoundError if a newer manifest replaced it; CorruptBytesError if it is damaged.
        """
        cached = self._manifest
        if cached[0] != number:
            assert number is not None  # the first manifest replaces none
            try:
                cached = number, self.read_manifest(number)
            except (FileNotFoundError, CorruptBytesError):
                copy = None if self.location.is_remote else self.find_manifest_copy(number)
                if copy is None:
                    raise
                cached = number, copy
            self._manifest = cached
        return cached[1]

    def read_manifest(self, number: int) -> RecentManifest:
        """Read the file of a manifest."""
        name = manifest_name(number)
        return RecentManifest.read(self.location.map_file(name), name)

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
        """Return the number of a transaction; raise FileNotFoundError if the log no longer has this version."""
        with self._lock:
            table = self._current()
            if app not in self._transactions:
                if len(self._transactions) >= MAX_CACHED:
                    self._transactions = {
                        name: self._transactions[name] for name in ALWAYS_CACHED if name in self._transactions
                    }
                try:
                    with _translate_errors(self.path):
                        self._transactions[app] = check_number(app, table.transaction_version(app))
                except DeltaError as error:
                    raise FileNotFoundError(f"{self.path}: version {self.version} cannot be read: {error}") from error
            return self._transactions[app]


def _load(location: Location) -> tuple[LoadedTable, LinkedLog | None]:
    """Load the newest version of a table, with the number of STEP.

    If that fails, the log was trimmed during the load, or a checkpoint is damaged: then load checkpoints one by one.
    """
    with _translate_errors(location.path):
        for attempt in range(ATTEMPTS):
            try:
                if location.is_remote:
                    return load_table(location.path, options=location.options, app=STEP), None
                return _read_log(location.path, is_loadable if attempt else has_footer)
            except TableNotFoundError:
                raise
            except (DeltaError, FileNotFoundError):
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")


def _read_log(path: str, check: Callable[[str], bool]) -> tuple[LoadedTable, LinkedLog | None]:
    """Load the newest whole version; skip damaged checkpoints."""
    log = DeltaLog(path)
    survey = survey_log(log.folder, check) if log.is_same_folder() else LogSurvey(None, None)
    if survey.is_empty:
        raise TableNotFoundError(f"{path} has no log")
    if survey.version is None:
        raise CorruptBytesError(
            f"{path} cannot be opened: no checkpoint of its log can be read, and older entries were removed. Run "
            f"`quantide history repair {path}` to see what is lost"
        )
    if not survey.needs_links:
        return load_table(path, survey.version if survey.torn or survey.stranded else None, app=STEP), None
    links = LinkedLog(log, survey)
    return links.open(STEP), links


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Translate errors of reads of the log: an unreachable log, and a panic of Delta's reader."""
    try:
        with panics_as_errors():
            yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreachable_error(path, error) from error
