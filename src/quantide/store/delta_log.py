"""Delta log as files: entries, checkpoints and the hint; their survey, links to them, their writer, and their removal.

A power loss or a damaged disk leaves files that are empty, cut short, or full of zeros. Delta's own reader accepts an
empty entry as a commit without changes and fails on most other damage, so a survey comes before it reads.

Files that an entry names are synced before it is written; its content is synced before its name appears, and the name
before the commit is acknowledged; a checkpoint is synced before the file that names it.
"""

import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from quantide.errors import CommitUncertainError, StorageError, WriterConflictError
from quantide.store import fault_points
from quantide.store.delta_library import DeltaError, DeltaTable, LoadedTable, has_footer, is_loadable, load_table
from quantide.store.durable_files import create_file, remove, sync, write_bytes
from quantide.store.file_names import final_name
from quantide.store.log_entry import COMMIT, Action, LogEntry, encode_entry, is_whole

KEPT_VERSIONS = 200  # the cost of a commit grows with the number of versions in the log
MIN_AGE_HOURS = 0.01  # of a removed version: a reader may be opening the table
TRIM_INTERVAL = 100  # commits
LINKS_PREFIX = "log-"  # of folders with links; vacuum removes those that a kill left behind
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
CHECKPOINT_INTERVAL = 10  # commits


class DeltaLog:
    """Files of a log. Its versions are contiguous: the oldest are removed first, and none from a checkpoint on."""

    def __init__(self, path: str) -> None:
        self.folder = os.path.join(path, "_delta_log")
        self._descriptor: int | None = None
        self.is_same_folder()

    def is_same_folder(self) -> bool:
        """Return True if the folder was not replaced since the first call.

        A store that is removed and created again uses the same names for other files. The descriptor stays open, so no
        other folder gets the same inode number.
        """
        try:
            now = os.stat(self.folder)
            if self._descriptor is None:
                self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
                weakref.finalize(self, os.close, self._descriptor)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self._descriptor))

    def entry_path(self, version: int) -> str:
        return os.path.join(self.folder, f"{version:020}.json")

    def checkpoint_path(self, version: int) -> str:
        return os.path.join(self.folder, f"{version:020}.checkpoint.parquet")

    @property
    def hint_path(self) -> str:
        """Path of the file that names the last checkpoint."""
        return os.path.join(self.folder, "_last_checkpoint")

    def has_version(self, version: int) -> bool:
        """Return True if the log has a version; raise OSError if the log cannot be reached."""
        try:
            os.stat(self.entry_path(version))
        except FileNotFoundError:
            return False
        return True

    def read_entry(self, version: int) -> bytes:
        """Return the bytes of an entry; raise FileNotFoundError if it does not exist."""
        with open(self.entry_path(version), "rb") as file:
            return file.read()

    def read_token(self, version: int) -> str | None:
        """Return the token of the commit that created a version; None without such a version or token."""
        try:
            return LogEntry.read(self.read_entry(version)).token
        except FileNotFoundError:
            return None

    def add_entry(self, version: int, data: bytes, durable: bool) -> None:
        """Add an entry atomically; raise FileExistsError if the log has that version."""
        create_file(self.entry_path(version), data, durable)

    def follow(self, version: int) -> tuple[int, bool]:
        """Return the last version that whole entries lead to from this one, and True if no other entry follows it."""
        try:
            while is_whole(self.read_entry(version + 1), version + 1):
                version += 1
        except FileNotFoundError:
            return version, True
        return version, False

    def write_checkpoint(self, version: int, data: bytes, hint: bytes) -> None:
        """Write a checkpoint durably, then the file that names it."""
        for path, content in ((self.checkpoint_path(version), data), (self.hint_path, hint)):
            write_bytes(path, content, True)
            sync(self.folder)

    def entry_time(self, version: int) -> float | None:
        """Return the modification time of an entry, by the clock of the file system; None if it does not exist."""
        try:
            return os.path.getmtime(self.entry_path(version))
        except OSError:
            return None

    def trim(self, last: int, hours: float, now: float) -> int:
        """Remove files older than the newest checkpoint that is at most version `last` and at least `hours` old.

        Return the number of removed files. The checkpoint must be loadable and synced, because nothing else describes
        the versions before it.
        """
        names = sorted(name for name in os.listdir(self.folder) if _VERSION.fullmatch(name))
        latest = now - hours * 3600
        checkpoints = [int(name[:20]) for name in names if name.endswith(".parquet")]
        old = [
            v for v in checkpoints if v <= last and (not hours or os.path.getmtime(self.checkpoint_path(v)) <= latest)
        ]
        old = [v for v in old[-1:] if is_loadable(self.checkpoint_path(v))]
        obsolete = [name for name in names if old and int(name[:20]) < old[-1]]
        if obsolete:
            sync(self.checkpoint_path(old[-1]), self.folder, self.hint_path, self.folder)
        for name in obsolete:
            remove(os.path.join(self.folder, name))
            fault_points.point("log.trimmed")
        return len(obsolete)

    def remove_temporary_files(self) -> int:
        """Remove temporary files that killed commits left; return their number."""
        names = [name for name in os.listdir(self.folder) if "#" in name or final_name(name) != name]
        return sum(remove(os.path.join(self.folder, name)) for name in names)


