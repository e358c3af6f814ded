"""The log of the table as files: which versions it still has, and the end of those that nobody needs any more."""

import os
import re
import time
import weakref

from quantide.store import faults
from quantide.store.disk import remove, sync

_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")


class Log:
    """A version that is there has all later ones after it: the oldest go first, and none from a checkpoint on."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.join(path, "_delta_log")
        self._held: int | None = None
        self.is_same()

    def is_same(self) -> bool:
        """Whether the folder is the one that it was at first: a store that is removed and made again has the same
        names for other files. While it is held open, no other folder can have its number."""
        try:
            now = os.stat(self._folder)
            if self._held is None:
                self._held = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
                weakref.finalize(self, os.close, self._held)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(self._held))

    def entry(self, version: int) -> str:
        """Where the log has a version."""
        return os.path.join(self._folder, f"{version:020}.json")

    def has(self, version: int) -> bool:
        return os.path.exists(self.entry(version))

    def sync(self, version: int) -> None:
        """Make a version, and the checkpoint that may have come with it, outlast a loss of power."""
        sync(
            self.entry(version), self._checkpoint(version), os.path.join(self._folder, "_last_checkpoint"), self._folder
        )

    def trim(self, last: int, hours: float) -> int:
        """Remove what is older than a checkpoint that is of version `last` at most, and that many hours old.

        How many files went. The checkpoint must outlast a loss of power, for nothing else tells what was before it.
        """
        found = sorted(name for name in os.listdir(self._folder) if _VERSION.fullmatch(name))
        latest = time.time() - hours * 3600
        held = [int(name[:20]) for name in found if name.endswith(".parquet")]
        old = [v for v in held if v <= last and (not hours or os.path.getmtime(self._checkpoint(v)) <= latest)]
        gone = [name for name in found if old and int(name[:20]) < old[-1]]
        if gone:
            sync(self._checkpoint(old[-1]), self._folder)
        for name in gone:
            remove(os.path.join(self._folder, name))
            faults.point("log.trimmed")
        return len(gone)

    def clear(self) -> int:
        """Remove what a commit leaves that is cut off by a kill: files under a name for the time being; how many."""
        left = [name for name in os.listdir(self._folder) if "#" in name]
        return sum(remove(os.path.join(self._folder, name)) for name in left)

    def _checkpoint(self, version: int) -> str:
        return self.entry(version).replace(".json", ".checkpoint.parquet")
