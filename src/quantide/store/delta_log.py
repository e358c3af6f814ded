"""Delta log as files: entries, checkpoints and the hint; their survey, their writer, and their removal.

A power loss or a damaged disk leaves files that are empty, cut short, or full of zeros. Delta's own reader accepts an
empty entry as a commit without changes and fails on most other damage, so a survey comes before anything is read.

Files that an entry names are synced before it is written; its content is synced before its name appears, and the name
before the commit is acknowledged; a checkpoint is synced before the file that names it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from quantide.errors import AccessRefusedError, CommitUncertainError, StorageError, WriterConflictError
from quantide.store import fault_points
from quantide.store.checkpoint_file import is_loadable, is_readable
from quantide.store.file_clock import running_time
from quantide.store.file_names import HINT, LOG, checkpoint_name, entry_name
from quantide.store.log_entry import (
    COMMIT,
    PARENT,
    WRITER,
    Action,
    LogEntry,
    encode_entry,
    is_whole,
    transaction_actions,
)
from quantide.store.storage import Storage, UncertainPutError

MIN_AGE_SECONDS = 36.0  # of a removed version: a reader may be opening the table, a paused writer may wake up
_ENTRY = re.compile(rf"{LOG}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.parquet")
_VERSION = re.compile(rf"{LOG}/(\d{{20}})\.(json|checkpoint\.parquet)")

CheckpointTest = Callable[[int, bytes], bool]  # of a version and its checkpoint


class DeltaLog:
    """Files of a log. Its versions are contiguous: the oldest are removed first, and none from a checkpoint on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def has_version(self, version: int) -> bool:
        """Return True if the log has a version; raise OSError if the log cannot be reached."""
        return self.storage.exists(entry_name(version))

    def read_entry(self, version: int) -> bytes:
        """Return the bytes of an entry; raise FileNotFoundError if it does not exist."""
        return self.storage.read(entry_name(version))

    def read_token(self, version: int) -> str | None:
        """Return the token of the commit that created a version; None without such a version or token."""
        try:
            return LogEntry.read(self.read_entry(version)).token
        except FileNotFoundError:
            return None

    def add_entry(self, version: int, data: bytes) -> None:
        """Add an entry atomically; raise FileExistsError if the log has that version."""
        self.storage.create(entry_name(version), data)

    def entry_time(self, version: int) -> float | None:
        """Return the time of an entry, by the clock of the storage; None if it does not exist."""
        try:
            return self.storage.stat(entry_name(version)).modified
        except OSError:
            return None

    def write_checkpoint(self, version: int, data: bytes, hint: bytes) -> None:
        """Write a checkpoint, then the file that names it."""
        for name, content in ((checkpoint_name(version), data), (HINT, hint)):
            self.storage.replace(name, content)
            self.storage.sync(LOG)

    def trim(self, last: int, seconds: float, now: float) -> int:
        """Remove files older than the newest checkpoint that is at most version `last` and at least `seconds` old.

        Return the number of removed files. The checkpoint must be loadable and synced, because nothing else describes
        the versions before it. Files are removed in the order of their versions: where a version exists, no later one
        was removed.
        """
        files = [file for file in self.storage.list_files(LOG) if _VERSION.fullmatch(file.name)]
        checkpoints = [file for file in files if _CHECKPOINT.fullmatch(file.name) and _version(file.name) <= last]
        old = [file.name for file in checkpoints if not seconds or file.modified <= now - seconds]
        old = [name for name in old[-1:] if is_loadable(_version(name), self.storage.read(name))]
        obsolete = [file.name for file in files if old and _version(file.name) < _version(old[-1])]
        if obsolete:
            self.storage.sync(old[-1], LOG, HINT, LOG)
        for name in obsolete:
            self.storage.remove(name)
            fault_points.point("log.trimmed")
        return len(obsolete)


def _version(name: str) -> int:
    return int(name.removeprefix(f"{LOG}/")[:20])


