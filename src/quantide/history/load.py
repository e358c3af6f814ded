"""Load: chunks written by many tasks, here or on other machines, that one commit makes visible."""

from collections.abc import Iterable
from dataclasses import dataclass

from quantide.history.sort import chunk_of
from quantide.history.source import Piece
from quantide.history.tasks import write_part
from quantide.store.datafile import BLOCK
from quantide.store.names import FileName, RunId
from quantide.store.settings import Settings
from quantide.store.sidefile import About
from quantide.summary.types import type_named

EACH = 1 << 12  # runs that one task may write


@dataclass(frozen=True)
class Slot:
    """Where tasks may write: names that nobody else uses."""

    folder: str
    step: int
    epoch: int
    serial: int
    settings: Settings
    durable: bool


@dataclass(frozen=True)
class Loaded:
    """A file that a task wrote, by the path in its name."""

    data: str
    size: int
    rows: int


def write_chunks(slot: Slot, task: int, pieces: Iterable[Piece], nan: str) -> list[Loaded]:
    """Each piece as a chunk of its own; what task number `task` wrote."""
    settings, out = slot.settings, []
    for number, (keys, column) in enumerate(pieces):
        chunk = chunk_of(keys, column, type_named(settings.value_type), nan)
        run = RunId(slot.step, slot.step, 0, slot.epoch, slot.serial + task * EACH + number)
        for part, lot in enumerate(chunk.lots):
            rows = lot()
            skipped = (chunk.nulls, chunk.nans) if part == 0 else (0, 0)
            about = About(len(rows), settings.value_type, BLOCK, 0, 0, *skipped)
            name = FileName(run, part)
            written = write_part(
                slot.folder, name, rows, settings.keys, about, settings.chunk_eps, chunk.rows, slot.durable
            )
            out.append(Loaded(name.data, written.size, written.rows))
    return out
