"""What a server tells of queries, streams and alarms, read back from JSON."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from quantide.client.values import read_time, read_value
from quantide.client.words import read_key
from quantide.summary.types import ValueType, type_named

MOMENTS = ("created", "since", "at")  # of the server's clock
LIMITS = ("above", "below", "clear")


@dataclass(frozen=True, slots=True)
class QueryState:
    """What is known of a standing query. `state` is "value"; or "empty" where nothing lies in its window, "waiting"
    where its stream cannot be read yet, "failed" (`why` says why), "dropped": then it has no value."""

    id: int
    state: str
    value: Any = None
    rank_lo: int | None = None
    rank_hi: int | None = None
    n: int | None = None
    error: float | None = None
    version: int | None = None
    why: str | None = None


def read_event(kind: str, data: Any) -> Any:
    """What an event says: a list of QueryState of a "queries" event, a dict of any other."""
    if kind == "queries":
        return [read_state(one) for one in data["changes"]]
    if kind == "stream":
        return data | {"newest": read_time(data.get("newest"))}
    return read_alarm(data) if kind == "alarm" else data


def read_state(said: dict[str, Any]) -> QueryState:
    known = {name: said[name] for name in QueryState.__slots__ if name in said}
    if said["state"] == "value":
        known["value"] = read_value(said["value"], type_named(said["value_type"]))
    return QueryState(**known)


def read_query(said: dict[str, Any]) -> dict[str, Any]:
    """A standing query; with its state under "answer" where that was asked for."""
    state = {"answer": read_state(said["answer"])} if "answer" in said else {}
    return said | {"key": read_key(said["key"]), "created": read_moment(said["created"])} | state


def read_alarm(said: dict[str, Any]) -> dict[str, Any]:
    """An alarm, or a change of one; its values are of the type of its stream as far as that is known."""
    found = said | {"key": read_key(said["key"])} if "key" in said else dict(said)
    for name in MOMENTS:
        if found.get(name) is not None:
            found[name] = read_moment(found[name])
    if found.get("value_type") is not None:
        kind = type_named(found["value_type"])
        found |= {name: read_limit(found[name], kind) for name in LIMITS if found.get(name) is not None}
        if found.get("value") is not None:
            found["value"] = read_value(found["value"], kind)
    return found


def read_limit(said: Any, kind: ValueType) -> Any:
    """A limit as it was set, which need not be a value of the stream: 5.5 among integers. Durations stay text."""
    if kind.dtype.kind == "M":
        return np.datetime64(said.removesuffix("Z"))
    if kind.dtype.kind == "m" or not isinstance(said, str):
        return Decimal(repr(said)) if kind.is_decimal else said
    return float(said) if kind.is_float else Decimal(said)


def read_moment(text: str) -> datetime:
    """A moment of the server's clock.

    >>> read_moment("2026-01-31T12:00:00Z")
    datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    return datetime.fromisoformat(text)
