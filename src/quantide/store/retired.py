"""Retired files: runs that retention took out of the table, held by a second name until a grace period is over.

A file is linked into `_quantide/retired` before the commit that drops it, so vacuum may remove its first name like that
of any other file. `ages.json` counts how long it has been there by running time, which no wrong clock shortens. Only
the time between two processes is taken from the wall clock, and at most a day of it.
"""

import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Any

from quantide.errors import StorageError
from quantide.store import faults
from quantide.store.disk import remove, sync, write_bytes
from quantide.store.fields import MOST_JSON, parse_json
from quantide.store.names import RETIRED, FileName
from quantide.store.place import open_regular
from quantide.store.running_time import running_time
from quantide.windows.wall_clock import wall_clock

AGES = "ages.json"
LONGEST_GAP = 24 * 3600  # seconds between two processes that count


@dataclass(frozen=True)
class Age:
    """The step that was open when a file was retired, and the seconds since."""

    step: int
    seconds: float


class RetiredFiles:
    """The retired files of a store, as its one writer has them. Safe to use from several threads."""

    def __init__(self, folder: str) -> None:
        self._store, self._folder = folder, os.path.join(folder, RETIRED)
        self._counted: float | None = None  # the running time up to which ages were counted
        self.lock = RLock()  # held from giving a second name to the commit that follows

    def names(self) -> list[FileName]:
        """Every file that can be brought back, by the steps it covers."""
        entries = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        found = [FileName.parse(f"runs/{entry}") for entry in entries]
        return sorted(name for name in found if name is not None)

    def retire(self, names: Iterable[FileName], step: int, durable: bool) -> None:
        """Give files a second name; the commit that drops them comes next."""
        with self.lock:
            os.makedirs(self._folder, exist_ok=True)
            added = list(names)
            for name in added:
                for path in (name.data, name.side):
                    _link(os.path.join(self._store, path), self._second(path))
            if durable:
                sync(self._folder)
            self._write(self._ages(step) | {name: Age(step, 0.0) for name in added})
            faults.point("retention.linked")

    def bring_back(self, names: Iterable[FileName]) -> None:
        """Give files their first name again; the commit that adds them comes next."""
        for name in names:
            for path in (name.data, name.side):
                _link(self._second(path), os.path.join(self._store, path))

    def forget(self, names: Iterable[FileName]) -> tuple[int, int]:
        """Remove second names; how many, and how many bytes became free."""
        with self.lock:
            return self._forget(list(names))

    def purge(self, step: int, is_over: Callable[[FileName, Age], bool]) -> tuple[int, int]:
        """Count ages up to now, and forget the files whose grace is over; how many, and how many bytes became free."""
        with self.lock:
            if not os.path.isdir(self._folder):
                return 0, 0
            ages = self._ages(step)
            over = [name for name, age in ages.items() if is_over(name, age)]
            removed = self._forget(over)
            self._write({name: age for name, age in ages.items() if name not in set(over)})
            return removed

    def _forget(self, names: list[FileName]) -> tuple[int, int]:
        files = size = 0
        for name in names:
            for path in (self._second(name.side), self._second(name.data)):  # a side file alone is not listed
                files, size = files + 1, size + _unlink(path)
        return files, size

    def _ages(self, step: int) -> dict[FileName, Age]:
        """How old files are now; those that no list knows were retired just now."""
        known = self._read()
        elapsed = self._elapsed(known.get("at"))
        files = known.get("files")
        return {name: _age(files, name, step, elapsed) for name in self.names()}

    def _elapsed(self, at: Any) -> float:
        now, before = running_time(), self._counted
        self._counted = now
        if before is not None:
            return now - before
        known = isinstance(at, (int, float)) and math.isfinite(at)
        return min(max(0.0, wall_clock() - at), LONGEST_GAP) if known else 0.0

    def _read(self) -> dict[str, Any]:
        """The list of ages. A damaged one counts as empty: files then wait a whole grace period from now on."""
        try:
            with open_regular(os.path.join(self._folder, AGES)) as file:
                known = parse_json(file.read(MOST_JSON + 1))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _write(self, ages: dict[FileName, Age]) -> None:
        path = os.path.join(self._folder, AGES)
        if not ages:
            remove(path)
            return
        files = {name.stem: [age.step, age.seconds] for name, age in ages.items()}
        write_bytes(path, json.dumps({"at": wall_clock(), "files": files}).encode(), False)

    def _second(self, path: str) -> str:
        return os.path.join(self._folder, os.path.basename(path))


def _age(files: Any, name: FileName, step: int, elapsed: float) -> Age:
    found = files.get(name.stem) if isinstance(files, dict) else None
    match found:
        case [int(since), int() | float() as seconds] if 0 <= seconds < math.inf:
            return Age(min(since, step), seconds + elapsed)
    return Age(step, 0.0)


def _link(path: str, second: str) -> None:
    try:
        os.link(path, second)
    except (FileExistsError, FileNotFoundError):  # a side file that is lost is rebuilt from its data file
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be linked to {second}: {error}; nothing was dropped") from error


def _unlink(path: str) -> int:
    """Remove a name; the bytes that become free, 0 while the file has another one."""
    try:
        held = os.stat(path)
        os.remove(path)
    except FileNotFoundError:
        return 0
    return held.st_size if held.st_nlink == 1 else 0
