"""The Delta table: which files are active, as of one version."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Self

import pyarrow as pa

from quantide.errors import InvalidArgumentError, StorageError
from quantide.store.delta import DeltaError, DeltaTable, TableNotFoundError
from quantide.store.log import Log
from quantide.store.manifest import Manifest
from quantide.store.names import FileName, manifest_name
from quantide.store.place import Place
from quantide.store.settings import PROPERTY, Settings
from quantide.store.storage import out_of_reach
from quantide.store.transactions import RECENT_FILES, STEP, WRITER

ALWAYS = (WRITER, STEP, RECENT_FILES)  # transactions that every version is asked for
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

    def __init__(self, place: Place, table: DeltaTable) -> None:
        self.place, self.path, self._table = place, place.path, table
        self._lock, self._log = RLock(), Log(self.path)
        self._known: dict[str, int | None] = {}  # transactions of this version that were looked up
        self._manifest: tuple[int | None, Manifest] = (None, Manifest())  # the last that was read, and its number
        text = table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise InvalidArgumentError(f"{self.path} is a Delta table, but not one that Quantide made")
        self.settings = Settings.from_json(text)

    @classmethod
    def open(cls, place: Place) -> Self | None:
        """The store there; None when there is none."""
        if not place.far and not place.has("_delta_log"):
            return None
        try:
            return cls(place, _read(place))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise StorageError(f"{place.path} cannot be opened: {error}") from error

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
