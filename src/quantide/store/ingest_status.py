"""Ingestion status: a small file in which the process that feeds a store publishes how it is doing.

It is no part of the table: a reader shows it beside the answers, and none of them depends on it.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.disk import write_bytes

INGEST_STATUS = "_quantide/ingest.json"
LARGEST = 1 << 16  # bytes of the file
LONGEST = 500  # characters of a problem
_COUNTS = ("rows", "bad_rows", "held_files", "waiting_files")
TEXTS = ("problem", "clock_problem")


@dataclass(frozen=True)
class IngestStatus:
    """State of ingestion at `time`, in seconds since 1970; `running` is False once it ended in order."""

    time: float
    running: bool = True
    rows: int = 0
    bad_rows: int = 0
    held_files: int = 0
    waiting_files: int = 0
    problem: str = ""
    clock_problem: str = ""

    def to_bytes(self) -> bytes:
        return json.dumps({name: _cut(value) for name, value in asdict(self).items()}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "IngestStatus":
        """Read a status; fields of a later version are ignored."""
        try:
            found = json.loads(data) if len(data) <= LARGEST else None
        except (ValueError, RecursionError):
            found = None
        known = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or not _is_valid(found):
            raise CorruptBytesError(
                f"{INGEST_STATUS} is damaged; it is written again while ingestion runs, and can be removed"
            )
        return cls(**{name: value for name, value in found.items() if name in known})


def publish_status(path: str, status: IngestStatus) -> None:
    """Replace the status of the store in a folder."""
    write_bytes(f"{path}/{INGEST_STATUS}", status.to_bytes(), durable=False)


def _cut(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) else value


def _is_valid(found: dict[str, Any]) -> bool:
    time = found.get("time")
    counts = [found.get(name, 0) for name in _COUNTS]
    return (
        isinstance(time, (int, float))
        and not isinstance(time, bool)
        and abs(time) < 1e12
        and math.isfinite(time)
        and isinstance(found.get("running", True), bool)
        and all(isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 1 << 63 for count in counts)
        and all(isinstance(found.get(name, ""), str) for name in TEXTS)
    )
