"""Manifest of recent files: their list in arrival order. Every commit that adds rows writes a new one.

A manifest is a file, and the transaction `quantide.recent` of the table names the current one: so rows become visible
in the table and in windows by the same commit.
"""

import json
import zlib
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.file_names import RECENT, final_name, is_recent_file, recent_epoch
from quantide.store.json_fields import (
    MAX_JSON,
    REPAIR,
    Fields,
    Read,
    boolean,
    integer,
    moment,
    one_of,
    optional,
    parse_json,
    sequence,
    text,
)
from quantide.store.storage import Storage
from quantide.summary.ranks import MAX_N, check_count
from quantide.windows.time_clock import TimeClock

VERSION = 2
READABLE_VERSIONS = (1, 2)  # entries of version 1 have no median
CRC = ', "crc": '
MAX_FILE_ROWS = 2**32  # of a recent file: rows have numbers of 32 bits
MIN_LATER_ROWS = 1 << 20  # rows later than a file by more than the window, before it is dropped


@dataclass(frozen=True)
class ManifestEntry:
    """Recent file: its rows have the arrival numbers `first` to `first + rows`. Times are numbers of the clock.

    At least half of its rows have the time `median` or a later one; None, in manifests of 0.1, stands for `oldest`.
    """

    name: str
    first: int
    rows: int
    oldest: Any
    newest: Any
    size: int
    median: Any = None


@dataclass(frozen=True)
class RecentManifest:
    """List of recent files, and the number of rows that ever arrived.

    `clock` is the kind of times, None before the first row; `given` is True if times came with the rows, False if they
    are arrival times. Rows without a recent file leave a gap between entries. `ahead` is the number of nanoseconds
    that the last arrival time was ahead of the wall clock.
    """

    arrived: int = 0
    clock: str | None = None
    given: bool = False
    newest: Any = None
    entries: tuple[ManifestEntry, ...] = ()
    ahead: int = 0

    def with_entries(
        self, written: Sequence[ManifestEntry], clock: str, given: bool, ahead: int = 0
    ) -> "RecentManifest":
        """Return this manifest with new entries, whose `first` is set here."""
        arrived, newest, entries = self.arrived, self.newest, list(self.entries)
        for entry in written:
            entries.append(replace(entry, first=arrived))
            arrived += entry.rows
            newest = entry.newest if newest is None else max(newest, entry.newest)
        return RecentManifest(arrived, clock, given, newest, tuple(entries), ahead)

    def with_skipped_rows(self, rows: int) -> "RecentManifest":
        """Return this manifest after rows that arrived without a recent file."""
        return replace(self, arrived=self.arrived + rows)

    def with_compacted(self, inputs: Sequence[str], written: ManifestEntry) -> "RecentManifest":
        """Return this manifest with one file in place of consecutive ones; unchanged if one of them was dropped."""
        indexes = [i for i, entry in enumerate(self.entries) if entry.name in set(inputs)]
        if len(indexes) < len(inputs):
            return self
        merged = replace(written, first=self.entries[indexes[0]].first)
        return replace(self, entries=(*self.entries[: indexes[0]], merged, *self.entries[indexes[-1] + 1 :]))

    def without_rows(self, rewritten: Mapping[str, ManifestEntry | None], older: int) -> "RecentManifest":
        """Return this manifest with rewritten entries, as if the rows that they lost had never arrived.

        An entry is None if it lost all rows. `older` more deleted rows are in no entry: they are taken to be as old as
        the entries allow. The newest time stays, so that windows do not go back in time.
        """
        entries: list[ManifestEntry] = []
        removed = end = 0
        for entry in self.entries:
            unlisted = min(older, entry.first - end)
            removed, older, end = removed + unlisted, older - unlisted, entry.first + entry.rows
            after = rewritten.get(entry.name, entry)
            if after is not None:
                entries.append(replace(after, first=entry.first - removed))
            removed += entry.rows - (0 if after is None else after.rows)
        removed += min(older, self.arrived - end)
        return replace(self, arrived=self.arrived - removed, entries=tuple(entries))

    def without_old(self, back: Callable[[Any], Any]) -> "RecentManifest":
        """Return this manifest without files older than the window; `back` subtracts the window from a time.

        A file is dropped once later files with MIN_LATER_ROWS rows have medians that lie after its newest time by at
        least the window. So fewer than MIN_LATER_ROWS / 2 rows drop no file, whatever their times are.
        """
        retained: list[ManifestEntry] = []
        starts: list[tuple[Any, int]] = []  # heap: start of the window of the median of each later file, and its rows
        rows = 0
        for entry in reversed(self.entries):
            if rows < MIN_LATER_ROWS or entry.newest > starts[0][0]:
                retained.append(entry)
            heappush(starts, (back(entry.oldest if entry.median is None else entry.median), entry.rows))
            rows += entry.rows
            while rows - starts[0][1] >= MIN_LATER_ROWS:
                rows -= heappop(starts)[1]
        return self if len(retained) == len(self.entries) else replace(self, entries=tuple(reversed(retained)))

    def to_json(self) -> str:
        """Encode the manifest; the last field is the checksum of everything before it."""
        check_count(self.arrived)
        text = json.dumps({"version": VERSION, **asdict(self)})[:-1]
        return f"{text}{CRC}{zlib.crc32(text.encode())}}}"

    @classmethod
    def read(cls, data: Any, name: str) -> "RecentManifest":
        """Parse the bytes of a manifest, which may be memory-mapped."""
        if len(data) > MAX_JSON:
            raise CorruptBytesError(f"{name} is damaged: it has {len(data):,} bytes; {REPAIR}")
        return cls.from_json(bytes(data).decode(errors="replace"), name)

    @classmethod
    def from_json(cls, text: str, name: str) -> "RecentManifest":
        """Parse a manifest and check every field."""
        content, _, crc = text.rpartition(CRC)
        try:
            if f"{zlib.crc32(content.encode())}}}" != crc:
                raise ValueError("its checksum does not match")
            return _read_manifest(Fields(parse_json(content + "}")), name)
        except ValueError as error:
            if isinstance(error, CorruptBytesError):
                raise
            raise CorruptBytesError(f"{name} is damaged: {error}; {REPAIR}") from error


