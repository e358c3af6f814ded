"""The manifest of recent files: which there are, in the order their rows came. Every commit that adds rows has one.

It is a file of its own, and the table's transaction `quantide.recent` tells which one counts: so rows become visible in
the table and among the recent ones by the same commit.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.fields import (
    MOST_JSON,
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
from quantide.store.names import is_recent_file
from quantide.summary.ranks import MAX_N, check_count
from quantide.windows.clock import Clock

VERSION = 2
READABLE = (1, 2)  # entries of version 1 have no median
CRC = ', "crc": '
MOST_ROWS = 2**32  # of a recent file, which numbers them with 32 bits
KEPT = 1 << 20  # rows that must be later than a file, by more than the window, before it is dropped


@dataclass(frozen=True)
class Entry:
    """A recent file: its rows are numbers first to first + rows of all that came. Times are the clock's numbers.

    At least half of its rows have the time `median` or a later one; None, in manifests of 0.1, is as good as `oldest`.
    """

    name: str
    first: int
    rows: int
    oldest: Any
    newest: Any
    size: int
    median: Any = None


@dataclass(frozen=True)
class Manifest:
    """`arrived` rows have ever come; `clock` is the kind of their times, None before the first, and `given` whether
    those came with the rows or tell when they came. Rows without a recent file leave a gap between entries. `ahead` is
    how many nanoseconds times of arrival were ahead of the wall clock at the last of them."""

    arrived: int = 0
    clock: str | None = None
    given: bool = False
    newest: Any = None
    entries: tuple[Entry, ...] = ()
    ahead: int = 0

    def after(self, written: Sequence[Entry], clock: str, given: bool, ahead: int = 0) -> "Manifest":
        """With rows that came now; `first` of the entries is filled in here."""
        arrived, newest, entries = self.arrived, self.newest, list(self.entries)
        for entry in written:
            entries.append(replace(entry, first=arrived))
            arrived += entry.rows
            newest = entry.newest if newest is None else max(newest, entry.newest)
        return Manifest(arrived, clock, given, newest, tuple(entries), ahead)

    def past(self, rows: int) -> "Manifest":
        """With rows that came without a recent file."""
        return replace(self, arrived=self.arrived + rows)

    def compacted(self, inputs: Sequence[str], written: Entry) -> "Manifest":
        """With one file in the place of several that follow each other; as it is when some were dropped meanwhile."""
        at = [i for i, entry in enumerate(self.entries) if entry.name in set(inputs)]
        if len(at) < len(inputs):
            return self
        merged = replace(written, first=self.entries[at[0]].first)
        return replace(self, entries=(*self.entries[: at[0]], merged, *self.entries[at[-1] + 1 :]))

    def without_old(self, back: Callable[[Any], Any]) -> "Manifest":
        """Without files that are older than the window; `back` moves a time back by the length of the window.

        A file is dropped when files of KEPT rows came after it whose medians lie after its newest time by at least the
        window. So fewer than KEPT / 2 rows drop no file, whatever their times are.
        """
        kept: list[Entry] = []
        starts: list[tuple[Any, int]] = []  # heap: where windows of medians of later files begin, and the files' rows
        rows = 0
        for entry in reversed(self.entries):
            if rows < KEPT or entry.newest > starts[0][0]:
                kept.append(entry)
            heappush(starts, (back(entry.oldest if entry.median is None else entry.median), entry.rows))
            rows += entry.rows
            while rows - starts[0][1] >= KEPT:
                rows -= heappop(starts)[1]
        return self if len(kept) == len(self.entries) else replace(self, entries=tuple(reversed(kept)))

    def to_json(self) -> str:
        """With the checksum of all that stands before it as the last word."""
        check_count(self.arrived)
        text = json.dumps({"version": VERSION, **asdict(self)})[:-1]
        return f"{text}{CRC}{zlib.crc32(text.encode())}}}"

    @classmethod
    def read(cls, data: Any, name: str) -> "Manifest":
        """Parse the bytes of a manifest, which may be mapped."""
        if len(data) > MOST_JSON:
            raise CorruptBytesError(f"{name} is damaged: it has {len(data):,} bytes; {REPAIR}")
        return cls.from_json(bytes(data).decode(errors="replace"), name)

    @classmethod
    def from_json(cls, text: str, name: str) -> "Manifest":
        """Parse a manifest, and check every field of it."""
        said, _, crc = text.rpartition(CRC)
        try:
            if f"{zlib.crc32(said.encode())}}}" != crc:
                raise ValueError("its checksum does not match")
            return _read_manifest(Fields(parse_json(said + "}")), name)
        except ValueError as error:
            if isinstance(error, CorruptBytesError):
                raise
            raise CorruptBytesError(f"{name} is damaged: {error}; {REPAIR}") from error


def _read_manifest(fields: Fields, name: str) -> Manifest:
    version = fields.take("version", integer())
    if version not in READABLE:
        raise CorruptBytesError(f"{name} is of version {version}; this Quantide reads version {VERSION}: upgrade it")
    clock = fields.take("clock", optional(one_of(Clock.KINDS)))
    time = moment(clock)
    reads: dict[str, Read[Any]] = {
        "arrived": integer(0, MAX_N),
        "given": boolean,
        "newest": optional(time),
        "entries": sequence(lambda found: _read_entry(Fields(found), time)),
        "ahead": integer(),
    }
    manifest = Manifest(clock=clock, **fields.take_all(reads, ("ahead",)))
    _check_order(manifest)
    return manifest


def _read_entry(fields: Fields, time: Read[Any]) -> Entry:
    reads: dict[str, Read[Any]] = {
        "name": _read_name,
        "first": integer(0, MAX_N),
        "rows": integer(1, MOST_ROWS),
        "oldest": time,
        "newest": time,
        "size": integer(),
        "median": optional(time),
    }
    entry = Entry(**fields.take_all(reads, ("median",)))
    if not entry.oldest <= (entry.oldest if entry.median is None else entry.median) <= entry.newest:
        raise ValueError(f"{entry.name} has the oldest time {entry.oldest} and the newest {entry.newest}")
    return entry


def _read_name(found: Any) -> str:
    """A path is built from this name, and removed: it must lie in the folder of recent files."""
    if not is_recent_file(text(found)):
        raise ValueError(f"{found[:80]!r} is not the name of a recent file")
    return str(found)


def _check_order(manifest: Manifest) -> None:
    """Every file is there once, and holds rows that came after those of the file before."""
    entries, reached = manifest.entries, 0
    for entry in entries:
        if entry.first < reached:
            raise ValueError(f"{entry.name} begins with row {entry.first}, which another file has")
        reached = entry.first + entry.rows
    if reached > manifest.arrived or len({entry.name for entry in entries}) < len(entries):
        raise ValueError("its files have more rows than came, or one stands twice")
    if (manifest.newest is None) != (manifest.clock is None) or (entries and manifest.clock is None):
        raise ValueError("it has times and no clock, or a clock and no times")
