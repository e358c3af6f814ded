"""What a server answers, read back from JSON."""

from dataclasses import dataclass
from typing import Any

from quantide.client.values import read_time, read_value
from quantide.summary.answer import AnswerAsOf
from quantide.summary.types import ValueType, type_named


@dataclass(frozen=True, slots=True)
class RemoteAnswer(AnswerAsOf):
    """An answer of a live reader, over HTTP."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a distribution: about `fraction` of all values are at most `value`; proved are `lo` and `hi`."""

    value: Any
    fraction: float
    lo: float
    hi: float


def read_answers(body: dict[str, Any]) -> list[RemoteAnswer]:
    """The answers of a response."""
    kind = type_named(body["value_type"])
    return [_answer(one, body, kind) for one in body["answers"]]


def _answer(one: dict[str, Any], body: dict[str, Any], kind: ValueType) -> RemoteAnswer:
    span = one["span"]
    return RemoteAnswer(
        value=read_value(one["value"], kind),
        phi=float(one["phi"]),
        target=int(one["target"]),
        rank_lo=int(one["rank_lo"]),
        rank_hi=int(one["rank_hi"]),
        n=int(one["n"]),
        error=float(one["error"]),
        n_lo=int(one["n"]),
        n_hi=int(one["n"]),
        version=int(body["version"]),
        mode=str(body["mode"]),
        blocks_read=int(one["blocks_read"]),
        last_steps=span.get("last_steps"),
        since=read_time(span.get("since")),
        until=read_time(span.get("until")),
    )


def read_curve(body: dict[str, Any]) -> list[CurvePoint]:
    """The points of a response."""
    kind = type_named(body["value_type"])
    return [
        CurvePoint(read_value(one["value"], kind), float(one["fraction"]), float(one["lo"]), float(one["hi"]))
        for one in body["points"]
    ]


@dataclass(frozen=True, slots=True)
class QQPoint:
    """The same phi of two streams, keys or windows, and how far off each is at most, as a fraction of its values."""

    phi: float
    x: Any
    y: Any
    x_error: float
    y_error: float


def read_plot(body: dict[str, Any]) -> list[QQPoint]:
    """The points of a Q-Q plot; its axes may have different types."""
    x, y = (type_named(body[axis]["value_type"]) for axis in ("x", "y"))
    return [
        QQPoint(
            float(one["phi"]),
            read_value(one["x"], x),
            read_value(one["y"], y),
            float(one["x_error"]),
            float(one["y_error"]),
        )
        for one in body["points"]
    ]
