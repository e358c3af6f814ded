"""Files set aside: what is damaged leaves the log, and is kept, with the data that it may have been about.

A torn entry cannot tell what its commit did. The data files that it names as far as it can be read, or else those
that were written last and belong to no version, are kept beside it: `History.append_files` adds them again.
"""

import os
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass

from quantide.errors import CorruptBytesError
from quantide.store.disk import make_folder, move_file, sync
from quantide.store.entry import LogEntry
from quantide.store.names import DATA, FileName
from quantide.store.place import Folder
from quantide.store.sidefile import SideFile

ASIDE = "_quantide/aside"


@dataclass(frozen=True)
class Evidence:
    """Data files that a torn commit may have added: their names, rows, and the ids of the batches they are of."""

    names: tuple[FileName, ...] = ()
    rows: int = 0
    batches: tuple[str, ...] = ()
    is_merge: bool = False  # nothing is lost with a merge: its inputs are active again


def move_aside(path: str, file: str, durable: bool) -> str:
    """Move a file of the store out of the log's way; its new name within the store."""
    base, name, number = os.path.basename(file), "", 0
    while not name or os.path.exists(os.path.join(path, name)):
        name, number = f"{ASIDE}/{base}" + (f".{number}" if number else ""), number + 1
    move_file(file, os.path.join(path, name), durable)
    return name


def count_aside(path: str) -> int:
    """How many files of the log are set aside."""
    try:
        return sum(name.startswith("0") for name in os.listdir(os.path.join(path, ASIDE)))
    except FileNotFoundError:
        return 0


def find_evidence(path: str, entry: str, before: str, active: Container[FileName], step: int) -> Evidence:
    """Find what a torn entry was about; `before` is the entry before it, `active` and `step` are of that version."""
    with open(entry, "rb") as file:
        known = LogEntry.read(file.read())
    if any("remove" in action for action in known.actions):
        return Evidence(is_merge=True)
    names = [name for path in known.added if (name := FileName.parse(path)) is not None]
    names = names or [name for name in _orphans(path, before, active) if name.run.first >= step]
    found: list[FileName] = []
    rows, batches = 0, set()
    for name in names:
        with suppress(FileNotFoundError, CorruptBytesError):
            about = SideFile(Folder(path).mapped(name.side), name.side).about
            if name.run.level > 0 or len(about.sources) > 1:
                continue  # made by a merge, whose inputs are active
            if os.path.getsize(os.path.join(path, name.data)) == about.data_size:
                found.append(name)
                rows += about.rows
                batches.update(about.sources)
    return Evidence(tuple(found), rows, tuple(sorted(batches)))


def keep_data(path: str, evidence: Evidence, durable: bool) -> None:
    """Link data files beside what is set aside: vacuum does not remove them there."""
    folder = os.path.join(path, ASIDE)
    make_folder(folder, durable)
    for name in evidence.names:
        with suppress(FileExistsError, FileNotFoundError):
            os.link(os.path.join(path, name.data), os.path.join(folder, f"{name.stem}.parquet"))
    if durable:
        sync(folder)


def _orphans(path: str, before: str, active: Container[FileName]) -> list[FileName]:
    """Data files that belong to no version, and are newer than an entry."""
    try:
        since = os.path.getmtime(before)
        found = [entry for entry in os.scandir(os.path.join(path, DATA)) if entry.stat().st_mtime >= since]
    except FileNotFoundError:
        return []
    names = [FileName.parse(f"{DATA}/{entry.name}") for entry in found]
    return sorted(name for name in names if name is not None and name not in active)
