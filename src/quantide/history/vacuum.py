"""Vacuum: files that no version of the table needs any more."""

import os
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.store import faults
from quantide.store.commits import WritableTable
from quantide.store.names import DATA, SIDE, FileName, RunId, without_spare

MOST_HOURS = 10**6


@dataclass(frozen=True)
class Vacuumed:
    """How many files were removed, and how many bytes they had."""

    files: int
    bytes: int


def check_hours(hours: Any) -> float:
    """How long a file may wait."""
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or not 0 <= hours <= MOST_HOURS:
        raise InvalidArgumentError(f"older_than_hours is a number from 0 to {MOST_HOURS}, not {hours!r}")
    return float(hours)


def vacuum(table: WritableTable, pending: Iterable[RunId], recent: Container[str], hours: float) -> Vacuumed:
    """Remove what was merged away or dropped at least that many hours ago, and what was written and never committed.

    A reader may still have the files of an older version in hand: those wait. How long is told by the time of a file,
    which is that of its removal from the table. Files of a later epoch are left alone: then this writer was fenced off
    and does not know it yet.

    A merge may run meanwhile. So what lies there is listed first, then what is in hand, then what is active: a file
    of the list that is committed on the way is found in one of the two. `recent` are names of recent files in hand.
    """
    table.check_writer()
    found = _entries(table.path)
    in_hand = set(pending)
    active = set(table.files())
    latest = time.time() - hours * 3600
    removed = table.clear_recent(recent, hours)
    files, size = table.clear_log(hours) + len(removed), sum(removed)
    for name, whole, entry in found:
        if name.run in in_hand or name.run.epoch > table.epoch or (whole and name in active):
            continue
        with suppress(FileNotFoundError):
            held = entry.stat()
            if whole and hours and held.st_mtime > latest:
                continue
            os.remove(entry.path)
            files, size = files + 1, size + held.st_size
        faults.point("vacuum.removed")
    return Vacuumed(files, size)


def _entries(path: str) -> list[tuple[FileName, bool, "os.DirEntry[str]"]]:
    """The data and side files that lie there, and whether they are whole or were being written."""
    out = []
    for folder, parse in ((DATA, FileName.parse), (SIDE, FileName.parse_side)):
        place = os.path.join(path, folder)
        found = sorted(os.scandir(place), key=lambda entry: entry.name) if os.path.isdir(place) else []
        named = [(parse(f"{folder}/{without_spare(entry.name)}"), entry) for entry in found]
        out += [(name, without_spare(entry.name) == entry.name, entry) for name, entry in named if name is not None]
    return out
