"""Lister of Delta tables: the data files that each version of the table's log adds.

The position is a version. Reading begins with the files of one version of the table, then follows the log entry by
entry. Entries that only rearrange rows (`dataChange` is false) are skipped, because their rows are in the store.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from quantide.config import StreamConfig
from quantide.errors import SourceTableError
from quantide.spark.stream.delta_snapshot import Action, DeltaSnapshot, check_table, read_entry
from quantide.spark.stream.file_lister import IsRecorded, Listing, read_position, write_position
from quantide.spark.stream.folder_lister import LOCAL_PAUSE, REMOTE_PAUSE
from quantide.store.file_names import LOG, entry_name
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import open_storage

KIND = "delta"
MAX_LISTED = 10_000  # files of one listing, unless one version has more
_ENTRY = re.compile(rf"{LOG}/(\d{{20}})\.json")
_URI = re.compile(r"[a-z][a-z0-9+.-]*:/")


class DeltaLister:
    """Finds the files that were appended to a table in a folder or an object store."""

    def __init__(self, stream: StreamConfig) -> None:
        source = stream.source
        self._source, self._key, self._path = source, stream.key, (source.path or "").rstrip("/")
        self._storage = open_storage(self._path, dict(source.storage_options) if source.is_remote else None)
        self.pause = REMOTE_PAUSE if source.is_remote else LOCAL_PAUSE
        self._checked = False  # True if the table is the one of the position, and its log reaches back to it
        self._last_entry: tuple[float, ...] = ()  # version, size and time of the log entry of the position

    def list_new(self, position: str, is_recorded: IsRecorded) -> Listing:
        fields = read_position(position, KIND)
        if fields is None:
            return self._start(is_recorded)
        version, table = int(fields["version"]), str(fields["table"])
        if fields.get("snapshot"):
            snapshot = self._read_snapshot(version)  # not the newest one: a compaction may have moved rows since
            files = self._new_files(snapshot.files.values(), is_recorded)
            return Listing(tuple(files), self._position(version, table), True)
        self._checked = self._checked and not self._has_changed(version)
        if not self._checked:
            self._check(version, table)
        return self._follow(version, table, is_recorded)

    def list_present(self) -> Mapping[str, IngestedFile]:
        files = map(self._file, self._read_snapshot(None).files.values())
        return {file.path: file for file in files}

    def _start(self, is_recorded: IsRecorded) -> Listing:
        """Begin with the table as it is, with rows that are added from now on, or with a version."""
        snapshot = self._read_snapshot(None)
        version, table, start = snapshot.version, str(snapshot.metadata.get("id")), self._source.start
        self._checked = True
        if start == "all":
            files = self._new_files(snapshot.files.values(), is_recorded)
            partial = write_position(KIND, version=version, table=table, snapshot=True)
            return Listing(tuple(files), self._position(version, table), True, partial)
        if start == "new":
            return Listing((), self._position(version, table), True)
        if int(start) > version + 1:
            raise SourceTableError(
                f"{self._key}.source.start is {start}, and the newest version of {self._path} is {version}; choose an "
                'earlier one, or "new"'
            )
        self._check(int(start) - 1, table)
        return Listing((), self._position(int(start) - 1, table), True)

    def _follow(self, version: int, table: str, is_recorded: IsRecorded) -> Listing:
        """Return the files of the versions after one, up to MAX_LISTED."""
        files: list[IngestedFile] = []
        while len(files) < MAX_LISTED:
            try:
                actions = read_entry(self._storage, version + 1)
            except FileNotFoundError:
                return Listing(tuple(files), self._position(version, table))
            if files and self._is_change(actions):
                break  # first those before it; then it is refused or skipped
            files += self._new_files(self._appended(version + 1, table, actions), is_recorded)
            version += 1
        return Listing(tuple(files), self._position(version, table), True)

    def _appended(self, version: int, table: str, actions: list[Action]) -> Iterator[dict[str, Any]]:
        """Yield the files that a version appends; raise if the stream cannot follow it."""
        for action in actions:
            check_table(action, f"{self._key}: version {version} of {self._path}")
            if "metaData" in action and str(action["metaData"].get("id")) != table:
                raise self._replaced_error(table, str(action["metaData"].get("id")))
        if self._is_change(actions):
            if self._source.on_change == "skip":
                return
            raise SourceTableError(
                f"{self._key}: version {version} of {self._path} deletes or changes rows "
                f"({_operation(actions)}), and the store has them already. Set {self._key}.source.on_change = "
                f'"skip" to ignore such versions with all that they add, or start again with source.start = '
                f"{version + 1} and --reset"
            )
        for action in actions:
            if "add" in action and action["add"].get("dataChange", True):
                yield action["add"]

    def _is_change(self, actions: Iterable[Action]) -> bool:
        """Return True if a version removes rows; a compaction only moves them."""
        return any("remove" in action and action["remove"].get("dataChange", True) for action in actions)

    def _has_changed(self, version: int) -> bool:
        """Return True if the log entry of the position is another one than before: the table may have been replaced."""
        before = self._last_entry
        try:
            status = self._storage.stat(entry_name(version))
            self._last_entry = (version, status.size, status.modified)
        except FileNotFoundError:
            self._last_entry = (version,)
        return before[:1] == (version,) and before != self._last_entry

    def _check(self, version: int, table: str) -> None:
        """Raise if the table was replaced, or its log does not reach back to the version after this one."""
        snapshot = self._read_snapshot(None)
        found = str(snapshot.metadata.get("id"))
        if found != table:
            raise self._replaced_error(table, found)
        if snapshot.version < version:
            raise SourceTableError(
                f"{self._key}: the store has rows of version {version} of {self._path}, whose newest version is "
                f"{snapshot.version}: the table was restored from a copy. {self._advice()}"
            )
        entries = [match for file in self._storage.list_files(LOG) if (match := _ENTRY.fullmatch(file.name))]
        oldest = min((int(match[1]) for match in entries), default=version + 1)
        if version < snapshot.version and oldest > version + 1:
            raise SourceTableError(
                f"{self._key}: the log of {self._path} begins with version {oldest}, and the store needs it from "
                f"version {version + 1} on: older entries were removed. {self._advice()}"
            )
        self._checked = True

    def _advice(self) -> str:
        return (
            f'Set {self._key}.source.start = "new" and pass --reset to go on without the rows in between, or ingest '
            "the table into a new store"
        )

    def _replaced_error(self, table: str, found: str) -> SourceTableError:
        return SourceTableError(
            f"{self._key}: {self._path} is another table ({found}) than the one that the store has rows of ({table}). "
            "Pass --reset with --allow-duplicates to read it, too, or give it a stream of its own"
        )

    def _read_snapshot(self, version: int | None) -> DeltaSnapshot:
        return DeltaSnapshot.read(self._storage, version, self._key)

    def _new_files(self, adds: Iterable[dict[str, Any]], is_recorded: IsRecorded) -> list[IngestedFile]:
        files = []
        for add in adds:
            file = self._file(add)
            if is_recorded(file.path):
                continue
            if add.get("deletionVector"):
                raise SourceTableError(
                    f"{self._key}: {file.path} has a deletion vector, and its deleted rows would be read. Rewrite the "
                    "table without deletion vectors (REORG TABLE ... APPLY (PURGE))"
                )
            files.append(file)
        return files

    def _file(self, add: dict[str, Any]) -> IngestedFile:
        path = unquote(str(add["path"]))
        if not _URI.match(path) and not path.startswith("/"):
            path = f"{self._path}/{path}"
        values = add.get("partitionValues") or {}
        keys = tuple((name, value or None) for name, value in sorted(values.items()))
        return IngestedFile(path.removeprefix("file://"), int(add["size"]), int(add.get("modificationTime") or 0), keys)

    def _position(self, version: int, table: str) -> str:
        return write_position(KIND, version=version, table=table)


def _operation(actions: Iterable[Action]) -> str:
    """Return the operation of a version, as its writer names it."""
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    return str(infos[0].get("operation", "a removal")) if infos else "a removal"
