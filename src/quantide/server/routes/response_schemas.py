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


class RankedKeyModel(BaseModel):
    """Key of a ranking: its quantile with proved bounds, and its position among all keys, proved likewise."""

    key: Any
    value: Any = Field(description=VALUE)
    low: Any = Field(description="The true quantile of the key is proved to be at least this...")
    high: Any = Field(description="...and at most this.")
    rank_lo: int
    rank_hi: int
    target: int
    n: int
    error: float
    position_lo: int = Field(description="One more than the number of keys that are proved to be worse.")
    position_hi: int = Field(description="One more than the number of keys that may be worse.")
    proved: bool = Field(description="The key is proved to be among the worst `most`: position_hi is at most `most`.")
    above_rest: bool = Field(description="Every key after it, listed or not, is proved to be better.")


class WorstKeysModel(BaseModel):
    model_config = example(
        {name: ABOUT[name] for name in ("stream", "window", "filter", "mode", "version", "value_type")}
        | {"phi": 0.99, "most": 1, "smallest": False, "min_n": 100, "keys": 5120, "too_few": 31, "contenders": 0}
        | {"span": SPAN}
        | {
            "listed": [
                {"key": "/pay"}
                | {name: value for name, value in P99.items() if name != "phi"}
                | {"low": 203.9, "high": 205.1, "position_lo": 1, "position_hi": 1, "proved": True, "above_rest": True}
            ]
        }
    )

    stream: str
    window: str
    filter: str | None
    mode: str
    version: int = Field(description="The commit that the response was computed from.")
    value_type: str
    phi: float
    most: int
    smallest: bool
    min_n: int
    keys: int = Field(description="Number of keys that were compared.")
    too_few: int = Field(description="Number of keys that have fewer than `min_n` values.")
    contenders: int = Field(description="Number of keys that are not listed, but may be among the worst `most`.")
    span: SpanModel
    listed: list[RankedKeyModel]


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


class IntervalModel(BaseModel):
    """Interval that is proved to contain the exact result."""

    low: Any = Field(description=VALUE)
    high: Any = Field(description=VALUE)


class ShiftModel(IntervalModel):
    """Difference of a quantile: that of the stream minus that of the reference; null where there is no bound."""

    phi: float
    is_above: str = Field(description="The quantile is above that of the reference: yes, no, or not proved.")


class ComparedModel(BaseModel):
    """One side of a comparison."""

    stream: str
    key: Any
    window: str
    filter: str | None
    version: int = Field(description="The commit that the response was computed from.")
    n: int
    error: float = Field(description="Certified error of the side's summary, as a fraction of n.")
    value_type: str


SIDE = {name: ABOUT[name] for name in ("stream", "key", "window", "filter", "version", "n", "value_type")}
SHIFT = {"phi": 0.99, "low": 15.2, "high": 19.8, "is_above": "yes"}


class ComparisonModel(ComparedModel):
    model_config = example(
        SIDE
        | {"error": 0.0005, "against": SIDE | {"window": "all", "n": 91244018, "error": 0.0009}}
        | {"ks": {"low": 0.071, "high": 0.074}, "psi": {"low": 0.031, "high": 0.034}}
        | {"wasserstein": {"low": 4.9, "high": 5.3}, "shifts": [SHIFT], "splits": [12.5], "floor": 0.0001}
    )

    against: ComparedModel
    ks: IntervalModel = Field(description="Kolmogorov-Smirnov distance: the largest difference of the two CDFs.")
    psi: IntervalModel = Field(description="Population stability index over the bins between `splits`.")
    wasserstein: IntervalModel = Field(description="Area between the two CDFs, in units of the values.")
    shifts: list[ShiftModel]
    splits: list[Any] = Field(description="Values between the bins of `psi`.")
    floor: float = Field(description="The least fraction of a bin.")


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
