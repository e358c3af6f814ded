"""State of a table by its log: what a checkpoint has, changed by each entry after it.

Applying an entry costs as much as the entry has actions, however many files the table has.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from quantide.errors import CorruptBytesError, StorageError
from quantide.store.file_names import FileName, RunId
from quantide.store.json_fields import integer
from quantide.store.log_entry import BATCH, RECENT_FILES, SOURCE, Action, LogEntry, read_rows

READER_FEATURES = {"timestampNtz"}  # of Delta's protocol, that the types of columns may need
MAX_INT64 = 2**63 - 1


class StoredFile(NamedTuple):
    """Size of an active file, and its statistics as the log has them."""

    size: int
    stats: Any

    @property
    def rows(self) -> int:
        return read_rows(self.stats)


@dataclass
class FileChanges:
    """Files that commits added and removed; a file that was added and then removed is in neither."""

    added: dict[FileName, None] = field(default_factory=dict)
    removed: dict[FileName, None] = field(default_factory=dict)

    def add(self, name: FileName) -> None:
        if name in self.removed:
            del self.removed[name]
        else:
            self.added[name] = None

    def remove(self, name: FileName) -> None:
        if name in self.added:
            del self.added[name]
        else:
            self.removed[name] = None


class LogState:
    """Active files, transactions and metadata at one version. Readers do not need the ids of batches."""

    def __init__(self, keeps_batches: bool) -> None:
        self._keeps_batches = keeps_batches
        self.version = -1
        self.token: str | None = None  # of the newest entry; None after a checkpoint
        self.files: dict[FileName, StoredFile] = {}
        self.foreign: dict[str, None] = {}  # paths of files that Quantide cannot have written
        self.removed: dict[FileName, float] = {}  # seconds since 1970, as far back as checkpoints remember
        self.transactions: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.manifest: tuple[int, str] | None = None  # number and copy of the newest manifest, if an entry had it
        self._runs: dict[RunId, RunId] = {}  # parts of a run share one object

    def load(self, version: int, actions: Iterable[Action]) -> None:
        """Apply the actions of a checkpoint."""
        self._apply(actions, FileChanges())
        self.version = version
        self._runs.clear()

    def apply(self, version: int, entry: LogEntry) -> FileChanges:
        """Apply the entry of the next version; return the files that it changed."""
        assert version == self.version + 1
        _check_transactions(entry.actions)  # first: an entry is applied wholly or not at all
        changes = FileChanges()
        self._apply(entry.actions, changes)
        number = entry.transactions.get(RECENT_FILES)
        if isinstance(number, int):
            self.manifest = None if entry.manifest is None else (number, entry.manifest)
        self.version, self.token = version, entry.token
        return changes

    def _apply(self, actions: Iterable[Action], changes: FileChanges) -> None:
        for action in actions:
            for kind, body in action.items():
                if kind == "add":
                    self._add(body, changes)
                elif kind == "remove":
                    self._remove(body, changes)
                elif kind == "txn":
                    app = str(body.get("appId"))
                    if self._keeps_batches or not app.startswith((BATCH, SOURCE)):
                        self.transactions[app] = body.get("version")
                elif kind == "metaData":
                    self.metadata = body
                elif kind == "protocol":
                    _check_protocol(body)

    def _add(self, body: dict[str, Any], changes: FileChanges) -> None:
        path = str(body.get("path"))
        name = FileName.parse(path)
        if name is None or body.get("deletionVector") is not None:
            self.foreign[path] = None
            return
        name = FileName(self._runs.setdefault(name.run, name.run), name.part, name.rewrite)
        if name not in self.files:
            changes.add(name)
        self.files[name] = StoredFile(_size(body), body.get("stats"))
        self.removed.pop(name, None)

    def _remove(self, body: dict[str, Any], changes: FileChanges) -> None:
        path = str(body.get("path"))
        self.foreign.pop(path, None)
        name = FileName.parse(path)
        if name is None:
            return
        if self.files.pop(name, None) is not None:
            changes.remove(name)
        at = body.get("deletionTimestamp")
        if isinstance(at, int):
            self.removed[name] = at / 1000


def _size(body: dict[str, Any]) -> int:
    try:
        return integer()(body.get("size"))
    except ValueError as error:
        raise CorruptBytesError(f"the log has a file of size {body.get('size')!r}") from error


def _check_protocol(body: dict[str, Any]) -> None:
    features = body.get("readerFeatures") or []
    if not isinstance(features, list):
        raise CorruptBytesError(f"the log has {features!r:.80} as features of Delta's protocol")
    unknown = set(map(str, features)) - READER_FEATURES
    if unknown or body.get("minReaderVersion") not in (1, 3):
        raise StorageError(
            f"the table needs version {body.get('minReaderVersion')} of Delta's protocol for readers"
            f"{', with ' + ', '.join(sorted(unknown)) if unknown else ''}: another program changed it. "
            "Build a new store out of the table"
        )


def _check_transactions(actions: Iterable[Action]) -> None:
    """Raise ValueError for a transaction that no Delta reader accepts."""
    for action in actions:
        if "txn" in action:
            app, number = action["txn"].get("appId"), action["txn"].get("version")
            if not isinstance(app, str) or type(number) is not int or not -MAX_INT64 - 1 <= number <= MAX_INT64:
                raise ValueError(f"the transaction {str(action['txn'])[:200]} has no name, or no number of 64 bits")
