"""Listers of folders: of this machine, and in object storage.

A local folder is scanned by names; a file is looked at only if its name is new. A folder whose modification time is
unchanged, and older than the clock's resolution when it was scanned, has no new names.

An object store has no such time, and a listing takes a request for each 1,000 objects. The pause between two listings
grows with their duration. If names sort by time, most listings begin after the last name; a full listing now and then
finds the names that were late.
"""

import os
import stat
import time
from collections.abc import Iterator, Mapping

from quantide.config import Source, StreamConfig
from quantide.errors import ConfigError, StorageError
from quantide.spark.stream.file_lister import IsRecorded, Listing, read_position, write_position
from quantide.spark.stream.stream_source import expand_folders, is_listed_name, list_files, list_objects
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions
from quantide.store.object_files import SourceAccess

KIND = "folder"
LOCAL_PAUSE, REMOTE_PAUSE = 0.1, 0.25  # seconds between two listings; more if they take long
COST_FACTOR = 4  # a listing that takes a second is followed by a pause of four
FULL_FACTOR, FULL_PAUSE = 20, 60.0  # the same for full listings of a source whose names sort by time
CLOCK_RESOLUTION = 2 * 10**9  # nanoseconds; a file that appears within them may leave its folder's time as it is


class LocalFolderLister:
    """Lists a folder of this machine, or a glob of folders."""

    def __init__(self, stream: StreamConfig) -> None:
        self._source, self._key, self.pause = stream.source, stream.key, LOCAL_PAUSE
        self._unchanged: dict[str, tuple[int, list[str]]] = {}  # folders without new names: their time, and subfolders

    def list_new(self, position: str, is_recorded: IsRecorded) -> Listing:
        began = time.monotonic()
        base = self._source.path or ""
        roots = expand_folders(base)
        if not roots and not any(character in base for character in "*?[{"):
            raise ConfigError(f"{self._key}.source.path: there is no folder {base}; make it, or correct the path")
        files = [file for root in roots for file in self._scan_root(root, is_recorded)]
        self.pause = max(LOCAL_PAUSE, COST_FACTOR * (time.monotonic() - began))
        return Listing(tuple(files), position)

    def list_present(self) -> Mapping[str, IngestedFile]:
        return list_files(self._source, StorageOptions())

    def _scan_root(self, root: str, is_recorded: IsRecorded) -> Iterator[IngestedFile]:
        if os.path.isdir(root):
            yield from self._scan(root, len(root) + 1, is_recorded)
        elif is_listed_name(os.path.basename(root), self._source) and not is_recorded(root):
            yield from _stat_file(root)

    def _scan(self, folder: str, below: int, is_recorded: IsRecorded) -> Iterator[IngestedFile]:
        try:
            modified, now = os.stat(folder).st_mtime_ns, time.time_ns()
            known = self._unchanged.get(folder)
            if known is not None and known[0] == modified:
                folders = known[1]
            else:
                new, folders = self._scan_names(folder, below, is_recorded)
                if not new and now - modified > CLOCK_RESOLUTION:
                    self._unchanged[folder] = (modified, folders)
                yield from new
        except FileNotFoundError:  # it was removed since
            self._unchanged.pop(folder, None)
            return
        except OSError as error:
            raise StorageError(f"{folder} cannot be listed: {error}. Check its permissions") from error
        for path in folders:
            yield from self._scan(path, below, is_recorded)

    def _scan_names(self, folder: str, below: int, is_recorded: IsRecorded) -> tuple[list[IngestedFile], list[str]]:
        """Return new files of a folder, and its subfolders."""
        files: list[IngestedFile] = []
        folders: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                path = entry.path
                if is_recorded(path) or not is_listed_name(path[below:], self._source, entry.is_dir()):
                    continue
                if entry.is_dir():
                    folders.append(path)
                else:
                    files += _stat_file(path)
        return files, folders


def _stat_file(path: str) -> list[IngestedFile]:
    """Return a regular file; nothing if there is none any more."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return []
    return [IngestedFile(path, status.st_size, status.st_mtime_ns // 10**6)] if stat.S_ISREG(status.st_mode) else []


class ObjectFolderLister:
    """Lists a prefix in an object store, or a glob."""

    def __init__(self, source: Source, access: SourceAccess) -> None:
        self._source, self._access, self.pause = source, access, REMOTE_PAUSE
        self._present: dict[str, IngestedFile] | None = None
        self._next_full = 0.0

    def list_new(self, position: str, is_recorded: IsRecorded) -> Listing:
        began = time.monotonic()
        fields = read_position(position, KIND)
        after = str(fields["after"]) if fields and self._source.ordered and began < self._next_full else None
        listed = list_objects(self._source, self._access, after)
        seconds = time.monotonic() - began
        self.pause = max(REMOTE_PAUSE, COST_FACTOR * seconds)
        if after is None:
            self._present = {file.path: file for file in listed}
            pause = max(FULL_PAUSE, FULL_FACTOR * seconds) if self._source.ordered else 0.0
            self._next_full = time.monotonic() + pause
        elif listed:
            self._present = (self._present or {}) | {file.path: file for file in listed}
        new = tuple(file for file in listed if not is_recorded(file.path))
        last = max((file.path for file in listed), default=after or "")
        return Listing(new, write_position(KIND, after=last) if self._source.ordered and last else position)

    def list_present(self) -> Mapping[str, IngestedFile]:
        """Return the files of the last listings; list them if there was none."""
        if self._present is None:
            self._present = list_files(self._source, self._access)
        return self._present
