"""A writer's work for live readers, in small: batches of keyed rows with times and filters, steps, merges, vacuums.

Batch b is the same wherever it is made, so that a test knows all rows of a version by their number. What is begun and
what is done is noted in a file, so that a test can end the writer anywhere.
"""

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from quantide.errors import QuantideError, StorageError
from quantide.history import History
from quantide.store import fault_points
from quantide.store.writable_table import WritableTable
from tests.history.history_model import BY_NAME
from tests.live.live_model import TIMES, Batch, Model, shrink

SETTINGS: dict[str, Any] = {"eps": 0.05, "kappa": 2, "keys": "host", "filters": ["f", "g"], "window": "365 days"}
HOSTS = ("a", "b", "c")
LAST = 24  # batches


def batch(number: int) -> Batch:
    """Rows of all keys; times are out of order, and rise by a second or so from batch to batch."""
    rng = np.random.default_rng(number)
    rows = int(rng.choice([6, 20, 45, 90]))
    whole = rng.integers(-900, 900, rows)
    keys: list[tuple[Any, ...]] = [(HOSTS[i % 3] if i < 6 else HOSTS[rng.integers(3)],) for i in range(rows)]
    filters = {name: (np.arange(rows) < 3) | (rng.random(rows) < 0.4) for name in ("f", "g")}
    times = TIMES["seconds"].numbers(number * 4 + rng.integers(-20, 4, rows))
    return Batch(BY_NAME["float64"].of(whole), keys, times, filters)


def model_of(numbers: Iterable[int]) -> Model:
    """Return the model after these batches."""
    model = Model(BY_NAME["float64"], TIMES["seconds"], ("f", "g"))
    for number in numbers:
        model.append(batch(number))
    return model


def batches_in(rows: int) -> int:
    """Return the number of batches with so many rows."""
    number = 0
    while rows > 0:
        rows -= len(batch(number).values)
        number += 1
    assert rows == 0, "part of a batch is visible"
    return number


def append(history: History, number: int) -> None:
    rows = batch(number)
    keys = [key[0] for key in rows.keys]
    history.append(rows.values, key=keys, batch_id=number, times=rows.times, filters=rows.filters)


def after(history: History, number: int) -> None:
    """Work after a batch."""
    if number % 3 == 2:
        history.end_step(wait=number % 2 == 0)
    if number % 4 == 3:
        history.vacuum(0)


def versions(folder: str | Path) -> dict[int, int]:
    """Return the number of rows of each version that live_work() committed."""
    lines = [line.split(",") for line in Path(f"{folder}-versions").read_text().splitlines()]
    rows, out = 0, {}
    for version, more in lines:
        rows += int(more)
        out[int(version)] = rows
    return out


def _note_versions(folder: str) -> None:
    """Log each later commit, with the rows that it adds."""
    commit = WritableTable.commit

    def logged_commit(table: WritableTable, *given: Any, **named: Any) -> list[str]:
        with table._lock:
            result = commit(table, *given, **named)
            merge = len(given) > 1 or "remove" in named
            rows = 0 if merge else sum(rows for _, _, rows in (*given, *[named.get("add", ())])[0])
            with open(f"{folder}-versions", "a") as file:
                file.write(f"{table.version},{rows}\n")
            return result

    setattr(WritableTable, "commit", logged_commit)  # noqa: B010 (a method is replaced)


def live_work(folder: str, first: int = 0, batches: int = LAST, wait: bool = True) -> None:
    """Append batches, with the work after each; `wait` for background work."""
    shrink(setattr, most=2000)
    _note_versions(folder)
    history = History(folder, **SETTINGS)
    for number in range(first, batches):
        _note(folder, "begin", number)
        append(history, number)
        _note(folder, "done", number)
        after(history, number)
        if wait:
            history._writer.join()
            history._writer.recent.join()
    history.close()


def live_count(folder: str) -> None:
    """Write how often the work passes each fault point."""
    passed: dict[str, int] = {}

    def counted(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1

    setattr(fault_points, "point", counted)  # noqa: B010 (a function is replaced)
    live_work(folder)
    Path(f"{folder}-counts").write_text(json.dumps(passed))


def retry_live_work(folder: str) -> None:
    """Repeat each step that fails, with the same handle."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    shrink(setattr, most=2000)
    try:
        history = History(folder, **SETTINGS)
    except StorageError:  # no store could be made
        history = History(folder, **SETTINGS)
    for number in range(LAST):
        for _ in range(2):
            try:
                append(history, number)
                break
            except (OSError, QuantideError):
                _note(folder, "failed", number)
        for _ in range(2):
            try:
                after(history, number)
                break
            except (OSError, QuantideError):
                _note(folder, "failed", number)
    for _ in range(2):
        try:
            history.close()
            break
        except (OSError, QuantideError):
            _note(folder, "failed", LAST)


def logged_batches(folder: str | Path, event: str) -> list[int]:
    """The batches of which that was noted."""
    path = Path(f"{folder}-notes")
    lines = [line.split(",") for line in path.read_text().splitlines()] if path.exists() else []
    return [int(number) for name, number in lines if name == event]


def _note(folder: str, event: str, number: int) -> None:
    file = os.open(f"{folder}-notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{event},{number}\n".encode())
    os.close(file)
