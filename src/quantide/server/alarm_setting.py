"""What somebody set an alarm to, as it is stored and shown."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.live.asked import Asked
from quantide.server import words
from quantide.summary.asked import read_asked
from quantide.summary.types import ValueType

COLUMNS = "name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook, owner, created"


@dataclass(frozen=True)
class AlarmSetting:
    """`key`, `threshold` and `clear` are as JSON has them; `above` tells which side of the threshold is beyond it."""

    name: str | None
    stream: str
    key: Any
    window: str
    filter: str | None
    phi: float
    eps: float | None
    above: bool
    threshold: Any
    clear: Any
    hold: float
    webhook: str | None
    owner: str
    created: float

    @classmethod
    def of(cls, row: sqlite3.Row) -> "AlarmSetting":
        held = {name: row[name] for name in COLUMNS.split(", ")}
        for name in ("key", "threshold", "clear"):
            held[name] = json.loads(held[name])
        return cls(**held | {"above": bool(held["above"])})

    @property
    def row(self) -> tuple[Any, ...]:
        """The values of COLUMNS."""
        texts = {name: json.dumps(getattr(self, name)) for name in ("key", "threshold", "clear")}
        return tuple(texts.get(name, getattr(self, name)) for name in COLUMNS.split(", "))

    @property
    def asked(self) -> Asked:
        """What it is about, as a question has it."""
        key = tuple(self.key) if isinstance(self.key, list) else self.key
        return words.asked(key, self.window, self.filter)

    def limits(self, kind: ValueType) -> tuple[Any, Any]:
        """The threshold and the clear limit as values of the stream."""
        threshold, clear = read_limit(self.threshold, kind), read_limit(self.clear, kind)
        low, high = (clear, threshold) if self.above else (threshold, clear)
        if _order(low, kind) > _order(high, kind):
            side = ("above", "most") if self.above else ("below", "least")
            raise InvalidArgumentError(
                f"an alarm {side[0]} {self.threshold} clears at {self.threshold} or on its other side; "
                f"clear is {self.clear}, and may be {self.threshold} at {side[1]}"
            )
        return threshold, clear

    def shown(self) -> dict[str, Any]:
        """What it watches; who set it, and where it is sent, are not everybody's business."""
        return {
            "name": self.name,
            "stream": self.stream,
            "key": self.key,
            "window": self.window,
            "filter": self.filter,
            "phi": self.phi,
            "above" if self.above else "below": self.threshold,
            "clear": self.clear,
            "hold": self.hold,
        }


def read_limit(said: Any, kind: ValueType) -> Any:
    """A limit as JSON has it, as a value to compare with: a number, or text as times and decimals need it."""
    if kind.is_temporal and not isinstance(said, str):
        raise InvalidArgumentError(f"a limit of {said!r} among values of type {kind}; write it as text")
    found = words.read_value(said if isinstance(said, str) else repr(said), kind)
    read_asked(found, kind)  # refuses what has no rank
    return found


def _order(limit: Any, kind: ValueType) -> Any:
    """Something that says which of two limits is larger."""
    return read_asked(limit, kind)[0][0] if kind.is_temporal else limit
