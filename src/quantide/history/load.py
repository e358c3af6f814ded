"""Load: chunks written by many tasks, here or on other machines, that one commit makes visible."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.history.recent import write_entry
from quantide.history.sort import chunk_of
from quantide.history.source import Piece
from quantide.history.tasks import write_lot
from quantide.store.manifest import Entry, Manifest
from quantide.store.names import FileName, RunId, recent_name
from quantide.store.settings import Settings
from quantide.summary.types import type_named

EACH = 1 << 12  # runs that one task may write
FILES = 16  # recent files that may come with a run


@dataclass(frozen=True)
class Slot:
    """Where tasks may write: names that nobody else uses. `known` tells the clock of the store's recent rows."""

    folder: str
    step: int
    epoch: int
    serial: int
    settings: Settings
    durable: bool
    recent: int = 0
    known: Manifest = field(default_factory=Manifest)
    now: int = 0  # when rows come that have no times, in nanoseconds

    def from_chunk(self, number: int) -> "Slot":
        """Where a task goes on that has written so many chunks already."""
        return replace(self, serial=self.serial + number, recent=self.recent + number * FILES)


@dataclass(frozen=True)
class Loaded:
    """A file that a task wrote, by the path in its name, and recent files of rows that came with it."""

    data: str
    size: int
    rows: int
    recent: tuple[Entry, ...] = ()
    clock: str | None = None  # of the recent files
    given: bool = False  # whether their times came with the rows

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "Loaded":
        """What asdict() gave."""
        return cls(**{**held, "recent": tuple(Entry(**entry) for entry in held["recent"])})


def write_chunks(slot: Slot, task: int, pieces: Iterable[Piece], nan: str) -> list[Loaded]:
    """Each piece as a chunk of its own; what task number `task` wrote."""
    settings, out = slot.settings, []
    for number, piece in enumerate(pieces):
        chunk = chunk_of(piece.keys, piece.column, type_named(settings.value_type), nan)
        run = RunId(slot.step, slot.step, 0, slot.epoch, slot.serial + task * EACH + number)
        entries, clock, given = [], None, False
        if piece.arrivals is not None and chunk.rows:
            found, recent = piece.arrivals.pieces(settings, slot.known, slot.now)
            if len(recent) > FILES:
                raise InvalidArgumentError(f"{chunk.rows} rows in one piece; give them in smaller ones")
            clock, given = found.kind, piece.arrivals.times is not None
            first = slot.recent + (task * EACH + number) * FILES
            for i, rows in enumerate(recent):
                name = recent_name(slot.epoch, first + i)
                entries.append(write_entry(slot.folder, name, rows, settings, slot.durable))
        for part in range(len(chunk.lots)):
            data = FileName(run, part)
            written = write_lot(slot.folder, data, chunk, settings, (), slot.durable)
            came = (tuple(entries), clock, given) if part == 0 else ()
            out.append(Loaded(data.data, written.size, written.rows, *came))
    return out
