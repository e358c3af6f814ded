"""Retired files: files of runs that retention removed from the table, restorable until a grace period ends.

A file is linked into `_quantide/retired` before the commit that drops it, so vacuum may remove its first name like that
of any other file. `ages.json` counts the age of the second name in running time, which a wrong clock cannot shorten.
Only the time between two processes is taken from the wall clock, and at most a day of it.
"""

import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Any

from quantide.errors import StorageError
from quantide.store import fault_points
from quantide.store.durable_files import remove, sync, write_bytes
from quantide.store.file_clock import running_time
from quantide.store.file_names import RETIRED, FileName
from quantide.store.json_fields import MAX_JSON, parse_json
from quantide.store.location import open_regular
from quantide.windows.wall_clock import wall_clock

AGES = "ages.json"
MAX_GAP = 24 * 3600  # seconds between two processes that count towards an age


@dataclass(frozen=True)
class RetiredAge:
    """Open step at the retirement of a file, and the seconds since."""

    step: int
    seconds: float


class RetiredFiles:
    """Retired files of a store, for its one writer. Thread-safe."""

    def __init__(self, folder: str) -> None:
        self._store, self._folder = folder, os.path.join(folder, RETIRED)
        self._counted: float | None = None  # running time of the last count of ages
        self.lock = RLock()  # held from the link to the commit that follows

    def list_files(self) -> list[FileName]:
        """Return the restorable files, ordered by the steps they cover."""
        entries = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        names = [FileName.parse(f"runs/{entry}") for entry in entries]
        return sorted(name for name in names if name is not None)

    def retire(self, names: Iterable[FileName], step: int, durable: bool) -> None:
        """Link files to a second name; the commit that drops them follows."""
        with self.lock:
            os.makedirs(self._folder, exist_ok=True)
            added = list(names)
            for name in added:
                for path in (name.data, name.index):
                    _link(os.path.join(self._store, path), self._second_path(path))
            if durable:
                sync(self._folder)
            self._write(self._ages(step) | {name: RetiredAge(step, 0.0) for name in added})
            fault_points.point("retention.linked")

    def restore(self, names: Iterable[FileName]) -> None:
        """Link files to their first name again; the commit that adds them follows."""
        for name in names:
            for path in (name.data, name.index):
                _link(self._second_path(path), os.path.join(self._store, path))

    def remove(self, names: Iterable[FileName]) -> tuple[int, int]:
        """Remove second names; return their number and the bytes freed."""
        with self.lock:
            return self._remove(list(names))

    def purge(self, step: int, is_over: Callable[[FileName, RetiredAge], bool]) -> tuple[int, int]:
        """Update ages and remove files whose grace period is over; return their number and the bytes freed."""
        with self.lock:
            if not os.path.isdir(self._folder):
                return 0, 0
            ages = self._ages(step)
            expired = [name for name, age in ages.items() if is_over(name, age)]
            removed = self._remove(expired)
            self._write({name: age for name, age in ages.items() if name not in set(expired)})
            return removed

    def _remove(self, names: list[FileName]) -> tuple[int, int]:
        files = size = 0
        for name in names:
            for path in (name.index, name.data):  # data last: an index file alone is not listed
                files, size = files + 1, size + _unlink(self._second_path(path))
        return files, size

    def _ages(self, step: int) -> dict[FileName, RetiredAge]:
        """Return the current ages of files; files without a recorded age were retired just now."""
        recorded = self._read()
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
            with open_regular(os.path.join(self._folder, AGES)) as file:
                recorded = parse_json(file.read(MAX_JSON + 1))
        except (OSError, ValueError):
            return {}
        return recorded if isinstance(recorded, dict) else {}

    def _write(self, ages: dict[FileName, RetiredAge]) -> None:
        path = os.path.join(self._folder, AGES)
        if not ages:
            remove(path)
            return
        files = {name.stem: [age.step, age.seconds] for name, age in ages.items()}
        write_bytes(path, json.dumps({"at": wall_clock(), "files": files}).encode(), False)

    def _second_path(self, path: str) -> str:
        return os.path.join(self._folder, os.path.basename(path))


def _compute_age(files: Any, name: FileName, step: int, elapsed: float) -> RetiredAge:
    recorded = files.get(name.stem) if isinstance(files, dict) else None
    match recorded:
        case [int(since), int() | float() as seconds] if 0 <= seconds < math.inf:
            return RetiredAge(min(since, step), seconds + elapsed)
    return RetiredAge(step, 0.0)


def _link(path: str, second: str) -> None:
    try:
        os.link(path, second)
    except (FileExistsError, FileNotFoundError):  # a lost index file is rebuilt from its data file
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be linked to {second}: {error}; nothing was dropped") from error


def _unlink(path: str) -> int:
    """Remove a name; return the bytes freed: 0 if the file has another name."""
    try:
        status = os.stat(path)
        os.remove(path)
    except FileNotFoundError:
        return 0
    return status.st_size if status.st_nlink == 1 else 0