@dataclass(frozen=True)
class LogSurvey:
    """Condition of a log: `version` is the newest readable one, from the checkpoint `base` (None: entry 0) on.

    `torn` entries come after `version`; `stranded` ones are whole but come after a torn or missing one. `checkpoints`
    are damaged and newer than `base`. `hint` is the version that _last_checkpoint names if it has no readable
    checkpoint, -1 if that file is damaged, and None if it is intact or missing. `checkpoint` and `entries` are the
    content of the base and of the whole entries after it.
    """

    base: int | None
    version: int | None
    torn: tuple[int, ...] = ()
    stranded: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    hint: int | None = None
    checkpoint: bytes = field(default=b"", repr=False)
    entries: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def is_clean(self) -> bool:
        return not (self.torn or self.stranded or self.checkpoints) and self.hint is None

    @property
    def is_empty(self) -> bool:
        """Return True if no commit was ever acknowledged: the log is empty, or has only a torn first entry."""
        return self.version is None and not self.stranded and not self.checkpoints and self.torn in ((), (0,))


def survey_log(storage: Storage, check: CheckpointTest = is_readable, with_hint: bool = True) -> LogSurvey:
    """Survey a log; `check` tests a checkpoint. Raise FileNotFoundError if the log changes during it."""
    hint = _read_hint(storage) if with_hint else None  # first: it is written after its checkpoint
    names = [file.name for file in storage.list_files(LOG)]
    entries = [int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))]
    checkpoints = sorted((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), reverse=True)
    damaged: list[int] = []
    base, content = None, b""
    for version in checkpoints:
        data = storage.read(checkpoint_name(version))
        if check(version, data):
            base, content = version, data
            break
        damaged.append(version)
    last = -1 if base is None else base
    newer = sorted(version for version in entries if version > last)
    data_by_version = dict(zip(newer, storage.map_all(lambda v: storage.read(entry_name(v)), newer), strict=True))
    whole = {version: data for version, data in data_by_version.items() if is_whole(data, version)}
    while last + 1 in whole:
        last += 1
    torn = tuple(version for version in newer if version > last and version not in whole)
    stranded = tuple(version for version in newer if version > last and version in whole)
    misleads = hint is not None and (hint < 0 or hint > (-1 if base is None else base) or hint in damaged)
    newest = None if last < 0 else last
    read = {version: data for version, data in whole.items() if version <= last}
    return LogSurvey(base, newest, torn, stranded, tuple(damaged), hint if misleads else None, content, read)


