"""Retired files: files of runs that retention removed from the table, restorable until a grace period ends.

A file gets a second name in `_quantide/retired` before the commit that drops it, so vacuum may remove its first name
like that of any other file. `ages.json` counts the age of the second name in running time, which a wrong clock cannot
shorten. Only the time between two processes is taken from the wall clock, and at most a day of it.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Any

from quantide.store import fault_points
from quantide.store.file_clock import running_time
from quantide.store.file_names import DATA, RETIRED, FileName
from quantide.store.json_fields import parse_json
from quantide.store.storage import Storage
from quantide.windows.wall_clock import wall_clock

AGES = f"{RETIRED}/ages.json"
MAX_GAP = 24 * 3600  # seconds between two processes that count towards an age


@dataclass(frozen=True)
class RetiredAge:
    """Open step at the retirement of a file, and the seconds since."""

    step: int
    seconds: float


class RetiredFiles:
    """Retired files of a store, for its one writer. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._counted: float | None = None  # running time of the last count of ages
        self.lock = RLock()  # held from the copy to the commit that follows

    def list_files(self) -> list[FileName]:
        """Return the restorable files, ordered by the steps they cover."""
        files = self._storage.list_files(RETIRED)
        names = [FileName.parse(file.name.replace(RETIRED, DATA, 1)) for file in files]
        return sorted(name for name in names if name is not None)

    def map_index(self, name: FileName) -> Any:
        """Return the content of the index file of a retired file; raise FileNotFoundError if it was lost."""
        return self._storage.map(_second_name(name.index))

    def retire(self, names: Iterable[FileName], step: int) -> None:
        """Give files a second name; the commit that drops them follows."""
        with self.lock:
            added = list(names)
            for name in added:
                for first in (name.data, name.index):
                    self._storage.copy(first, _second_name(first))  # a lost index file is rebuilt from its data file
            self._storage.sync(RETIRED)
            self._write(self._ages(step, self._read()) | {name: RetiredAge(step, 0.0) for name in added})
            fault_points.point("retention.linked")

    def restore(self, names: Iterable[FileName]) -> None:
        """Give files their first name again; the commit that adds them follows."""
        for name in names:
            for first in (name.data, name.index):
                self._storage.copy(_second_name(first), first)

    def remove(self, names: Iterable[FileName]) -> tuple[int, int]:
        """Remove second names; return their number and the bytes freed."""
        with self.lock:
            return self._remove(list(names))

    def purge(self, step: int, is_over: Callable[[FileName, RetiredAge], bool]) -> tuple[int, int]:
        """Update ages and remove files whose grace period is over; return their number and the bytes freed."""
        with self.lock:
            recorded = self._read()
            ages = self._ages(step, recorded)
            if not ages and not recorded:
                return 0, 0
            expired = [name for name, age in ages.items() if is_over(name, age)]
            removed = self._remove(expired)
            self._write({name: age for name, age in ages.items() if name not in set(expired)})
            return removed

    def _remove(self, names: list[FileName]) -> tuple[int, int]:
        files = size = 0
        sizes = {file.name: 0 if file.is_linked else file.size for file in self._storage.list_files(RETIRED)}
        for name in names:
            for first in (name.index, name.data):  # data last: an index file alone is not listed
                second = _second_name(first)
                is_removed = self._storage.remove(second)
                files, size = files + 1, size + (sizes.get(second, 0) if is_removed else 0)
        return files, size

    def _ages(self, step: int, recorded: dict[str, Any]) -> dict[FileName, RetiredAge]:
        """Return the current ages of files; files without a recorded age were retired just now."""
        elapsed = self._elapsed(recorded.get("at"))
        files = recorded.get("files")
        return {name: _compute_age(files, name, step, elapsed) for name in self.list_files()}

    def _elapsed(self, at: Any) -> float:
        now, before = running_time(), self._counted
        self._counted = now
        if before is not None:
            return now - before
        is_valid = isinstance(at, (int, float)) and math.isfinite(at)
        return min(max(0.0, wall_clock() - at), MAX_GAP) if is_valid else 0.0

    def _read(self) -> dict[str, Any]:
        """Return the recorded ages. A damaged file counts as empty: then the grace period of all files starts again."""
        try:
            recorded = parse_json(self._storage.read(AGES))
        except (OSError, ValueError):
            return {}
        return recorded if isinstance(recorded, dict) else {}

    def _write(self, ages: dict[FileName, RetiredAge]) -> None:
        if not ages:
            self._storage.remove(AGES)
            return
        files = {name.stem: [age.step, age.seconds] for name, age in ages.items()}
        self._storage.replace(AGES, json.dumps({"at": wall_clock(), "files": files}).encode(), durable=False)


def _second_name(first: str) -> str:
    return f"{RETIRED}/{first.rpartition('/')[2]}"


def _compute_age(files: Any, name: FileName, step: int, elapsed: float) -> RetiredAge:
    recorded = files.get(name.stem) if isinstance(files, dict) else None
    match recorded:
        case [int(since), int() | float() as seconds] if 0 <= seconds < math.inf:
            return RetiredAge(min(since, step), seconds + elapsed)
    return RetiredAge(step, 0.0)
