"""The Delta table: which files are active, as of one version."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import RLock
from typing import Self

import pyarrow as pa

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.store.delta import DeltaError, DeltaTable, TableNotFoundError
from quantide.store.entry import LogEntry
from quantide.store.links import LinkedLog
from quantide.store.log import Log
from quantide.store.manifest import Manifest
from quantide.store.names import FileName, manifest_name
from quantide.store.place import Place
from quantide.store.settings import PROPERTY, Settings
from quantide.store.storage import out_of_reach
from quantide.store.survey import LogSurvey, survey_log
from quantide.store.transactions import HELD_FROM, HELD_UNTIL, RECENT_FILES, STEP, WRITER, check_number

ALWAYS = (WRITER, STEP, RECENT_FILES, HELD_FROM, HELD_UNTIL)  # transactions that every version is asked for
KNOWN = 1000  # transactions that are not looked up again
TRIES = 10  # to take over, or to read a log that changes


@dataclass(frozen=True)
class TableState:
    """A version of the table: the number of the open step, the active files, the types of the key columns."""

    version: int
    step: int
    files: list[FileName]
    key_types: list[pa.DataType] | None
    recent: int | None  # the number of the manifest of recent files


class StreamTable:
    """A store's table as of the version that was looked for last. Safe to use from several threads."""

    def __init__(self, place: Place, table: DeltaTable, links: LinkedLog | None = None) -> None:
        self.place, self.path, self._table = place, place.path, table
        self._links = links  # what the table is read from where its own log is damaged
        self._lock, self.log = RLock(), Log(self.path)
        self._known: dict[str, int | None] = {}  # transactions of this version that were looked up
        self._manifest: tuple[int | None, Manifest] = (None, Manifest())  # the last that was read, and its number
        self._property = ""  # the settings, as the table has them
        self._read_settings()

    @classmethod
    def open(cls, place: Place) -> Self | None:
        """The store there; None when there is none."""
        if not place.far and not place.has("_delta_log"):
            return None
        try:
            return cls(place, *_read(place))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise StorageError(f"{place.path} cannot be opened: {error}") from error

    def _current(self) -> DeltaTable:
        """The table's handle, at the version that is to be read."""
        return self._table

    @property
    def version(self) -> int:
        return int(self._current().version())

    def refresh(self) -> bool:
        """Look for commits of others; whether there were any. The log may have forgotten the version this one knows."""
        with self._lock:
            before = self.version
            if not self.place.far and not self.log.is_same():
                raise StorageError(
                    f"{self.path} was removed, or is not the store any more that it was; open it again once it is there"
                )
            if self.place.far or self._has_moved(before):
                self._update()
            return self.version != before

    def _has_moved(self, before: int) -> bool:
        """Return True if the log has a newer version that is whole, or has forgotten this one."""
        with _reaching(self.path):
            last, is_last = self.log.follows(before)
            return last > before or (is_last and not self.log.has(before))

    def reload(self) -> None:
        """Read the whole log again, whatever this handle knew."""
        with self._lock:
            try:
                self._table, self._links = _read(self.place)
            except DeltaError as error:
                raise StorageError(f"{self.path} cannot be read any more: {error}") from error
            self._known.clear()
            self._read_settings()

    def _update(self) -> None:
        """Move to the newest version; an entry that is torn, which Delta's reader may accept, is left out."""
        self._known.clear()
        try:
            with _reaching(self.path):
                if self._links is not None or not (self.place.far or self.log.follows(self._table.version())[1]):
                    return self.reload()
                self._table.update_incremental()
        except DeltaError:
            self.reload()
        self._read_settings()

    def _read_settings(self) -> None:
        """Take over the settings of this version; a writer may have changed some."""
        text = self._table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise InvalidArgumentError(f"{self.path} is a Delta table, but not one that Quantide made")
        if text != self._property:
            self.settings, self._property = Settings.from_json(text), text

    def state(self) -> TableState:
        """What the table says, all of it of one version."""
        with self._lock:
            return TableState(self.version, self.step, self.files(), self.key_types(), self.recent)

    def files(self) -> list[FileName]:
        """The active files, by the steps they cover."""
        with self._lock, _reaching(self.path):
            paths = pa.table(self._current().get_add_actions(flatten=True)).column("path").to_pylist()
        found = {FileName.parse(path): path for path in paths}
        if None in found:
            raise CorruptBytesError(
                f"{self.path}: the log lists {found[None][:200]!r}, which is not a file that Quantide writes: another "
                "program changed the table. Restore its _delta_log from a copy, or build a new store out of the table"
            )
        return sorted(name for name in found if name is not None)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Bytes and rows of each active file, by its path, as the commit that added it has them."""
        with self._lock, _reaching(self.path):
            held = pa.table(self._current().get_add_actions(flatten=True))
        columns = (held.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
        return {path: (size, rows or 0) for path, size, rows in zip(*columns, strict=True)}

    def rows(self) -> int:
        """How many rows the active files have."""
        return sum(rows for _, rows in self.sizes().values())

    def key_types(self) -> list[pa.DataType] | None:
        """The types of the key columns; None while no batch has told them."""
        schema = pa.schema(self._current().schema().to_arrow())
        names = self.settings.keys
        return [schema.field(name).type for name in names] if all(n in schema.names for n in names) else None

    @property
    def step(self) -> int:
        """The number of the open step; steps count from 1."""
        return int(self._transaction(STEP) or 0) + 1

    @property
    def recent(self) -> int | None:
        """The number of the manifest of recent files; None when there never was one."""
        return self._transaction(RECENT_FILES)

    @property
    def held(self) -> range:
        """Steps that expire as if they had ended when the step after them was the open one."""
        return range(self._transaction(HELD_FROM) or 0, self._transaction(HELD_UNTIL) or 0)

    def manifest(self, number: int | None) -> Manifest:
        """The manifest of a number, from its file or from its copy in the log.

        FileNotFoundError when it is gone, because a newer one counts; CorruptBytesError when it is damaged.
        """
        held = self._manifest
        if held[0] != number:
            assert number is not None  # the first manifest replaces none
            try:
                held = number, self.read_manifest(number)
            except (FileNotFoundError, CorruptBytesError):
                copy = None if self.place.far else self.manifest_copy(number)
                if copy is None:
                    raise
                held = number, copy
            self._manifest = held
        return held[1]

    def read_manifest(self, number: int) -> Manifest:
        """Read the file of a manifest."""
        name = manifest_name(number)
        return Manifest.read(self.place.mapped(name), name)

    def manifest_copy(self, number: int) -> Manifest | None:
        """The manifest of a number as the log has it; None when the log has no copy, or has forgotten it."""
        for version in range(self.version, -1, -1):
            try:
                entry = LogEntry.read(self.log.read(version))
            except FileNotFoundError:
                return None
            noted = entry.transactions.get(RECENT_FILES)
            if isinstance(noted, int) and noted <= number:
                if noted != number or entry.manifest is None:
                    return None
                with suppress(CorruptBytesError):
                    return Manifest.from_json(entry.manifest, manifest_name(number))
        return None

    def _transaction(self, app: str) -> int | None:
        """The last version of a transaction; FileNotFoundError when the log has forgotten what this handle knows."""
        with self._lock:
            table = self._current()
            if app not in self._known:
                if len(self._known) >= KNOWN:
                    self._known = {name: self._known[name] for name in ALWAYS if name in self._known}
                try:
                    with _reaching(self.path):
                        self._known[app] = check_number(app, table.transaction_version(app))
                except DeltaError as error:
                    raise FileNotFoundError(f"{self.path}: version {self.version} cannot be read: {error}") from error
            return self._known[app]


def _read(place: Place) -> tuple[DeltaTable, LinkedLog | None]:
    """Read the table as it is now. Where its log is trimmed meanwhile, it is read again."""
    with _reaching(place.path):
        for last in range(TRIES):
            try:
                if place.far:
                    return DeltaTable(place.path, storage_options=place.options), None
                return _read_log(place.path, deep=last > 0)
            except TableNotFoundError:
                raise
            except (DeltaError, FileNotFoundError):
                if last == TRIES - 1:
                    raise
        raise AssertionError("unreachable")


def _read_log(path: str, deep: bool) -> tuple[DeltaTable, LinkedLog | None]:
    """Read the newest version that is whole; a checkpoint that is damaged is passed by."""
    log = Log(path)
    survey = survey_log(log.folder, deep) if log.is_same() else LogSurvey(None, None)
    if survey.is_empty:
        raise TableNotFoundError(f"{path} has no log")
    if survey.version is None:
        raise CorruptBytesError(
            f"{path} cannot be opened: no checkpoint of its log can be read, and older entries are gone. Run `quantide "
            f"history repair {path}` to see what is lost"
        )
    if not survey.needs_links:
        return DeltaTable(path, version=survey.version if survey.torn or survey.stranded else None), None
    links = LinkedLog(log, survey)
    return links.open(), links


@contextmanager
def _reaching(path: str) -> Iterator[None]:
    """What reads the log in here may find that it cannot be reached."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise out_of_reach(path, error) from error
