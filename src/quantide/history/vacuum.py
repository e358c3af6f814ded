"""Vacuum: files that no version of the table needs any more."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from quantide.store import faults
from quantide.store.disk import remove
from quantide.store.names import DATA, SIDE, FileName, RunId
from quantide.store.table import StreamTable


@dataclass(frozen=True)
class Vacuumed:
    """How many files were removed, and how many bytes they had."""

    files: int
    bytes: int


def vacuum(table: StreamTable, pending: Iterable[RunId], hours: float) -> Vacuumed:
    """Remove what was merged away or dropped at least that many hours ago, and what was never committed.

    A reader may still have the files of an older version in hand: those wait. Files that were never committed have
    no reader; they are of a writer that died, or of this one but not in hand: both are sure, because names carry
    the epoch of their writer and there is no other writer now.
    """
    active, in_hand = set(table.files()), set(pending)
    waiting = set(table.expired(0)) - set(table.expired(hours))
    files = size = 0
    for folder, parse in ((DATA, FileName.parse), (SIDE, FileName.parse_side)):
        for entry in _entries(os.path.join(table.path, folder)):
            name = parse(f"{folder}/{entry.name}")
            needed = name is None or name in active or name.run in in_hand or name.data in waiting
            if not needed:
                size += entry.stat().st_size
                files += remove(entry.path)
                faults.point("vacuum.removed")
    return Vacuumed(files, size)


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    return sorted(os.scandir(folder), key=lambda entry: entry.name) if os.path.isdir(folder) else []
