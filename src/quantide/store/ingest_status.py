"""Status of ingestion and state of the clock: small files beside the table, for readers, servers and commands.

They are not part of the table: no answer depends on them. The ingesting process publishes its status. It also
publishes a problem with the clock, as long as it lasts, and reads the operator's confirmation that the clock is right.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.file_names import CLOCK_ACCEPTED, CLOCK_PROBLEM
from quantide.store.storage import Storage
from quantide.summary.value_types import ValueType
from quantide.windows.wall_clock import wall_clock

INGEST_STATUS = "_quantide/ingest.json"
MAX_STATUS_BYTES = 1 << 16  # bytes of the file
MAX_TEXT = 500  # characters of a problem
EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # seconds since 1970 of the years that Python supports
_COUNTS = ("rows", "bad_rows", "held_files", "waiting_files")
TEXTS = ("problem", "clock_problem")
MAX_UNIT = 20  # characters
MAX_TIME = 1e12  # seconds, of a clock


@dataclass(frozen=True)
class IngestStatus:
    """State of ingestion at `time`, in seconds since 1970; `running` is False after an orderly end."""

    time: float
    running: bool = True
    rows: int = 0
    bad_rows: int = 0
    held_files: int = 0
    waiting_files: int = 0
    problem: str = ""
    clock_problem: str = ""
    unit: str | None = None  # of the values, as configured

    def to_bytes(self) -> bytes:
        return json.dumps({name: _truncate(value) for name, value in asdict(self).items()}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "IngestStatus":
        """Read a status; fields of a later version are ignored."""
        try:
            values = json.loads(data) if len(data) <= MAX_STATUS_BYTES else None
        except (ValueError, RecursionError):
            values = None
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or not _is_valid(values):
            raise CorruptBytesError(
                f"{INGEST_STATUS} is damaged; it is written again while ingestion runs, and can be removed"
            )
        return cls(**{name: value for name, value in values.items() if name in names})


def publish_status(storage: Storage, status: IngestStatus) -> None:
    """Replace the status of a store."""
    storage.replace(INGEST_STATUS, status.to_bytes(), durable=False)


def read_status(storage: Storage) -> IngestStatus | None:
    """Return the status that ingestion last published; None if there is none."""
    try:
        return IngestStatus.from_bytes(storage.read(INGEST_STATUS))
    except FileNotFoundError:
        return None


def read_unit(storage: Storage, value_type: ValueType) -> str | None:
    """Return the unit of the values, as ingestion was configured; None without one, or if their type has its own."""
    unit = None if value_type.is_temporal else _read_fields(storage, INGEST_STATUS).get("unit")
    return unit if isinstance(unit, str) and unit.isprintable() and 0 < len(unit) <= MAX_UNIT else None


def _truncate(value: Any) -> Any:
    return value[:MAX_TEXT] if isinstance(value, str) else value


def _is_valid(values: dict[str, Any]) -> bool:
    time = values.get("time")
    counts = [values.get(name, 0) for name in _COUNTS]
    return (
        isinstance(time, (int, float))
        and not isinstance(time, bool)
        and EARLIEST <= time <= LATEST
        and math.isfinite(time)
        and isinstance(values.get("running", True), bool)
        and all(isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 1 << 63 for count in counts)
        and all(isinstance(values.get(name, ""), str) for name in TEXTS)
    )


@dataclass(frozen=True)
class AcceptedClock:
    """Confirmation by the operator: at `time`, by the clock of this machine, step `step` was open."""

    time: float
    step: int


def write_clock_problem(storage: Storage, problem: str | None, gap: int | None = None) -> None:
    """Publish a problem with the clock and the first step since it is ahead; None removes the problem."""
    if problem is None:
        storage.remove(CLOCK_PROBLEM)
    else:
        data = json.dumps({"problem": problem, "since": wall_clock(), "gap": gap}).encode()
        storage.replace(CLOCK_PROBLEM, data, durable=False)


def read_clock_problem(storage: Storage) -> str | None:
    """Return the problem that ingestion has with the clock, as text; None if there is none."""
    problem = _read_fields(storage, CLOCK_PROBLEM).get("problem")
    return problem if isinstance(problem, str) else None


def read_clock_gap(storage: Storage) -> int | None:
    """Return the first step since the clock is ahead; None if it is not."""
    gap = _read_fields(storage, CLOCK_PROBLEM).get("gap")
    return gap if isinstance(gap, int) else None


def accept_clock(storage: Storage, step: int) -> AcceptedClock:
    """Confirm that the clock is right, for ingestion that runs now or starts later."""
    accepted = AcceptedClock(wall_clock(), step)
    storage.replace(CLOCK_ACCEPTED, json.dumps({"time": accepted.time, "step": step}).encode(), durable=True)
    return accepted


def read_accepted_clock(storage: Storage) -> AcceptedClock | None:
    """Return the last confirmation; None without one, or if the file is damaged: then the problem lasts."""
    fields = _read_fields(storage, CLOCK_ACCEPTED)
    time, step = fields.get("time"), fields.get("step")
    if isinstance(time, (int, float)) and isinstance(step, int) and abs(time) < MAX_TIME:
        return AcceptedClock(float(time), step)
    return None


def _read_fields(storage: Storage, name: str) -> dict[str, Any]:
    try:
        data = storage.read(name)
        fields = json.loads(data) if len(data) <= MAX_STATUS_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