def _read_manifest(fields: Fields, name: str) -> RecentManifest:
    version = fields.take("version", integer())
    if version not in READABLE_VERSIONS:
        raise CorruptBytesError(f"{name} is of version {version}; this Quantide reads version {VERSION}: upgrade it")
    clock = fields.take("clock", optional(one_of(TimeClock.KINDS)))
    time = moment(clock)
    reads: dict[str, Read[Any]] = {
        "arrived": integer(0, MAX_N),
        "given": boolean,
        "newest": optional(time),
        "entries": sequence(lambda value: _read_entry(Fields(value), time)),
        "ahead": integer(),
    }
    manifest = RecentManifest(clock=clock, **fields.take_all(reads, ("ahead",)))
    _check_order(manifest)
    return manifest


def _read_entry(fields: Fields, time: Read[Any]) -> ManifestEntry:
    reads: dict[str, Read[Any]] = {
        "name": _read_name,
        "first": integer(0, MAX_N),
        "rows": integer(1, MAX_FILE_ROWS),
        "oldest": time,
        "newest": time,
        "size": integer(),
        "median": optional(time),
    }
    entry = ManifestEntry(**fields.take_all(reads, ("median",)))
    if not entry.oldest <= (entry.oldest if entry.median is None else entry.median) <= entry.newest:
        raise ValueError(f"{entry.name} has the oldest time {entry.oldest} and the newest {entry.newest}")
    return entry


def _read_name(value: Any) -> str:
    """Check the name of a recent file: the writer removes the file at the path built from it."""
    if not is_recent_file(text(value)):
        raise ValueError(f"{value[:80]!r} is not the name of a recent file")
    return str(value)


def _check_order(manifest: RecentManifest) -> None:
    """Check that each file is listed once, and that its rows arrived after those of the file before."""
    entries, end = manifest.entries, 0
    for entry in entries:
        if entry.first < end:
            raise ValueError(f"{entry.name} begins with row {entry.first}, which another file has")
        end = entry.first + entry.rows
    if end > manifest.arrived or len({entry.name for entry in entries}) < len(entries):
        raise ValueError("its files have more rows than arrived, or one occurs twice")
    if (manifest.newest is None) != (manifest.clock is None) or (entries and manifest.clock is None):
        raise ValueError("it has times and no clock, or a clock and no times")


def remove_stale_files(
    storage: Storage, needed: Container[str], pending: Container[str], epoch: int, latest: float | None
) -> list[int]:
    """Remove recent files and manifests modified by `latest` (all if it is None); return their sizes.

    Files that are `needed` or `pending` stay, and so do those of a later epoch, which belong to another writer.
    """
    sizes = []
    for file in (*storage.list_files(RECENT), *storage.list_remains(RECENT)):
        name = final_name(file.name)
        file_epoch, is_complete = recent_epoch(name), name == file.name
        is_own = file_epoch is not None and file_epoch <= epoch and name not in pending
        is_stale = not is_complete or (name not in needed and (latest is None or file.modified <= latest))
        if is_own and is_stale and storage.remove(file.name):
            sizes.append(file.size)
    return sizes
