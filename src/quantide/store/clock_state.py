"""Clock state of a store: the problem that ingestion has with the clock, and the operator's word that it is right.

Both are small files beside the table, so that a server, or a command, can read the one and write the other while
ingestion runs. A store has the first file as long as the problem lasts.
"""

import json
import os
from dataclasses import dataclass
from typing import Any

from quantide.store.disk import remove, write_bytes
from quantide.store.names import CLOCK_ACCEPTED, CLOCK_PROBLEM
from quantide.store.place import Place, open_regular
from quantide.windows.wall_clock import wall_clock

FAR = 1e12  # seconds: no clock shows that


@dataclass(frozen=True)
class AcceptedClock:
    """An operator's word: at `time`, by the clock of this machine, step `step` was the open one."""

    time: float
    step: int


def write_clock_problem(folder: str, problem: str | None, gap: int | None = None) -> None:
    """Publish a problem with the clock, and the first step since the clock is ahead; None removes it."""
    path = os.path.join(folder, CLOCK_PROBLEM)
    if problem is None:
        remove(path)
    else:
        write_bytes(path, json.dumps({"problem": problem, "since": wall_clock(), "gap": gap}).encode(), False)


def read_clock_problem(place: Place) -> str | None:
    """The problem that ingestion has with the clock, in words; None when there is none."""
    if place.far:
        return None
    problem = _fields(place.whole(CLOCK_PROBLEM)).get("problem")
    return problem if isinstance(problem, str) else None


def read_gap(folder: str) -> int | None:
    """The first step since the clock is ahead; None while it is not."""
    gap = _fields(os.path.join(folder, CLOCK_PROBLEM)).get("gap")
    return gap if isinstance(gap, int) else None


def accept_clock(folder: str, step: int) -> AcceptedClock:
    """Leave the word that the clock is right; ingestion finds it, whether it runs now or starts later."""
    accepted = AcceptedClock(wall_clock(), step)
    data = json.dumps({"time": accepted.time, "step": accepted.step}).encode()
    write_bytes(os.path.join(folder, CLOCK_ACCEPTED), data, True)
    return accepted


def read_accepted(folder: str) -> AcceptedClock | None:
    """The operator's last word; None when there is none, or when the file is damaged: then the problem lasts."""
    fields = _fields(os.path.join(folder, CLOCK_ACCEPTED))
    time, step = fields.get("time"), fields.get("step")
    if isinstance(time, (int, float)) and isinstance(step, int) and abs(time) < FAR:
        return AcceptedClock(float(time), step)
    return None


def _fields(path: str) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            fields = json.loads(file.read(1 << 16))
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
