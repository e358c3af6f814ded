"""The route of lines: the course of a window's quantiles, for a chart."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError
from quantide.live.course import LiveCourse, Point
from quantide.live.stream import LiveStream
from quantide.server import shown, words
from quantide.server.again import as_of
from quantide.server.asking import FILTER, KEY, Phi, check_many, key_told
from quantide.server.quick import QuickRoute
from quantide.server.schemas import FAILURES, Lines
from quantide.server.service import Service

POINTS = 120
TIMES_POINTS = 10  # as many values as this times the points there may be at most, of all lines together
WINDOW = "A window of time: `within:5m`."
OVER = "How far back moments reach from the newest time: `30m`."


class AskedLines(BaseModel):
    """Which lines."""

    model_config = ConfigDict(extra="forbid")

    phi: list[Phi] = Field(description="Which quantiles: one line each.", examples=[[0.5, 0.99]], min_length=1)
    window: str = Field(description=WINDOW, examples=["within:5m"], max_length=100)
    over: str = Field(description=OVER, examples=["30m"], max_length=100)
    points: int = Field(POINTS, description="How many moments at most.", ge=2)
    key: list[str] | None = Field(None, description=KEY, max_length=16)
    filter: str | None = Field(None, description=FILTER, max_length=100)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"], route_class=QuickRoute, responses=FAILURES)

    @router.get("/{stream}/lines", response_model=Lines, summary="Quantiles of a window at moments of the past")
    async def lines(request: Request, stream: str, asked: Annotated[AskedLines, Query()]) -> Response:
        live = service.streams.live(stream)
        check_many("points", asked.points, service.limits.points)
        check_many("points of lines", asked.points * len(asked.phi), TIMES_POINTS * service.limits.points)
        found = await service.ask(lambda: course_of(live, asked))
        as_of(request, (stream, found.version))
        return shown.json(told(stream, asked, live, found))

    return router


def course_of(live: LiveStream, asked: AskedLines) -> LiveCourse:
    window = words.read_window(asked.window)
    if set(window) != {"within"}:
        raise InvalidArgumentError(f"lines are about windows of time, and {asked.window!r} is none; write within:5m")
    key = words.read_key(asked.key)
    return live.course(asked.phi, window["within"], asked.over, asked.points, key, asked.filter)


def told(stream: str, asked: AskedLines, live: LiveStream, found: LiveCourse) -> dict[str, Any]:
    return {
        "stream": stream,
        "key": key_told(asked.key),
        "window": asked.window,
        "filter": asked.filter,
        "value_type": live.settings.value_type,
        "version": found.version,
        "since": shown.value(found.since),
        "times": [shown.value(time) for time in found.times],
        "n": found.n,
        "lines": [{"phi": phi} | line(points) for phi, points in zip(asked.phi, found.lines, strict=True)],
    }


def line(points: list[Point | None]) -> dict[str, list[Any]]:
    """Values and their bands, each as a list."""
    columns = zip(*(point or (None, None, None) for point in points), strict=True)
    return {
        name: [None if one is None else shown.value(one) for one in column]
        for name, column in zip(("value", "low", "high"), columns, strict=True)
    }
