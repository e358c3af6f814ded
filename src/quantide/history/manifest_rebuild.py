"""A new manifest of recent files in the place of one that is lost, and of which the log has no copy either.

Which recent files counted is known up to the newest older manifest that is left. Rows that came after it stand in the
new one as a file that is missing: a window that may hold some of them is refused, until they are too old for any.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import replace

from quantide.errors import CorruptBytesError
from quantide.store.commits import WritableTable
from quantide.store.entry import LogEntry
from quantide.store.log_repair import Finding
from quantide.store.manifest import Entry, Manifest
from quantide.store.names import RECENT, manifest_name, recent_name
from quantide.store.recent import About, RecentFile
from quantide.store.transactions import RECENT_FILES
from quantide.windows.clock import Clock

MOST_ROWS = 2**32 - 1  # of an entry
SERIAL = 2**32 - 1  # of the file that is missing: no writer counts so far


def rebuild_manifest(table: WritableTable) -> tuple[Manifest, Finding]:
    """Make a manifest for the version that the table is at, and say what it lacks."""
    number = table.recent
    assert number is not None
    base, since = _base(table, number)
    if base is None:
        manifest = Manifest(arrived=since)
        lost = f"windows hold only rows that come from now on, and none of the {since:,} before"
    elif since:
        manifest = _with_gap(table, base, since)
        until = Clock(manifest.clock or "").show(manifest.entries[-1].newest)
        lost = (
            f"{since:,} rows are in no list, and windows over times up to {until} are refused while they may hold some"
        )
    else:
        manifest, lost = base, ""
    problem = f"is lost, and there is no copy of it in the log{': ' * bool(lost)}{lost}"
    action = "a new one is written" if lost else "an older one of the same rows takes its place"
    return manifest, Finding("manifest", manifest_name(number), problem, action, bool(lost), since)


def _with_gap(table: WritableTable, base: Manifest, since: int) -> Manifest:
    """Add an entry of the rows that came since, whose file is missing."""
    files = [about for about in _recent_files(table) if about.clock == base.clock]
    newest = max((base.newest, *(about.newest for about in files)))
    oldest = min((base.newest, *(about.oldest for about in files)))
    end = newest if base.clock == "seconds" else max(newest, time.time_ns())
    arrived, rows = base.arrived + since, min(since, MOST_ROWS)
    missing = Entry(recent_name(table.epoch, SERIAL), arrived - rows, rows, oldest, end, 0)
    return replace(base, arrived=arrived, newest=newest, entries=(*base.entries, missing))


def _base(table: WritableTable, number: int) -> tuple[Manifest | None, int]:
    """The newest older manifest that has a clock, and how many rows came after it; all rows where there is none."""
    rows = 0
    for version in range(table.version, -1, -1):
        try:
            entry = LogEntry.read(table.log.read(version))
        except FileNotFoundError:
            break
        found = entry.transactions.get(RECENT_FILES)
        manifest = _read(table, found) if isinstance(found, int) and found < number else None
        if manifest is not None and manifest.clock is not None:
            return manifest, rows
        rows += entry.rows_added
    return None, max(rows, table.rows())


def _read(table: WritableTable, number: int) -> Manifest | None:
    name = manifest_name(number)
    try:
        return Manifest.from_json(bytes(table.place.mapped(name)).decode(errors="replace"), name)
    except (FileNotFoundError, CorruptBytesError):
        return table.manifest_copy(number)


def _recent_files(table: WritableTable) -> Iterator[About]:
    """Every recent file that can be read, whether it counts or not."""
    folder = os.path.join(table.path, RECENT)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(".recent"):
            try:
                about = RecentFile(table.place.mapped(f"{RECENT}/{name}"), name).about
            except (FileNotFoundError, CorruptBytesError):
                continue
            yield about
