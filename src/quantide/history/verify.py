"""Verify: every file of a store read again, and compared with all that is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.history.rebuild import load
from quantide.history.run import Part
from quantide.history.snapshot import Snapshot
from quantide.store.log import Log
from quantide.store.manifest import Entry
from quantide.store.names import FileName
from quantide.store.place import Place, check_whole
from quantide.store.recent import RecentFile
from quantide.store.rows import key_type
from quantide.store.settings import Settings
from quantide.store.sidefile import SideFile
from quantide.store.survey import survey_log
from quantide.store.table import StreamTable

Name = FileName | str  # of a data file with its side file, or of a recent file


@dataclass(frozen=True)
class Verified:
    """What verify() looked at and found in order."""

    files: int
    values: int


def verify(table: StreamTable, snapshot: Snapshot, good: set[Name]) -> Verified:
    """Look at all files of a snapshot but the `good` ones; those that are in order are added to these.

    FileNotFoundError when one was merged away meanwhile: a newer snapshot has others in its place.
    """
    damaged: list[Exception] = []
    for name, look in _checks(table, snapshot).items():
        try:
            if name not in good:
                look()
                good.add(name)
        except FileNotFoundError:
            if not _counts(table, name):
                raise
            damaged.append(_missing(table.place, name))
        except (InvalidArgumentError, ValueError) as error:
            damaged.append(error)
    if damaged:
        raise type(damaged[0])("; ".join(str(error) for error in damaged)) from damaged[0]
    return Verified(len(snapshot.files), snapshot.history_rows + snapshot.stream_rows)


def check_log(path: str) -> None:
    """Refuse a log with files that are torn, or that a reader passes by."""
    survey = survey_log(Log(path).folder, deep=True)
    if not survey.is_clean:
        raise CorruptBytesError(
            f"its log is damaged after version {survey.version}; all before is in order. "
            f"`quantide history repair {path}` mends what can be mended"
        )


def check_part(place: Place, part: Part, settings: Settings) -> None:
    """Read a data file and its side file again, and compare everything that is known twice."""
    name = part.name
    side = SideFile(place.mapped(name.side), name.side)
    side.check()
    check_whole(place, part.path, side.about.data_size, side.about.data_crc)
    rows = load(place, part.path, settings)
    t = side.tuples
    same = (
        np.array_equal(rows.counts, side.counts)
        and rows.keys.equals(side.keys)
        and np.array_equal(rows.values[:: side.about.block_rows], side.fences)
        and np.array_equal(rows.values[np.repeat(rows.bounds[:-1], np.diff(t.bounds)) + t.rmin - 1], t.values)
    )
    if not same:
        raise CorruptBytesError(f"{name.side} is damaged: it does not tell what is in {name.data}")


def _checks(table: StreamTable, snapshot: Snapshot) -> dict[Name, Callable[[], None]]:
    place = table.place
    checks: dict[Name, Callable[[], None]] = {
        part.name: partial(check_part, place, part, table.settings) for part in snapshot.files
    }
    manifest = table.manifest(None) if snapshot.recent is None else table.read_manifest(snapshot.recent)
    keys = key_type(table.settings.keys, snapshot.key_types)

    def check(entry: Entry) -> None:
        RecentFile.open(place.mapped(entry.name), entry, manifest.clock, table.settings, keys).check()

    return checks | {entry.name: partial(check, entry) for entry in manifest.entries}


def _counts(table: StreamTable, name: Name) -> bool:
    """Whether a file belongs to the newest version."""
    table.refresh()
    if isinstance(name, FileName):
        return name in table.files()
    return any(entry.name == name for entry in table.manifest(table.recent).entries)


def _missing(place: Place, name: Name) -> CorruptBytesError:
    """What to say about a file that counts and is not there."""
    if isinstance(name, str):
        return CorruptBytesError(f"{name} is missing; restore it from a copy of the store")
    if place.has(name.data):
        return CorruptBytesError(f"{name.side} is missing; open the store for writing to rebuild it")
    return CorruptBytesError(f"{name.data} is missing; restore it from a copy of the store")
