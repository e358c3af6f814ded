"""Response schemas of OpenAPI: every field with its meaning, every body with an example."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

VALUE = "A number; infinities, times, durations and decimals are text."


def example(body: Any) -> ConfigDict:
    """Return the configuration of a model with an example."""
    return ConfigDict(json_schema_extra={"example": body})


class SpanModel(BaseModel):
    """Span of values that an answer covers."""

    window: str
    since: Any = Field(None, description="A time window begins after this time...")
    until: Any = Field(None, description="...and ends at this one.")
    last_steps: int | None = Field(None, description="Ended steps that are covered, beside the open one.")


class AnswerModel(BaseModel):
    """Value whose rank is proved to be between rank_lo and rank_hi."""

    phi: float
    value: Any = Field(description=VALUE)
    rank_lo: int
    rank_hi: int
    target: int = Field(description="The rank of the true quantile: max(1, ceil(phi*n)).")
    n: int
    error: float = Field(description="Largest distance of the value from its target, as a fraction of n. Proved.")
    low: Any = Field(None, description="With band=true: the true quantile is proved to be at least this...")
    high: Any = Field(None, description="...and at most this.")
    blocks_read: int = Field(description="Blocks of history that were read for the answer.")
    requests: int = Field(description="Requests that were made to an object store for the answer; 0 for a folder.")
    span: SpanModel


class AsOfModel(BaseModel):
    """Fields that all answers of one response share."""

    stream: str
    key: Any
    window: str
    filter: str | None
    mode: str = Field(description="The mode of the answer: quick, accurate or exact.")
    version: int = Field(description="The commit that the response was computed from.")
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


class QuantilesModel(AsOfModel):
    model_config = example(ABOUT | {"answers": [P99 | {"blocks_read": 0, "requests": 0, "span": SPAN}]})

    answers: list[AnswerModel]


class RankModel(BaseModel):
    """Number of values that are at most a value, with proved bounds."""

    value: Any = Field(description=VALUE)
    rank_lo: int
    rank_hi: int
    n: int
    span: SpanModel


class RanksModel(AsOfModel):
    model_config = example(
        ABOUT | {"ranks": [{"value": 250.0, "rank_lo": 39802, "rank_hi": 39842, "n": 40042, "span": SPAN}]}
    )

    ranks: list[RankModel]


class CurvePointModel(BaseModel):
    """Point of a curve: the fraction of values that are at most `value` is proved to be between `lo` and `hi`."""

    value: Any = Field(description=VALUE)
    fraction: float
    lo: float
    hi: float


class CurveModel(AsOfModel):
    model_config = example(ABOUT | {"points": [{"value": 250.0, "fraction": 0.9945, "lo": 0.994, "hi": 0.995}]})

    points: list[CurvePointModel]


class TimeSeriesModel(BaseModel):
    """Time series of one phi; null where the window was empty."""

    phi: float
    value: list[Any] = Field(description=VALUE)
    low: list[Any] = Field(description="The true quantile is proved to be at least this...")
    high: list[Any] = Field(description="...and at most this.")


class TimeSeriesListModel(BaseModel):
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
    version: int = Field(description="The commit that the response was computed from.")
    since: Any = Field(description="The window of the first point begins after this time.")
    times: list[Any] = Field(description="The times of the points, the newest time last.")
    n: list[int] = Field(description="Number of values in the window at each point.")
    lines: list[TimeSeriesModel]


class AxisModel(BaseModel):
    """Series along one axis, and its precision."""

    stream: str
    key: Any
    window: str
    value_type: str
    n: int
    version: int
    mode: str
    error: float = Field(description="The largest error of its points.")


class QQPointModel(BaseModel):
    """Quantiles of both series for one phi."""

    phi: float
    x: Any = Field(description=VALUE)
    y: Any = Field(description=VALUE)
    x_error: float
    y_error: float


class QQPlotModel(BaseModel):
    model_config = example(
        {
            "x": NOW | {"value_type": "float64", "n": 40042, "version": 812, "mode": "quick", "error": 0.0005},
            "y": YEAR | {"value_type": "float64", "n": 91244018, "version": 812, "mode": "quick", "error": 0.0009},
            "points": [{"phi": 0.99, "x": 204.4, "y": 187.2, "x_error": 0.0005, "y_error": 0.0009}],
        }
    )

    x: AxisModel
    y: AxisModel
    points: list[QQPointModel]


class FailureModel(BaseModel):
    """Error of a request."""

    code: str = Field(description="For programs.", examples=["unknown_key"])
    message: str = Field(description="For people: the reason, and what to do.")


class ErrorResponseModel(BaseModel):
    """Body of every response that is not a success."""

    error: FailureModel


DESCRIPTIONS = {
    400: "The request is invalid: the message says what to write instead.",
    401: "The request needs a valid token.",
    403: "The token's role does not allow this, or a page of another site sent the request.",
    404: "There is no such stream, key, query or alarm, or the window is empty.",
    429: "The request exceeds a limit of the server.",
    503: "The stream cannot be read now.",
}
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponseModel, "description": text} for status, text in DESCRIPTIONS.items()
}
