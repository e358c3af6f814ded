"""Snapshot of a foreign Delta table: its active files at a version, from a checkpoint and the entries after it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import SourceTableError
from quantide.store.file_names import LOG, entry_name
from quantide.store.storage import Storage

Action = dict[str, Any]  # such as {"add": {...}}

FEATURES = {  # of readers, that change nothing about how appended files are read; deletion vectors are checked by file
    "appendOnly",
    "deletionVectors",
    "invariants",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "vacuumProtocolCheck",
    "columnMapping",  # only if a column is mapped
}
COLUMNS = (
    *("add.path", "add.size", "add.modificationTime", "add.partitionValues", "add.deletionVector.storageType"),
    *("metaData.id", "metaData.configuration", "protocol"),
)
_ENTRY = re.compile(rf"{LOG}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")


@dataclass
class DeltaSnapshot:
    """Version, active files by path (the `add` actions), and metadata."""

    version: int = -1
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, storage: Storage, version: int | None, key: str) -> "DeltaSnapshot":
        """Read the snapshot of a version, or of the newest one; errors begin with `key`."""
        names = [file.name for file in storage.list_files(LOG)]
        entries = {int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))}
        last = max(entries, default=-1) if version is None else version
        parts = [match for name in names if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= last]
        if not entries and not parts:
            raise SourceTableError(f"{key}.source.path: there is no Delta table at {storage.path}; correct the path")
        snapshot = cls()
        for base in sorted({int(match[1]) for match in parts}, reverse=True):
            files = [match[0] for match in parts if int(match[1]) == base and match[2]]
            single = [match[0] for match in parts if int(match[1]) == base and not match[2]]
            total = max((int(match[3]) for match in parts if int(match[1]) == base and match[3]), default=0)
            if single or (files and len(files) == total):
                for name in single[:1] or sorted(files):
                    snapshot._apply(_read_checkpoint(storage, name), f"{key}: {storage.path}")
                snapshot.version = base
                break
        for number in range(snapshot.version + 1, last + 1):
            if number not in entries:
                raise SourceTableError(
                    f"{key}: version {last} of {storage.path} cannot be read: its log lacks version {number}, and no "
                    f'checkpoint replaces it. Set {key}.source.start = "new" and pass --reset to go on with the '
                    "newest version"
                )
            actions = read_entry(storage, number)
            actions.sort(key=lambda action: "add" in action)  # a file whose deleted rows change is removed and added
            snapshot._apply(iter(actions), f"{key}: {storage.path}")
        snapshot.version = last
        return snapshot

    def _apply(self, actions: Iterator[Action], name: str) -> None:
        for action in actions:
            check_table(action, name)
            if "add" in action:
                self.files[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                self.files.pop(action["remove"]["path"], None)
            elif "metaData" in action:
                self.metadata = action["metaData"]


def read_entry(storage: Storage, version: int) -> list[Action]:
    """Return the actions of a version; raise FileNotFoundError if the log does not have it."""
    data = storage.read(entry_name(version))
    try:
        return [json.loads(line) for line in data.splitlines() if line.strip()]
    except ValueError as error:
        raise SourceTableError(
            f"{storage.full_path(entry_name(version))} is not an entry of a Delta log: {error}. Repair the table"
        ) from error


def check_table(action: Action, name: str) -> None:
    """Raise if a table needs a reader that Quantide is not."""
    protocol = action.get("protocol") or {}
    unknown = set(protocol.get("readerFeatures") or ()) - FEATURES
    if unknown:
        raise SourceTableError(
            f"{name} needs the reader features {', '.join(sorted(unknown))}, which Quantide does not have; turn them "
            "off, or export the table as Parquet files"
        )
    configuration = dict((action.get("metaData") or {}).get("configuration") or ())
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise SourceTableError(
            f"{name} maps its columns to other names in its files (delta.columnMapping.mode), which Quantide does not "
            "read; rewrite the table without column mapping, or export it as Parquet files"
        )


def _read_checkpoint(storage: Storage, name: str) -> Iterator[Action]:
    try:
        with pq.ParquetFile(pa.BufferReader(storage.read(name))) as file:
            table = file.read(columns=[*COLUMNS])
    except (pa.ArrowException, ValueError) as error:
        raise SourceTableError(f"{storage.full_path(name)} cannot be read: {error}. Repair the table") from error
    for kind in table.column_names:
        for body in table[kind].combine_chunks().drop_null().to_pylist():
            yield {kind: _plain(body)}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """Return an action as entries of the log have it: without nulls, and with maps as objects."""
    plain = {name: value for name, value in body.items() if value is not None}
    for name in ("partitionValues", "configuration"):
        if name in plain:
            plain[name] = dict(plain[name])
    if not (plain.get("deletionVector") or {}).get("storageType"):
        plain.pop("deletionVector", None)
    return plain
