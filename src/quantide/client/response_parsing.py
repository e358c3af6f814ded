"""Parsing of JSON responses: values, answers, curves, continuous queries, alarms and events."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np

from quantide.summary.answer import AnswerAsOf
from quantide.summary.common_type import common_type
from quantide.summary.comparison import MEASURES, PROOFS
from quantide.summary.key_ranking import KeyRankingAsOf, RankedKey
from quantide.summary.value_types import ValueType, type_named

SERVER_TIMES = ("created", "since", "at")  # fields of an alarm with a time of the server's clock
THRESHOLDS = ("above", "below", "clear")


@dataclass(frozen=True, slots=True)
class RemoteAnswer(AnswerAsOf):
    """An answer of a live reader, received over HTTP."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a distribution: about `fraction` of all values are at most `value`; proved bounds are `lo`, `hi`."""

    value: Any
    fraction: float
    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class QQPoint:
    """The phi-quantiles of two streams, keys or windows, each with its error bound as a fraction of its values."""

    phi: float
    x: Any
    y: Any
    x_error: float
    y_error: float


@dataclass(frozen=True, slots=True)
class RemoteComparison:
    """Results of a comparison, received over HTTP; each is an interval (low, high) that contains the exact result.

    `above` has the proof by phi: True or False if it is proved whether the quantile is above that of the reference,
    else None. `n` and `version` are those of the stream, `against_n` and `against_version` those of the reference.
    """

    ks: tuple[float, float]
    psi: tuple[float, float]
    wasserstein: tuple[float, float]
    shifts: dict[float, tuple[Any, Any]]
    above: dict[float, bool | None]
    n: int
    version: int
    against_n: int
    against_version: int


@dataclass(frozen=True, slots=True)
class QueryState:
    """State of a continuous query.

    `state` is "value", or one of the states without a value: "empty" (no values in its window), "waiting" (its stream
    cannot be read yet), "failed" (`why` has the reason) and "dropped".
    """

    id: int
    state: str
    value: Any = None
    rank_lo: int | None = None
    rank_hi: int | None = None
    n: int | None = None
    error: float | None = None
    version: int | None = None
    why: str | None = None


# Values, times and keys


def parse_value(field: Any, value_type: ValueType) -> Any:
    """Return a stream's value with the type that a reader in the same process gives it.

    >>> from quantide.summary.value_types import type_named
    >>> parse_value("-inf", type_named("float64")), parse_value("1.50", type_named("decimal[2]"))
    (np.float64(-inf), Decimal('1.50'))
    >>> parse_value("1500 ms", type_named("duration[ms]")), parse_value("2026-01-31", type_named("date"))
    (np.timedelta64(1500,'ms'), np.datetime64('2026-01-31'))
    """
    if value_type.is_decimal:
        return Decimal(field)
    if value_type.dtype.kind == "m":
        number, unit = field.split(" ")
        return np.timedelta64(int(number), unit).astype(value_type.dtype)
    if value_type.dtype.kind == "M":
        return np.datetime64(str(field)).astype(value_type.dtype)
    if isinstance(field, bool) or not isinstance(field, (int, float, str)):
        raise TypeError(f"{field!r} is not a value of type {value_type}")
    return value_type.dtype.type(float(field) if value_type.is_float else field)


def parse_time(field: Any) -> Any:
    """Return a time of a stream: seconds, a timestamp, or None.

    >>> parse_time(12.5), parse_time("2026-01-31T12:00:00")
    (12.5, np.datetime64('2026-01-31T12:00:00'))
    """
    if isinstance(field, str):
        return np.datetime64(field)
    return None if field is None else float(field)


def parse_server_time(field: str) -> datetime:
    """Return a time of the server's clock.

    >>> parse_server_time("2026-01-31T12:00:00Z")
    datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)
    """
    return datetime.fromisoformat(field)


def parse_key(field: Any) -> Any:
    """Return a key; a tuple if it has several columns."""
    return tuple(field) if isinstance(field, list) else field


def parse_threshold(field: Any, value_type: ValueType) -> Any:
    """Return a threshold as it was set; it need not be a value of the stream (5.5 for integers). Durations are text."""
    if value_type.dtype.kind == "M":
        return np.datetime64(field.removesuffix("Z"))
    if value_type.dtype.kind == "m" or not isinstance(field, str):
        return Decimal(repr(field)) if value_type.is_decimal else field
    return float(field) if value_type.is_float else Decimal(field)


# Answers


def parse_answers(body: dict[str, Any]) -> list[RemoteAnswer]:
    value_type = type_named(body["value_type"])
    return [_parse_answer(answer, body, value_type) for answer in body["answers"]]


def _parse_answer(answer: dict[str, Any], body: dict[str, Any], value_type: ValueType) -> RemoteAnswer:
    span = answer["span"]
    return RemoteAnswer(
        value=parse_value(answer["value"], value_type),
        phi=float(answer["phi"]),
        target=int(answer["target"]),
        rank_lo=int(answer["rank_lo"]),
        rank_hi=int(answer["rank_hi"]),
        n=int(answer["n"]),
        error=float(answer["error"]),
        n_lo=int(answer["n"]),
        n_hi=int(answer["n"]),
        version=int(body["version"]),
        mode=str(body["mode"]),
        blocks_read=int(answer["blocks_read"]),
        last_steps=span.get("last_steps"),
        since=parse_time(span.get("since")),
        until=parse_time(span.get("until")),
        requests=int(answer.get("requests", 0)),  # a server of 0.1 has none
    )