@dataclass(frozen=True)
class LogSurvey:
    """Condition of a log: `version` is the newest readable one, from the checkpoint `base` (None: entry 0) on.

    `torn` entries come after `version`; `stranded` ones are whole but come after a torn or missing one. `checkpoints`
    are damaged and newer than `base`. `hint` is the version that _last_checkpoint names if it has no readable
    checkpoint, -1 if that file is damaged, and None if it is intact or missing.
    """

    base: int | None
    version: int | None
    torn: tuple[int, ...] = ()
    stranded: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    hint: int | None = None

    @property
    def is_clean(self) -> bool:
        return not (self.torn or self.stranded or self.checkpoints) and self.hint is None

    @property
    def is_empty(self) -> bool:
        """Return True if no commit was ever acknowledged: the log is empty, or has only a torn first entry."""
        return self.version is None and not self.stranded and not self.checkpoints and self.torn in ((), (0,))

    @property
    def needs_links(self) -> bool:
        """Return True if Delta's reader would choose a damaged or missing checkpoint."""
        return bool(self.checkpoints) or self.hint not in (None, -1)


def survey_log(folder: str, check: Callable[[str], bool] = has_footer) -> LogSurvey:
    """Survey the log in a folder; `check` tests a checkpoint. Raise FileNotFoundError if the log changes during it."""
    hint = _read_hint(folder)  # first: it is written after its checkpoint
    names = [entry.name for entry in os.scandir(folder) if entry.is_file()]
    entries = {int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))}
    checkpoints = sorted((int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))), reverse=True)
    damaged: list[int] = []
    base: int | None = None
    for version in checkpoints:
        if check(os.path.join(folder, f"{version:020}.checkpoint.parquet")):
            base = version
            break
        damaged.append(version)
    last = -1 if base is None else base
    while last + 1 in entries and _is_entry_whole(folder, last + 1):
        last += 1
    torn: list[int] = []
    stranded: list[int] = []
    for version in sorted(entry for entry in entries if entry > last):
        (stranded if _is_entry_whole(folder, version) else torn).append(version)
    misleads = hint is not None and (hint < 0 or hint > (-1 if base is None else base) or hint in damaged)
    newest = None if last < 0 else last
    return LogSurvey(base, newest, tuple(torn), tuple(stranded), tuple(damaged), hint if misleads else None)


def _is_entry_whole(folder: str, version: int) -> bool:
    with open(os.path.join(folder, f"{version:020}.json"), "rb") as file:
        return is_whole(file.read(), version)


