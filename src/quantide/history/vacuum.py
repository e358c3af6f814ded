"""Vacuum: files that no version of the table needs any more."""

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.store import faults
from quantide.store.commits import WritableTable
from quantide.store.confine import check_confined
from quantide.store.disk import remove, sync_filesystem
from quantide.store.names import DATA, SIDE, FileName, RunId, without_spare
from quantide.store.retired import Age, RetiredFiles

MOST_HOURS = 10**6


@dataclass(frozen=True)
class Vacuumed:
    """How many files were removed, and how many bytes they had."""

    files: int
    bytes: int


def check_hours(hours: Any, name: str = "older_than_hours") -> float:
    """How long a file may wait."""
    if isinstance(hours, bool) or not isinstance(hours, (int, float)) or not 0 <= hours <= MOST_HOURS:
        raise InvalidArgumentError(f"{name} is a number from 0 to {MOST_HOURS}, not {hours!r}")
    return float(hours)


def vacuum(table: WritableTable, pending: Iterable[RunId], recent: Container[str], hours: float) -> Vacuumed:
    """Remove what was merged away or dropped at least that many hours ago, and what was written and never committed.

    A reader may still have the files of an older version in hand: those wait. How long is told by the time of a file,
    which is that of its removal from the table. Files of a later epoch are left alone: then this writer was fenced off
    and does not know it yet.

    A merge may run meanwhile. So what lies there is listed first, then what is in hand, then what is active: a file
    of the list that is committed on the way is found in one of the two. `recent` are names of recent files in hand.
    """
    check_confined(table.path)
    table.check_writer()
    found = _entries(table.path)
    in_hand = set(pending)
    active = set(table.files())
    latest = table.file_time() - hours * 3600
    sync_filesystem(table.path)  # what replaces files outlasts a loss of power before these are removed
    removed = table.clear_recent(recent, hours)
    files, size = table.clear_log(hours) + len(removed), sum(removed)
    for name, whole, entry in found:
        if name.run in in_hand or name.run.epoch > table.epoch or (whole and name in active):
            continue
        with suppress(FileNotFoundError):
            held = entry.stat(follow_symlinks=False)
            if whole and hours and held.st_mtime > latest:
                continue
            gone = remove(entry.path)
            files, size = files + gone, size + (held.st_size if gone and held.st_nlink == 1 else 0)
        faults.point("vacuum.removed")
    return Vacuumed(files, size)


def purge_retired(table: WritableTable, retired: RetiredFiles, grace: float | None) -> Vacuumed:
    """Remove files that retention retired that many hours ago; None: as many steps ago as half the retention has."""
    table.check_writer()
    step, retention = table.step, table.settings.retention

    def is_over(name: FileName, age: Age) -> bool:
        if name in active:  # it was brought back
            return True
        if grace is not None:
            return age.seconds >= grace * 3600
        return step - age.step >= max(1, (retention or 0) // 2)

    with retired.lock:
        active = set(table.files())
        return Vacuumed(*retired.purge(step, is_over))


def _entries(path: str) -> list[tuple[FileName, bool, "os.DirEntry[str]"]]:
    """The data and side files that lie there, and whether they are whole or were being written."""
    out = []
    for folder, parse in ((DATA, FileName.parse), (SIDE, FileName.parse_side)):
        place = os.path.join(path, folder)
        found = sorted(os.scandir(place), key=lambda entry: entry.name) if os.path.isdir(place) else []
        named = [(parse(f"{folder}/{without_spare(entry.name)}"), entry) for entry in found]
        out += [(name, without_spare(entry.name) == entry.name, entry) for name, entry in named if name is not None]
    return out
