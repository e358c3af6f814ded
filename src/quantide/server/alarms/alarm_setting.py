"""Alarm setting: the definition of an alarm, as it is stored and shown."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.live.scope import QueryScope
from quantide.server.http.query_parameters import query_scope, read_value
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.value_types import ValueType

COLUMNS = "name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook, owner, created"
JSON_COLUMNS = ("key", "threshold", "clear")


@dataclass(frozen=True)
class AlarmSetting:
    """Definition of an alarm. `key`, `threshold` and `clear` are JSON values; `above` is the side of the threshold on
    which it fires."""

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
        fields = {name: row[name] for name in COLUMNS.split(", ")}
        for name in JSON_COLUMNS:
            fields[name] = json.loads(fields[name])
        return cls(**fields | {"above": bool(fields["above"])})

    @property
    def row(self) -> tuple[Any, ...]:
        """Values of COLUMNS."""
        texts = {name: json.dumps(getattr(self, name)) for name in JSON_COLUMNS}
        return tuple(texts.get(name, getattr(self, name)) for name in COLUMNS.split(", "))

    @property
    def scope(self) -> QueryScope:
        key = tuple(self.key) if isinstance(self.key, list) else self.key
        return query_scope(key, self.window, self.filter)

    def limits(self, kind: ValueType) -> tuple[Any, Any]:
        """Return the threshold and the clear limit as values of the stream."""
        threshold, clear = read_limit(self.threshold, kind), read_limit(self.clear, kind)
        low, high = (clear, threshold) if self.above else (threshold, clear)
        if _comparable(low, kind) > _comparable(high, kind):
            side = ("above", "most") if self.above else ("below", "least")
            raise InvalidArgumentError(
                f"an alarm {side[0]} {self.threshold} clears at {self.threshold} or on its other side; "
                f"clear is {self.clear}, and may be {self.threshold} at {side[1]}"
            )
        return threshold, clear

    def to_json(self) -> dict[str, Any]:
        """Return the public fields; the owner and the webhook are not shown to every client."""
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


def read_limit(limit: Any, kind: ValueType) -> Any:
    """Return a limit in JSON, a number or text, as a value to compare with."""
    if kind.is_temporal and not isinstance(limit, str):
        raise InvalidArgumentError(f"a limit of {limit!r} among values of type {kind}; write it as text")
    value = read_value(limit if isinstance(limit, str) else repr(limit), kind)
    read_query_values(value, kind)  # raises if it has no rank
    return value


def _comparable(limit: Any, kind: ValueType) -> Any:
    """Return a number that orders limits."""
    return read_query_values(limit, kind)[0][0] if kind.is_temporal else limit
