"""Work of a writer in small: every kind of write on a store, each one acknowledged, so that a test can end it anywhere.

Value v of batch b is 1000*k + b with a small k: a value identifies its batch, and values tie within a batch, never
between two. The keyed store has the key "a", "b" or "c", by k.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from numpy.typing import NDArray

from quantide.history import (
    History,
    appended_rows,
    chunk_sort,
    compaction_plan,
    compaction_tasks,
    compactor,
    file_rebuild,
)
from quantide.history import recent_writer as recent_files
from quantide.history.appended_rows import ParquetPiece
from quantide.history.bulk_load import NameReservation, WrittenFile, write_chunks
from quantide.store import data_file
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named

Floats = NDArray[np.float64]

ROWS = 200
BLOCK = 64
SIDES = "_quantide/side"
SETTINGS: dict[str, Any] = {"eps": 0.05, "kappa": 2}
KEYED: dict[str, Any] = SETTINGS | {"keys": "host"}
HOSTS = np.array(["a", "b", "c"])

# Chunks of a step are compacted, runs of level 0 at the third and the last step. Batches 2 and 4 are in several chunks,
# which become visible at once. Twice a compaction runs in the background, once while files are vacuumed.
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
    for module in (data_file, compaction_tasks, file_rebuild):
        change(module, "BLOCK", BLOCK)
    change(data_file, "WRITE_ROWS", 2 * BLOCK)
    change(chunk_sort, "PARTITION_ROWS", 128)
    change(compaction_plan, "TASK_ROWS", 256)
    change(appended_rows, "PIECE_ROWS", 100)


def compact_recent_early(change: Callable[[Any, str, int], None] = setattr) -> None:
    """Compact recent files at three of a size class: often, and in the background."""
    change(recent_files, "FANOUT", 3)


def compact_chunks_early(change: Callable[[Any, str, int], None]) -> None:
    """Compact chunks of the open step at four of a size class."""
    for module in (compaction_plan, compactor):
        change(module, "FANOUT", 4)


def batch(number: int) -> Floats:
    """Return the values of a batch."""
    values = np.random.default_rng(number).integers(-40, 40, ROWS).astype(np.float64) * 1000 + number
    return values


def all_of(numbers: Iterable[int]) -> Floats:
    return np.concatenate([np.empty(0), *(batch(number) for number in numbers)])


def key_of(values: Floats) -> NDArray[np.str_]:
    hosts: NDArray[np.str_] = HOSTS[(values // 1000).astype(int) % 3]
    return hosts


class Work:
    """Does the work on one store, through one handle.

    The store is in the folder, or at the `uri` of the settings, which have its `storage_options`, too.
    """

    def __init__(self, folder: str, settings: dict[str, Any], durable: bool = False) -> None:
        self.folder, self.keyed = folder, "keys" in settings
        arguments = {name: value for name, value in settings.items() if name != "uri"}
        self.history = History(settings.get("uri", folder), **arguments, durable=durable)

    def do(self, op: Op) -> None:
        what, number = op
        getattr(self, what)(number)

    def append(self, number: int) -> None:
        values = batch(number)
        self.history.append(values, key=key_of(values) if self.keyed else None, batch_id=number)

    def files(self, number: int) -> None:
        """Append a batch from files, in pieces."""
        paths = []
        for part, values in enumerate(np.array_split(batch(number), 3)):
            paths.append(f"{self.folder}-{number}-{part}.parquet")
            pq.write_table(self._table(values), paths[-1])
        self.history.append_files(paths, "value", batch_id=number)

    def load(self, number: int) -> None:
        """Append a batch that tasks write."""
        types = [pa.string()] if self.keyed else []
        with self.history.bulk_load(types, batch_id=number) as load:
            if not load.is_repeat:
                names = load.reserve(3)
                load.commit(names, self._written(names, number))

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

    def _written(self, names: NameReservation, number: int) -> list[WrittenFile]:
        out = []
        for task, values in enumerate(np.array_split(batch(number), 3)):
            keys = pa.array(key_of(values)) if self.keyed else None
            piece = ParquetPiece(keys, read_column(pa.array(values), type_named("float64")))
            out += write_chunks(names, task, [piece], "refuse")
        return out


def stored(folder: str | Path, options: dict[str, str] | None = None) -> dict[int, Floats]:
    """Return the values in the active files, by batch, in order: read without Quantide."""
    if options is None:
        tables = [pq.read_table(uri) for uri in DeltaTable(folder).file_uris()]
    else:
        tables = [DeltaTable(folder, storage_options=options).to_pyarrow_table()]
    values = np.sort(np.concatenate([np.empty(0), *(table["value"].to_numpy() for table in tables)]))
    for table in tables:
        if "host" in table.column_names:
            assert table["host"].to_pylist() == key_of(table["value"].to_numpy()).tolist()
    batches = np.mod(values, 1000).astype(int)
    return {int(number): values[batches == number] for number in np.unique(batches)}


def active(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """Return the active data files and their index files."""
    stems = sorted(Path(uri).stem for uri in DeltaTable(folder).file_uris())
    return [Path(folder, "runs", f"{s}.parquet") for s in stems], [Path(folder, SIDES, f"{s}.side") for s in stems]


def recent(folder: str | Path) -> set[str]:
    """Return the current manifest, and the recent files it names."""
    number = DeltaTable(folder).transaction_version("quantide.recent")
    if number is None:
        return set()
    manifest = f"_quantide/recent/E{number >> 32}-{number & 0xFFFFFFFF}.manifest"
    return {manifest} | {entry["name"] for entry in json.loads(Path(folder, manifest).read_text())["entries"]}


def leftovers(folder: str | Path) -> set[str]:
    """Return the files that no version of the table needs, after a checkpoint that is being written is finished."""
    for _ in range(40):
        found = _unneeded(Path(folder))
        if not any(name.startswith("_delta_log/") for name in found):
            break
        time.sleep(0.05)  # the thread of a writer may be writing a checkpoint under a temporary name
    return found


def _unneeded(folder: Path) -> set[str]:
    """Return the files that no version of the table needs; one listing, so that files may appear beside it."""
    needed = {str(path.relative_to(folder)) for paths in active(folder) for path in paths} | recent(folder)
    existing = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert needed <= existing, f"active, and not there: {needed - existing}"
    log = {name for name in existing if re.fullmatch(r"_delta_log/\d+(\.checkpoint)?\.(json|parquet)", name)}
    return existing - needed - log - {"_delta_log/_last_checkpoint", "_quantide/writer.lock"}


def remove_store(folder: str | Path) -> None:
    """Delete a store; repeat that while a handle that was dropped still writes a checkpoint in its thread."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(0.05)
    shutil.rmtree(folder)


def check_stored(
    folder: str | Path, surely: Sequence[int], perhaps: Sequence[int] = (), options: dict[str, str] | None = None
) -> list[int]:
    """Check that each acknowledged batch is there once, one in flight at most once; return all batches."""
    batches = stored(folder, options)
    assert set(surely) <= set(batches), f"lost: {set(surely) - set(batches)}"
    assert set(batches) <= {*surely, *perhaps}, f"came from nowhere: {set(batches) - {*surely, *perhaps}}"
    for number, values in batches.items():
        np.testing.assert_array_equal(values, np.sort(batch(number)), f"batch {number}")
    return sorted(batches)
