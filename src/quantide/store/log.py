"""The log of the table as files: which versions it still has, and the end of those that nobody needs any more."""

import os
import re
import weakref

from quantide.store import faults
from quantide.store.disk import put_file, remove, sync, write_bytes
from quantide.store.entry import LogEntry, is_whole
from quantide.store.names import without_spare
from quantide.store.survey import is_checkpoint

_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


class Log:
    """A version that is there has all later ones after it: the oldest go first, and none from a checkpoint on."""

    def __init__(self, path: str) -> None:
        self.folder = os.path.join(path, "_delta_log")
        self._held: int | None = None
        self.is_same()

    def is_same(self) -> bool:
        """Whether the folder is the one that it was at first: a store that is removed and made again has the same
        names for other files. While it is held open, no other folder can have its number."""
        try:
            now = os.stat(self.folder)
            if self._held is None:
                self._held = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
                weakref.finalize(self, os.close, self._held)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self._held))

    def entry(self, version: int) -> str:
        """Where the log has a version."""
        return os.path.join(self.folder, f"{version:020}.json")

    def checkpoint(self, version: int) -> str:
        return os.path.join(self.folder, f"{version:020}.checkpoint.parquet")

    @property
    def hint(self) -> str:
        """The file that names the last checkpoint."""
        return os.path.join(self.folder, "_last_checkpoint")

    def has(self, version: int) -> bool:
        """Return True if the log has a version; an OSError means that the log cannot be reached."""
        try:
            os.stat(self.entry(version))
        except FileNotFoundError:
            return False
        return True

    def read(self, version: int) -> bytes:
        """The bytes of an entry; FileNotFoundError when there is none."""
        with open(self.entry(version), "rb") as file:
            return file.read()

    def token(self, version: int) -> str | None:
        """The token of the commit that made a version; None when the log has no such version, or it has no token."""
        try:
            return LogEntry.read(self.read(version)).token
        except FileNotFoundError:
            return None

    def put(self, version: int, data: bytes, durable: bool) -> None:
        """Add an entry, whole or not at all; FileExistsError when the log has that version."""
        put_file(self.entry(version), data, durable)

    def follows(self, version: int) -> tuple[int, bool]:
        """The last version that whole entries lead to from this one; and whether no other entry follows it."""
        try:
            while is_whole(self.read(version + 1), version + 1):
                version += 1
        except FileNotFoundError:
            return version, True
        return version, False

    def write_checkpoint(self, version: int, data: bytes, hint: bytes) -> None:
        """Write a checkpoint for good, then the file that names it."""
        for path, content in ((self.checkpoint(version), data), (self.hint, hint)):
            write_bytes(path, content, True)
            sync(self.folder)

    def modified(self, version: int) -> float | None:
        """When an entry was written, by the clock of the file system; None when it is gone."""
        try:
            return os.path.getmtime(self.entry(version))
        except OSError:
            return None

    def trim(self, last: int, hours: float, now: float) -> int:
        """Remove what is older than a checkpoint that is of version `last` at most, and that many hours old.

        How many files went. The checkpoint must be whole and outlast a loss of power, for nothing else tells what was
        before it.
        """
        found = sorted(name for name in os.listdir(self.folder) if _VERSION.fullmatch(name))
        latest = now - hours * 3600
        held = [int(name[:20]) for name in found if name.endswith(".parquet")]
        old = [v for v in held if v <= last and (not hours or os.path.getmtime(self.checkpoint(v)) <= latest)]
        old = [v for v in old[-1:] if is_checkpoint(self.checkpoint(v), deep=True)]
        gone = [name for name in found if old and int(name[:20]) < old[-1]]
        if gone:
            sync(self.checkpoint(old[-1]), self.folder, self.hint, self.folder)
        for name in gone:
            remove(os.path.join(self.folder, name))
            faults.point("log.trimmed")
        return len(gone)

    def clear(self) -> int:
        """Remove what a commit leaves that is cut off by a kill: files under a name for the time being; how many."""
        left = [name for name in os.listdir(self.folder) if "#" in name or without_spare(name) != name]
        return sum(remove(os.path.join(self.folder, name)) for name in left)
