"""What responses look like, for the manual: every field with what it means, every body with an example."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

VALUE = "A number; infinities, times, durations and decimals are text."


def example(body: Any) -> ConfigDict:
    """The settings of a model that has an example."""
    return ConfigDict(json_schema_extra={"example": body})


class Span(BaseModel):
    """What an answer covers."""

    window: str
    since: Any = Field(None, description="Windows of time reach from after this time...")
    until: Any = Field(None, description="...to this one.")
    last_steps: int | None = Field(None, description="Ended steps that are covered, with the open one.")


class Answer(BaseModel):
    """A value with its certificate: its rank is proved to be between rank_lo and rank_hi."""

    phi: float
    value: Any = Field(description=VALUE)
    rank_lo: int
    rank_hi: int
    target: int = Field(description="The rank that phi asks for: max(1, ceil(phi*n)).")
    n: int
    error: float = Field(description="How far the value may be from its target, as a fraction of n. Proved.")
    low: Any = Field(None, description="With band=true: the true quantile is proved to be at least this...")
    high: Any = Field(None, description="...and at most this.")
    blocks_read: int = Field(description="Blocks of history that were read for it.")
    span: Span


class Told(BaseModel):
    """What all answers to one question have in common."""

    stream: str
    key: Any
    window: str
    filter: str | None
    mode: str = Field(description="How it was found: quick, accurate or exact.")
    version: int = Field(description="The commit as of which it holds.")
    n: int
    value_type: str


SPAN = {"window": "within:5m", "since": "2026-01-31T11:55:00", "until": "2026-01-31T12:00:00"}
ABOUT = {
    "stream": "latency",
    "key": "/pay",
    "window": "within:5m",
    "filter": None,
    "mode": "accurate",
    "version": 812,
    "n": 40042,
    "value_type": "float64",
}
P99 = {"phi": 0.99, "value": 204.4, "rank_lo": 39622, "rank_hi": 39662, "target": 39642, "n": 40042, "error": 0.0005}


NOW = {"stream": "latency", "key": "/pay", "window": "within:5m"}
YEAR = NOW | {"window": "all"}


class Quantiles(Told):
    model_config = example(ABOUT | {"answers": [P99 | {"blocks_read": 0, "span": SPAN}]})

    answers: list[Answer]


class Rank(BaseModel):
    """How many values are at most a value, proved."""

    value: Any = Field(description=VALUE)
    rank_lo: int
    rank_hi: int
    n: int
    span: Span


class Ranks(Told):
    model_config = example(
        ABOUT | {"ranks": [{"value": 250.0, "rank_lo": 39802, "rank_hi": 39842, "n": 40042, "span": SPAN}]}
    )

    ranks: list[Rank]


class Point(BaseModel):
    """A point of a curve: the fraction of values that are at most `value` is between `lo` and `hi`, proved."""

    value: Any = Field(description=VALUE)
    fraction: float
    lo: float
    hi: float


class Curve(Told):
    model_config = example(ABOUT | {"points": [{"value": 250.0, "fraction": 0.9945, "lo": 0.994, "hi": 0.995}]})

    points: list[Point]


class Line(BaseModel):
    """One phi at every moment; null where the window was empty."""

    phi: float
    value: list[Any] = Field(description=VALUE)
    low: list[Any] = Field(description="The true quantile is proved to be at least this...")
    high: list[Any] = Field(description="...and at most this.")


class Lines(BaseModel):
    model_config = example(
        {name: ABOUT[name] for name in ("stream", "key", "window", "filter", "value_type", "version")}
        | {"since": SPAN["since"], "times": [SPAN["until"]], "n": [40042]}
        | {"lines": [{"phi": 0.99, "value": [204.4], "low": [203.9], "high": [205.1]}]}
    )

    stream: str
    key: Any
    window: str
    filter: str | None
    value_type: str
    version: int = Field(description="The commit as of which it holds.")
    since: Any = Field(description="The window of the first moment begins after this time.")
    times: list[Any] = Field(description="The moments, the newest time last.")
    n: list[int] = Field(description="How many values lay in the window at each moment.")
    lines: list[Line]


class Axis(BaseModel):
    """What lies along one axis, and how fine it is."""

    stream: str
    key: Any
    window: str
    value_type: str
    n: int
    version: int
    mode: str
    error: float = Field(description="The largest error of its points.")


class Pair(BaseModel):
    """The same phi of both."""

    phi: float
    x: Any = Field(description=VALUE)
    y: Any = Field(description=VALUE)
    x_error: float
    y_error: float


class Plot(BaseModel):
    model_config = example(
        {
            "x": NOW | {"value_type": "float64", "n": 40042, "version": 812, "mode": "quick", "error": 0.0005},
            "y": YEAR | {"value_type": "float64", "n": 91244018, "version": 812, "mode": "quick", "error": 0.0009},
            "points": [{"phi": 0.99, "x": 204.4, "y": 187.2, "x_error": 0.0005, "y_error": 0.0009}],
        }
    )

    x: Axis
    y: Axis
    points: list[Pair]


class Failure(BaseModel):
    """What went wrong."""

    code: str = Field(description="For programs.", examples=["unknown_key"])
    message: str = Field(description="For people: what is wrong, and what to do.")


class Wrong(BaseModel):
    """Every response that is not a success."""

    error: Failure


WHY = {
    400: "Something in the request is wrong: the message says what to write instead.",
    401: "A token is needed, and there is none that counts.",
    403: "The token's role does not allow this, or the request comes from another site.",
    404: "There is no such stream, key, query or alarm, or nothing lies in the window.",
    429: "A limit of the server's.",
    503: "The stream cannot be read just now.",
}
FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": Wrong, "description": why} for status, why in WHY.items()
}
