"""Routes of charts: time series of a window's quantiles, and Q-Q plots."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.live_view import LiveAnswer
from quantide.live.time_series import LiveTimeSeries, Point
from quantide.server.http.query_parameters import (
    FILTER_TEXT,
    KEY_TEXT,
    FastRoute,
    Phi,
    Selector,
    check_count,
    key_field,
    read_key,
    read_window,
)
from quantide.server.http.response_cache import set_versions
from quantide.server.http.response_json import encode_key, encode_value, json_response
from quantide.server.http.tokens import identity_of
from quantide.server.routes.response_schemas import ERROR_RESPONSES, QQPlotModel, TimeSeriesListModel
from quantide.server.service import Service

POINTS = 120
MAX_SERIES = 10  # all time series of a response have at most this many times limits.points values together
WINDOW_TEXT = "A time window: `within:5m`."
OVER_TEXT = "How far back the time series begins, before the newest time: `30m`."
MODES = ("quick", "accurate", "exact")  # the cheapest first
ADDRESS_TEXT = "`stream[:key][@window]`, such as `latency:/pay@within:5m`; a key of several columns is a list in JSON."


class TimeSeriesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    phi: list[Phi] = Field(description="Which quantiles: one time series each.", examples=[[0.5, 0.99]], min_length=1)
    window: str = Field(description=WINDOW_TEXT, examples=["within:5m"], max_length=100)
    over: str = Field(description=OVER_TEXT, examples=["30m"], max_length=100)
    points: int = Field(POINTS, description="Number of points, at most.", ge=2)
    key: list[str] | None = Field(None, description=KEY_TEXT, max_length=16)
    filter: str | None = Field(None, description=FILTER_TEXT, max_length=100)


class QQQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: str = Field(description=ADDRESS_TEXT, examples=["latency:/pay@within:5m"], max_length=2_000)
    y: str = Field(description=ADDRESS_TEXT, examples=["latency:/pay"], max_length=2_000)
    start: float = Field(0.0, alias="from", description="The first phi.", ge=0, lt=1)
    to: float = Field(1.0, description="The last phi.", gt=0, le=1)
    points: int = Field(200, description="Number of values of phi, evenly spread.", ge=2)


@dataclass(frozen=True)
class QQAxis:
    """Answers along one axis of a Q-Q plot."""

    address: Selector
    value_type: str
    answers: list[LiveAnswer]

    @property
    def error(self) -> float:
        return max(answer.error for answer in self.answers)

    def to_json(self) -> dict[str, Any]:
        first = self.answers[0]
        return {
            "stream": self.address.stream,
            "key": encode_key(self.address.key),
            "window": self.address.window,
            "value_type": self.value_type,
            "n": first.n,
            "version": first.version,
            "mode": first.mode,
            "error": self.error,
        }


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["streams"], route_class=FastRoute, responses=ERROR_RESPONSES)

    @router.get(
        "/streams/{stream}/lines", response_model=TimeSeriesListModel, summary="Time series of a window's quantiles"
    )
    async def lines(request: Request, stream: str, query: Annotated[TimeSeriesQuery, Query()]) -> Response:
        live = service.streams.live(stream)
        check_count("points", query.points, service.limits.points)
        check_count("points of time series", query.points * len(query.phi), MAX_SERIES * service.limits.points)
        series = await service.compute(lambda: compute_time_series(live, query))
        set_versions(request, (stream, series.version))
        return json_response(encode_time_series(stream, query, live, series))

    async def answer_axis(address: Selector, phis: list[float], spacing: float) -> QQAxis:
        live = service.streams.live(address.stream)
        return await service.compute(lambda: compute_axis(live, address, phis, spacing))

    @router.get("/qq", response_model=QQPlotModel, summary="Q-Q plot; the smaller the range of phi, the finer it is")
    async def qq(request: Request, query: Annotated[QQQuery, Query()]) -> Response:
        check_count("points", query.points, service.limits.points)
        if query.to <= query.start:
            raise InvalidArgumentError(f"from={query.start} and to={query.to}: from must be below to")
        addresses = Selector.read(query.x), Selector.read(query.y)
        for address in addresses:
            identity_of(request).check_stream(address.stream)
        phis = np.linspace(query.start, query.to, query.points).tolist()
        spacing = (query.to - query.start) / (query.points - 1)
        x, y = [await answer_axis(address, phis, spacing) for address in addresses]
        set_versions(request, *((axis.address.stream, axis.answers[0].version) for axis in (x, y)))
        points = zip(phis, x.answers, y.answers, strict=True)
        return json_response(
            {"x": x.to_json(), "y": y.to_json(), "points": [encode_qq_point(*point) for point in points]}
        )

    return router


def compute_time_series(live: LiveStream, query: TimeSeriesQuery) -> LiveTimeSeries:
    window = read_window(query.window)
    if set(window) != {"within"}:
        raise InvalidArgumentError(f"a time series needs a time window, and {query.window!r} is none; write within:5m")
    return live.time_series(query.phi, window["within"], query.over, query.points, read_key(query.key), query.filter)


def encode_time_series(stream: str, query: TimeSeriesQuery, live: LiveStream, series: LiveTimeSeries) -> dict[str, Any]:
    return {
        "stream": stream,
        "key": key_field(query.key),
        "window": query.window,
        "filter": query.filter,
        "value_type": live.settings.value_type,
        "version": series.version,
        "since": encode_value(series.since),
        "times": [encode_value(time) for time in series.times],
        "n": series.n,
        "lines": [{"phi": phi} | encode_points(points) for phi, points in zip(query.phi, series.lines, strict=True)],
    }


def encode_points(points: list[Point | None]) -> dict[str, list[Any]]:
    """Return the columns of a time series: values and their bounds."""
    columns = zip(*(point or (None, None, None) for point in points), strict=True)
    return {
        name: [None if value is None else encode_value(value) for value in column]
        for name, column in zip(("value", "low", "high"), columns, strict=True)
    }


def compute_axis(live: LiveStream, address: Selector, phis: list[float], spacing: float) -> QQAxis:
    """Answer each phi in the cheapest mode whose error is at most the spacing of phi; or in the finest possible."""
    scope, value_type = {"key": address.key, **read_window(address.window)}, live.settings.value_type
    axis = QQAxis(address, value_type, live.answers(phis, mode=MODES[0], **scope))
    for mode in MODES[1:]:
        if axis.error <= spacing or live.is_scanned(mode, **scope):  # `mode` and `error` show the precision of the axis
            break
        axis = QQAxis(address, value_type, live.answers(phis, mode=mode, **scope))
    return axis


def encode_qq_point(phi: float, x: LiveAnswer, y: LiveAnswer) -> dict[str, Any]:
    return {
        "phi": phi,
        "x": encode_value(x.value),
        "y": encode_value(y.value),
        "x_error": x.error,
        "y_error": y.error,
    }
