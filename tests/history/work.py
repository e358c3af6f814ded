"""A writer's work in small: every kind of write on a store, each one acknowledged, so that a test can end it anywhere.

Value v of batch b is 1000*k + b with a small k: what lies in a store tells which batch it came from, and values tie
within a batch, never between two. The keyed store has the key "a", "b" or "c", by k.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from numpy.typing import NDArray

from quantide.history import History, merge, merger, rebuild, sort, source, tasks
from quantide.history import recent as recent_files
from quantide.history.load import Loaded, Slot, write_chunks
from quantide.history.source import Piece
from quantide.store import datafile
from quantide.summary.column import read_column
from quantide.summary.types import type_named

Floats = NDArray[np.float64]

ROWS = 200
BLOCK = 64
SIDES = "_quantide/side"
SETTINGS: dict[str, Any] = {"eps": 0.05, "kappa": 2}
KEYED: dict[str, Any] = SETTINGS | {"keys": "host"}
HOSTS = np.array(["a", "b", "c"])

# Chunks of a step are merged, runs of level 0 at the third and the last step. Batches 2 and 4 are in several chunks,
# which become visible at once. Twice a merge runs in the background, once while files are vacuumed.
WORK = (
    ("append", 0),
    ("append", 1),
    ("step", 0),
    ("files", 2),
    ("append", 3),
    ("step", 0),
    ("vacuum", 0),
    ("load", 4),
    ("step", 0),
    ("append", 5),
    ("append", 6),
    ("background", 0),
    ("append", 7),
    ("append", 8),
    ("step", 0),
    ("append", 9),
    ("background", 0),
    ("vacuum", 0),
    ("append", 10),
)
BATCHES = tuple(number for what, number in WORK if what in ("append", "files", "load"))

Op = tuple[str, int]


def small(change: Callable[[Any, str, int], None] = setattr) -> None:
    """Make files, blocks and ranges so small that little data has many of them."""
    for module in (datafile, tasks, rebuild):
        change(module, "BLOCK", BLOCK)
    change(datafile, "WRITE_ROWS", 2 * BLOCK)
    change(sort, "LOT", 128)
    change(merge, "RANGE", 256)
    change(source, "PIECE", 100)


def often(change: Callable[[Any, str, int], None] = setattr) -> None:
    """Let three recent files of a size be too many: they are joined all the time, in the background."""
    change(recent_files, "FAN", 3)


def few(change: Callable[[Any, str, int], None]) -> None:
    """Let four chunks of a size be too many for an open step."""
    for module in (merge, merger):
        change(module, "FAN", 4)


def batch(number: int) -> Floats:
    """The values of a batch."""
    found = np.random.default_rng(number).integers(-40, 40, ROWS).astype(np.float64) * 1000 + number
    return found


def all_of(numbers: Iterable[int]) -> Floats:
    return np.concatenate([np.empty(0), *(batch(number) for number in numbers)])


def key_of(values: Floats) -> NDArray[np.str_]:
    found: NDArray[np.str_] = HOSTS[(values // 1000).astype(int) % 3]
    return found


class Work:
    """Does the work on one store, through one handle."""

    def __init__(self, folder: str, settings: dict[str, Any], durable: bool = False) -> None:
        self.folder, self.keyed = folder, "keys" in settings
        self.history = History(folder, **settings, durable=durable)

    def do(self, op: Op) -> None:
        what, number = op
        getattr(self, what)(number)

    def append(self, number: int) -> None:
        values = batch(number)
        self.history.append(values, key=key_of(values) if self.keyed else None, batch_id=number)

    def files(self, number: int) -> None:
        """A batch out of files, in pieces."""
        paths = []
        for part, values in enumerate(np.array_split(batch(number), 3)):
            paths.append(f"{self.folder}-{number}-{part}.parquet")
            pq.write_table(self._table(values), paths[-1])
        self.history.append_files(paths, "value", batch_id=number)

    def load(self, number: int) -> None:
        """A batch that tasks write."""
        types = [pa.string()] if self.keyed else []
        self.history.load(3, lambda slot: self._written(slot, number), types, batch_id=number)

    def step(self, _: int) -> None:
        self.history.end_step()

    def background(self, _: int) -> None:
        self.history.end_step(wait=False)

    def vacuum(self, _: int) -> None:
        self.history.vacuum(0)

    def close(self, _: int) -> None:
        self.history.close()

    def _table(self, values: Floats) -> pa.Table:
        columns: dict[str, Any] = {"host": key_of(values)} if self.keyed else {}
        return pa.table(columns | {"value": values})

    def _written(self, slot: Slot, number: int) -> list[Loaded]:
        out = []
        for task, values in enumerate(np.array_split(batch(number), 3)):
            keys = pa.array(key_of(values)) if self.keyed else None
            piece = Piece(keys, read_column(pa.array(values), type_named("float64")))
            out += write_chunks(slot, task, [piece], "refuse")
        return out


def stored(folder: str | Path) -> dict[int, Floats]:
    """What lies in the active files, by batch, in order: read with nothing of Quantide's."""
    tables = [pq.read_table(uri) for uri in DeltaTable(folder).file_uris()]
    found = np.sort(np.concatenate([np.empty(0), *(table["value"].to_numpy() for table in tables)]))
    for table in tables:
        if "host" in table.column_names:
            assert table["host"].to_pylist() == key_of(table["value"].to_numpy()).tolist()
    batches = np.mod(found, 1000).astype(int)
    return {int(number): found[batches == number] for number in np.unique(batches)}


def active(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """The active data files and their side files."""
    stems = sorted(Path(uri).stem for uri in DeltaTable(folder).file_uris())
    return [Path(folder, "runs", f"{s}.parquet") for s in stems], [Path(folder, SIDES, f"{s}.side") for s in stems]


def recent(folder: str | Path) -> set[str]:
    """The manifest that counts, and the recent files it names."""
    number = DeltaTable(folder).transaction_version("quantide.recent")
    if number is None:
        return set()
    manifest = f"_quantide/recent/E{number >> 32}-{number & 0xFFFFFFFF}.manifest"
    return {manifest} | {entry["name"] for entry in json.loads(Path(folder, manifest).read_text())["entries"]}


def leftovers(folder: str | Path) -> set[str]:
    """Files that no version of the table needs."""
    wanted = {str(path.relative_to(folder)) for paths in active(folder) for path in paths} | recent(folder)
    log = {
        f"_delta_log/{name}" for name in os.listdir(f"{folder}/_delta_log") if name[:1].isdigit() and "#" not in name
    }
    found = {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}
    assert wanted <= found, f"active, and not there: {wanted - found}"
    return found - wanted - log - {"_delta_log/_last_checkpoint", "_quantide/writer.lock"}


def check_stored(folder: str | Path, surely: Sequence[int], perhaps: Sequence[int] = ()) -> list[int]:
    """Each batch that was acknowledged is there once, one that was in flight at most once; all that are there."""
    found = stored(folder)
    assert set(surely) <= set(found), f"lost: {set(surely) - set(found)}"
    assert set(found) <= {*surely, *perhaps}, f"came from nowhere: {set(found) - {*surely, *perhaps}}"
    for number, values in found.items():
        np.testing.assert_array_equal(values, np.sort(batch(number)), f"batch {number}")
    return sorted(found)
