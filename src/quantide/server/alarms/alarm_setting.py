"""Alarm setting: the definition of an alarm, as a row of the registry and as JSON."""

import json
import math
import sqlite3
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from quantide.errors import InvalidArgumentError
from quantide.live.scope import QueryScope
from quantide.live.value_parsing import read_value
from quantide.server.http.query_parameters import query_scope
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.value_types import ValueType

COLUMNS = (
    "name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook, owner, created, "
    "measure, against"
)
JSON_COLUMNS = ("key", "threshold", "clear", "against")
QUANTILE, KS = "quantile", "ks"  # measures


@dataclass(frozen=True)
class AlarmSetting:
    """Definition of an alarm: `key`, `threshold`, `clear` and `against` are JSON values.

    `above` is True if it fires above the threshold, False if it fires below. An alarm on the KS distance has a window
    `against`, and no `phi`.
    """

    name: str | None
    stream: str
    key: Any
    window: str
    filter: str | None
    phi: float | None
    eps: float | None
    above: bool
    threshold: Any
    clear: Any
    hold: float
    webhook: str | None
    owner: str
    created: float
    measure: str = QUANTILE
    against: Any = None

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
        return _scope_of(self.key, self.window, self.filter)

    @property
    def against_scope(self) -> QueryScope | None:
        """Scope that the window is compared with; None for an alarm on a quantile."""
        return None if self.against is None else _scope_of(**self.against)

    @property
    def window_key(self) -> Hashable:
        """Name of the window: alarms with the same one are evaluated together."""
        against = self.against_scope
        return self.stream, self.scope.cache_key, None if against is None else against.cache_key

    @property
    def quantile(self) -> float:
        """The phi of an alarm on a quantile."""
        assert self.phi is not None
        return self.phi

    def limits(self, kind: ValueType) -> tuple[Any, Any]:
        """Return the threshold and the clear limit as values of the stream."""
        threshold, clear = read_limit(self.threshold, kind), read_limit(self.clear, kind)
        low, high = (clear, threshold) if self.above else (threshold, clear)
        if _comparable(low, kind) > _comparable(high, kind):
            raise self._clear_error()
        return threshold, clear

    def check_limits(self, kind: ValueType, unit: str | None) -> None:
        """Raise if a limit is not a finite number among values that are numbers; `unit` is that of the stream."""
        if kind.is_temporal:
            return  # read_limit refuses all but finite times and durations
        for name, limit in (("above" if self.above else "below", self.threshold), ("clear", self.clear)):
            _check_number(name, limit, kind, unit)

    def distances(self) -> tuple[float, float]:
        """Return the threshold and the clear limit as KS distances."""
        threshold, clear = read_distance("above", self.threshold), read_distance("clear", self.clear)
        if clear > threshold:
            raise self._clear_error()
        return threshold, clear

    def _clear_error(self) -> InvalidArgumentError:
        side = ("above", "most") if self.above else ("below", "least")
        return InvalidArgumentError(
            f"an alarm {side[0]} {self.threshold} clears at {self.threshold} or on its other side; "
            f"clear is {self.clear}, and may be {self.threshold} at {side[1]}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the public fields; the owner and the webhook are not shown to every client."""
        return {
            "name": self.name,
            "stream": self.stream,
            "key": self.key,
            "window": self.window,
            "filter": self.filter,
            "measure": self.measure,
            "against": self.against,
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


def _check_number(name: str, limit: Any, kind: ValueType, unit: str | None) -> None:
    number = f"number in {unit}" if unit else "number"
    try:
        value = read_value(limit if isinstance(limit, str) else repr(limit), kind)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{name} is {limit!r}; write a {number} without text, such as 12.5") from error
    if not math.isfinite(value):
        raise InvalidArgumentError(
            f"{name} is {limit!r}, and an alarm with an infinite limit never fires, or never stops; "
            f"write a finite {number}, such as 12.5"
        )


def read_distance(name: str, limit: Any) -> float:
    """Return a limit of a KS distance."""
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit < 1:
        raise InvalidArgumentError(
            f"{name} of an alarm on the KS distance is {limit!r}; write a number from 0 to less than 1, such as 0.1"
        )
    return float(limit)


def _scope_of(key: Any, window: str, filter: str | None) -> QueryScope:
    return query_scope(tuple(key) if isinstance(key, list) else key, window, filter)


def _comparable(limit: Any, kind: ValueType) -> Any:
    """Return a number that orders limits."""
    return read_query_values(limit, kind)[0][0] if kind.is_temporal else limit