def _read_hint(storage: Storage) -> int | None:
    """Return the version that _last_checkpoint names; -1 if it cannot be read, None without such a file."""
    try:
        version = json.loads(storage.read(HINT))["version"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return version if isinstance(version, int) and version >= 0 else -1


@dataclass(frozen=True)
class UnsettledEntry:
    """Entry whose put may have succeeded, or may succeed later."""

    version: int
    token: str
    parent: Mapping[str, str]  # field with the token of the commit before
    actions: Sequence[Action]

    @property
    def epoch(self) -> Any:
        return LogEntry(tuple(self.actions)).transactions.get(WRITER)

    def substitute(self) -> bytes:
        """Return an entry of the same writer that changes nothing."""
        return encode_entry("WRITE", {COMMIT: uuid4().hex, **self.parent}, transaction_actions({WRITER: self.epoch}))


class LogWriter:
    """Writer of the log of a store."""

    def __init__(self, log: DeltaLog) -> None:
        self._log, self._path = log, log.storage.path
        self.unsettled: UnsettledEntry | None = None
        self._seen_newest = -float("inf")  # running time at which the version before the next was the newest

    def write_entry(
        self, version: int, operation: str, fields: Mapping[str, str], actions: Sequence[Action], batch: Any
    ) -> LogEntry:
        """Write the entry of a version. If that fails, check the log: the commit may have happened.

        If trimming freed the name, the entry before it is missing, too, and this one is withdrawn. That check is
        skipped if the entry before was the newest a short time ago.
        """
        token, parent = uuid4().hex, {name: fields[name] for name in (PARENT,) if name in fields}
        identity = f"{COMMIT}:{version}:{token}" if batch is None else batch
        data = encode_entry(operation, {COMMIT: token, **fields}, actions)
        began = running_time()
        try:
            fault_points.point("commit.before")
            self._log.add_entry(version, data)
            fault_points.point("commit.after")
        except AccessRefusedError as error:
            raise self._failed_error(error) from error
        except UncertainPutError as error:
            self.unsettled = UnsettledEntry(version, token, parent, actions)
            self._settle(identity, error)
        except OSError as error:
            self._check_committed(version, token, identity, error)
        try:
            if not self._is_trusted() and not self._log.has_version(version - 1):
                self._log.storage.remove(entry_name(version))
                raise self.fenced_error()
            self.sync()
        except OSError as error:
            raise self._uncertain_error(identity, error) from error
        self._seen_newest = began
        return LogEntry.read(data)

    def settle(self) -> None:
        """Decide the outcome of an entry whose put may still succeed: put another one in its place, if that is free."""
        entry = self.unsettled
        if entry is not None:
            with suppress(FileExistsError):
                self._log.add_entry(entry.version, entry.substitute())
                if not self._log.has_version(entry.version - 1):  # the log was trimmed past it
                    self._log.storage.remove(entry_name(entry.version))
            self.unsettled = None

    def _settle(self, identity: Any, error: OSError) -> None:
        """Return if the unsettled entry is in the log; otherwise raise the error that describes its state."""
        entry = self.unsettled
        assert entry is not None
        with self._uncertain_if_unreachable(identity, error):
            self.settle()
            if self._log.read_token(entry.version) != entry.token:
                self._check_writer(entry)
                raise self._failed_error(error) from error

    def _check_writer(self, entry: "UnsettledEntry") -> None:
        """Raise if the entry at the place of an unsettled one is of another writer."""
        found = LogEntry.read(self._log.read_entry(entry.version)).transactions.get(WRITER)
        if found != entry.epoch:
            raise self.fenced_error()

    def _is_trusted(self) -> bool:
        """Return True if the version before was the newest so short a time ago that nothing was trimmed since."""
        return running_time() - self._seen_newest < self._log.storage.trusted_seconds

    def sync(self) -> None:
        self._log.storage.sync(LOG)

    def fenced_error(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self._path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def _check_committed(self, version: int, token: str, identity: Any, error: OSError) -> None:
        """Return if a commit that failed is in the log; otherwise raise the error that describes its state."""
        with self._uncertain_if_unreachable(identity, error):
            if not self._log.has_version(version - 1):
                raise self.fenced_error() from error
            if not self._log.has_version(version):
                raise self._failed_error(error) from error
            if self._log.read_token(version) != token:
                raise self.fenced_error() from error

    @contextmanager
    def _uncertain_if_unreachable(self, identity: Any, error: OSError) -> Iterator[None]:
        """Raise CommitUncertainError if the log cannot be read; errors raised from `error` describe its state."""
        try:
            yield
        except WriterConflictError:
            raise
        except OSError as unknown:
            if unknown.__cause__ is error:
                raise
            raise self._uncertain_error(identity, unknown) from error

    def _failed_error(self, error: OSError) -> StorageError:
        return StorageError(f"{self._path}: the commit failed, nothing was changed: {error}")

    def _uncertain_error(self, identity: Any, error: OSError) -> CommitUncertainError:
        reason = f"{self._path}: its log cannot be reached: {error}"
        uncertain = CommitUncertainError(
            f"{reason}. The table may have this commit. Repeat the call on this handle, or with batch_id={identity!r}: "
            "rows that the table has are not added twice"
        )
        uncertain.batch_id, uncertain.reason = identity, reason
        return uncertain