def _read_hint(folder: str) -> int | None:
    """Return the version that _last_checkpoint names; -1 if it cannot be read, None without such a file."""
    try:
        with open(os.path.join(folder, "_last_checkpoint"), "rb") as file:
            version = json.loads(file.read())["version"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return version if isinstance(version, int) and version >= 0 else -1


class LinkedLog:
    """Temporary folder with links to the readable files of a log up to one version; removed with this object.

    Delta's library works on the links where it would harm the log itself: it chooses damaged checkpoints, and syncs
    nothing that it writes.
    """

    def __init__(self, log: DeltaLog, survey: LogSurvey, parent: str | None = None) -> None:
        assert survey.version is not None
        self.path, self.version = tempfile.mkdtemp(prefix=LINKS_PREFIX, dir=parent), survey.version
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        self.log = DeltaLog(self.path)
        os.mkdir(self.log.folder)
        first = 0 if survey.base is None else survey.base + 1
        if survey.base is not None:
            os.symlink(log.checkpoint_path(survey.base), self.log.checkpoint_path(survey.base))
        for version in range(first, survey.version + 1):
            os.symlink(log.entry_path(version), self.log.entry_path(version))

    def open(self, app: str = "") -> LoadedTable:
        return load_table(self.path, app=app)

    def close(self) -> None:
        self._remove()


class LogRetention:
    """Removal of old versions from a log, and of the remains of interrupted commits."""

    def __init__(self, path: str, log: DeltaLog) -> None:
        self._path, self._log = path, log
        self._trimmed = 0  # version at the last trim

    def trim(self, version: int, now: float) -> None:
        """Remove old versions unless the last trim was less than TRIM_INTERVAL commits ago."""
        if version - self._trimmed >= TRIM_INTERVAL:
            self._trimmed = version
            self._log.trim(version - KEPT_VERSIONS, MIN_AGE_HOURS, now)

    def clear(self) -> int:
        """Remove the remains of interrupted commits while none is running; return the number of files in the log."""
        folder = os.path.join(self._path, "_quantide")
        for name in os.listdir(folder):
            if name.startswith(LINKS_PREFIX):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        return self._log.remove_temporary_files()


class LogWriter:
    """Writer of the log of a store."""

    def __init__(self, path: str, log: DeltaLog) -> None:
        self._path, self._log = path, log
        self.durable = False  # True if commits must survive a power loss

    def write_entry(
        self, version: int, operation: str, fields: Mapping[str, str], actions: Sequence[Action], batch: Any
    ) -> None:
        """Write the entry of a version. If that fails, check the log: the commit may have happened.

        The name of an entry is free for one writer only, unless the log was trimmed past it: then the entry before it
        is missing, too.
        """
        token = uuid4().hex
        identity = f"{COMMIT}:{version}:{token}" if batch is None else batch
        entry = encode_entry(operation, {COMMIT: token, **fields}, actions)
        try:
            fault_points.point("commit.before")
            self._log.add_entry(version, entry, self.durable)
            fault_points.point("commit.after")
        except OSError as error:
            self._check_committed(version, token, identity, error)
        try:
            if not self._log.has_version(version - 1):
                remove(self._log.entry_path(version))
                raise self.fenced_error()
            self.sync()
        except OSError as error:
            raise self._uncertain_error(identity, error) from error

    def sync(self) -> None:
        """Sync the folder of the log, if durable."""
        if self.durable:
            sync(self._log.folder)

    def write_checkpoint(self, version: int, table: DeltaTable) -> None:
        """Write a checkpoint; if that fails, the next one replaces it.

        Delta's library does not sync between the checkpoint and the file that names it. If durable, it writes both to
        a linked log, from which they are copied.
        """
        with suppress(OSError, DeltaError):
            if not self.durable:
                return table.create_checkpoint()
            with closing(self.link(version)) as links:
                links.open().table.create_checkpoint()
                content = [_read_file(path) for path in (links.log.checkpoint_path(version), links.log.hint_path)]
            self._log.write_checkpoint(version, *content)

    def link(self, version: int) -> LinkedLog:
        """Create a linked log up to a version, within the store."""
        survey = replace(survey_log(self._log.folder), version=version)
        return LinkedLog(self._log, survey, os.path.join(self._path, "_quantide"))

    def fenced_error(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self._path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def _check_committed(self, version: int, token: str, identity: Any, error: OSError) -> None:
        """Return if a commit that failed is in the log; otherwise raise the error that describes its state."""
        try:
            if not self._log.has_version(version - 1):
                raise self.fenced_error() from error
            if not self._log.has_version(version):
                raise StorageError(f"{self._path}: the commit failed, nothing was changed: {error}") from error
            if self._log.read_token(version) != token:
                raise self.fenced_error() from error
        except StorageError:
            raise
        except OSError as unknown:
            raise self._uncertain_error(identity, unknown) from error

    def _uncertain_error(self, identity: Any, error: OSError) -> CommitUncertainError:
        reason = f"{self._path}: its log cannot be reached: {error}"
        uncertain = CommitUncertainError(
            f"{reason}. The table may have this commit. Repeat the call on this handle, or with batch_id={identity!r}: "
            "rows that the table has are not added twice"
        )
        uncertain.batch_id, uncertain.reason = identity, reason
        return uncertain


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
