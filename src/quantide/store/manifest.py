"""The manifest of recent files: which there are, in the order their rows came. Every commit that adds rows has one.

It is a file of its own, and the table's transaction `quantide.recent` tells which one counts: so rows become visible in
the table and among the recent ones by the same commit.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from quantide.errors import CorruptBytesError

VERSION = 1
CRC = ', "crc": '
KEPT = 1 << 20  # rows that are kept however old they are, so that last=n can be asked where little arrives


@dataclass(frozen=True)
class Entry:
    """A recent file: its rows are numbers first to first + rows of all that came. Times are the clock's numbers."""

    name: str
    first: int
    rows: int
    oldest: Any
    newest: Any
    size: int


@dataclass(frozen=True)
class Manifest:
    """`arrived` rows have ever come; `clock` is the kind of their times, None before the first, and `given` whether
    those came with the rows or tell when they came. Rows without a recent file leave a gap between entries."""

    arrived: int = 0
    clock: str | None = None
    given: bool = False
    newest: Any = None
    entries: tuple[Entry, ...] = ()

    def after(self, written: Sequence[Entry], clock: str, given: bool) -> "Manifest":
        """With rows that came now; `first` of the entries is filled in here."""
        arrived, newest, entries = self.arrived, self.newest, list(self.entries)
        for entry in written:
            entries.append(replace(entry, first=arrived))
            arrived += entry.rows
            newest = entry.newest if newest is None else max(newest, entry.newest)
        return Manifest(arrived, clock, given, newest, tuple(entries))

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

    def without_old(self, threshold: Any) -> "Manifest":
        """Without files all of whose rows are at or before a time, and beyond the number that is always kept."""
        kept = [e for e in self.entries if e.newest > threshold or self.arrived - e.first - e.rows < KEPT]
        return self if len(kept) == len(self.entries) else replace(self, entries=tuple(kept))

    def to_json(self) -> str:
        """With the checksum of all that stands before it as the last word."""
        text = json.dumps({"version": VERSION, **asdict(self)})[:-1]
        return f"{text}{CRC}{zlib.crc32(text.encode())}}}"

    @classmethod
    def from_json(cls, text: str, name: str) -> "Manifest":
        said, _, crc = text.rpartition(CRC)
        if f"{zlib.crc32(said.encode(errors='replace'))}}}" != crc:
            raise CorruptBytesError(f"{name} is damaged: its checksum does not match")
        try:
            held = json.loads(said + "}")
            if held.pop("version") != VERSION:
                raise CorruptBytesError(f"{name} is of another version; this Quantide reads version {VERSION}")
            entries = tuple(Entry(**entry) for entry in held.pop("entries"))
            return cls(entries=entries, **held)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptBytesError(f"{name} is damaged: it cannot be read: {error}") from error