def parse_ranking(body: dict[str, Any]) -> KeyRankingAsOf:
    """Return the worst keys; values have the stream's type."""
    kind, span = type_named(body["value_type"]), body["span"]
    rows = []
    for row in body["listed"]:
        values = {name: parse_value(row[name], kind) for name in ("value", "low", "high")}
        fields = {name: row[name] for name in RankedKey.__slots__}
        rows.append(RankedKey(**(fields | values | {"key": parse_key(row["key"])})))
    counts = {name: body[name] for name in ("phi", "most", "smallest", "min_n", "keys", "too_few", "contenders")}
    return KeyRankingAsOf(
        listed=rows,
        **counts,
        version=int(body["version"]),
        mode=str(body["mode"]),
        last_steps=span.get("last_steps"),
        since=parse_time(span.get("since")),
        until=parse_time(span.get("until")),
    )


def parse_curve(body: dict[str, Any]) -> list[CurvePoint]:
    value_type = type_named(body["value_type"])
    return [
        CurvePoint(
            parse_value(point["value"], value_type), float(point["fraction"]), float(point["lo"]), float(point["hi"])
        )
        for point in body["points"]
    ]


def parse_qq_plot(body: dict[str, Any]) -> list[QQPoint]:
    """Return the points of a Q-Q plot; its axes may have different types."""
    x_type, y_type = (type_named(body[axis]["value_type"]) for axis in ("x", "y"))
    return [
        QQPoint(
            float(point["phi"]),
            parse_value(point["x"], x_type),
            parse_value(point["y"], y_type),
            float(point["x_error"]),
            float(point["y_error"]),
        )
        for point in body["points"]
    ]


def parse_comparison(body: dict[str, Any]) -> RemoteComparison:
    own, other = type_named(body["value_type"]), type_named(body["against"]["value_type"])
    kind = common_type(own, other)
    proofs = {word: proof for proof, word in PROOFS.items()}
    return RemoteComparison(
        **{name: _parse_interval(body[name]) for name in MEASURES},
        shifts={float(shift["phi"]): _parse_shift(shift, kind) for shift in body["shifts"]},
        above={float(shift["phi"]): proofs[shift["is_above"]] for shift in body["shifts"]},
        n=int(body["n"]),
        version=int(body["version"]),
        against_n=int(body["against"]["n"]),
        against_version=int(body["against"]["version"]),
    )


def _parse_interval(interval: dict[str, Any]) -> tuple[float, float]:
    return float(interval["low"]), float(interval["high"])


def _parse_shift(shift: dict[str, Any], kind: ValueType) -> tuple[Any, Any]:
    return _parse_difference(shift["low"], kind), _parse_difference(shift["high"], kind)


def _parse_difference(field: Any, kind: ValueType) -> Any:
    """Return a difference of two values: a duration of times, an infinite float, or a number of the type."""
    if field is None:
        return None
    if kind.is_temporal:
        number, unit = field.split(" ")
        return np.timedelta64(int(number), unit)
    if field in ("inf", "-inf"):
        return float(field)
    return Decimal(field) if kind.is_decimal else float(field) if kind.is_float else int(field)


# Streams, continuous queries, alarms and events


def parse_stream(body: dict[str, Any]) -> dict[str, Any]:
    if not body["ready"]:
        return body
    type_named(body["value_type"])
    keys = {"keys": [parse_key(key) for key in body["keys"]]} if "keys" in body else {}
    return body | {"newest": parse_time(body["newest"])} | keys


def parse_event(kind: str, body: Any) -> Any:
    """Return the data of an event: a list of QueryState if its kind is "queries", otherwise a dict."""
    if kind == "queries":
        return [parse_state(change) for change in body["changes"]]
    if kind == "stream":
        return body | {"newest": parse_time(body.get("newest"))}
    return parse_alarm(body) if kind == "alarm" else body


def parse_state(body: dict[str, Any]) -> QueryState:
    fields = {name: body[name] for name in QueryState.__slots__ if name in body}
    if body["state"] == "value":
        fields["value"] = parse_value(body["value"], type_named(body["value_type"]))
    return QueryState(**fields)


def parse_query(body: dict[str, Any]) -> dict[str, Any]:
    """Return a continuous query, with its state under "answer" if the response has one."""
    state = {"answer": parse_state(body["answer"])} if "answer" in body else {}
    return body | {"key": parse_key(body["key"]), "created": parse_server_time(body["created"])} | state


def parse_alarm(body: dict[str, Any]) -> dict[str, Any]:
    """Return an alarm or one of its transitions; its values have the stream's type if the response names it."""
    alarm = body | {"key": parse_key(body["key"])} if "key" in body else dict(body)
    for name in SERVER_TIMES:
        if alarm.get(name) is not None:
            alarm[name] = parse_server_time(alarm[name])
    if alarm.get("measure", "quantile") != "quantile":
        return _parse_comparison_alarm(alarm)
    if alarm.get("value_type") is not None:
        value_type = type_named(alarm["value_type"])
        alarm |= {name: parse_threshold(alarm[name], value_type) for name in THRESHOLDS if alarm.get(name) is not None}
        if alarm.get("value") is not None:
            alarm["value"] = parse_value(alarm["value"], value_type)
    return alarm


def _parse_comparison_alarm(alarm: dict[str, Any]) -> dict[str, Any]:
    """Return an alarm on a distance: its value is (low, high), whatever the type of the stream."""
    alarm["against"] = alarm["against"] | {"key": parse_key(alarm["against"]["key"])}
    if alarm.get("value") is not None:
        alarm["value"] = float(alarm["value"]["low"]), float(alarm["value"]["high"])
    return alarm
