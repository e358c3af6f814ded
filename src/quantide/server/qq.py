"""The Q-Q plot: the same phi of two streams, keys or windows against each other."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError, QuantideError
from quantide.live.answer import LiveAnswer
from quantide.live.stream import LiveStream
from quantide.server import shown
from quantide.server.again import as_of
from quantide.server.asking import LEAST, check_many
from quantide.server.quick import QuickRoute
from quantide.server.schemas import FAILURES, Plot
from quantide.server.service import Service
from quantide.server.words import Place, read_window

MODES = ("quick", "accurate", "exact")  # the cheapest first
PLACE = "`stream[:key][@window]`, such as `latency:/pay@within:5m`; a key of several columns is a list in JSON."


class AskedPlot(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: str = Field(description=PLACE, examples=["latency:/pay@within:5m"], max_length=2_000)
    y: str = Field(description=PLACE, examples=["latency:/pay"], max_length=2_000)
    start: float = Field(0.0, alias="from", description="The first phi.", ge=0, lt=1)
    to: float = Field(1.0, description="The last phi.", gt=0, le=1)
    points: int = Field(200, description="How many values of phi, evenly spread.", ge=2)


@dataclass(frozen=True)
class Axis:
    """The answers along one axis, and how fine they are."""

    place: Place
    value_type: str
    answers: list[LiveAnswer]

    @property
    def error(self) -> float:
        return max(answer.error for answer in self.answers)

    def shown(self) -> dict[str, Any]:
        first = self.answers[0]
        return {
            "stream": self.place.stream,
            "key": shown.key(self.place.key),
            "window": self.place.window,
            "value_type": self.value_type,
            "n": first.n,
            "version": first.version,
            "mode": first.mode,
            "error": self.error,
        }


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["streams"], route_class=QuickRoute, responses=FAILURES)

    async def answered(place: Place, phis: list[float], apart: float) -> Axis:
        live = service.streams.live(place.stream)
        return await service.ask(lambda: along(live, place, phis, apart))

    @router.get("/api/qq", response_model=Plot, summary="A Q-Q plot, finer where a smaller range of phi is asked for")
    async def qq(request: Request, asked: Annotated[AskedPlot, Query()]) -> Response:
        check_many("points", asked.points, service.limits.points)
        if asked.to <= asked.start:
            raise InvalidArgumentError(f"from={asked.start} and to={asked.to}: from must be below to")
        places = Place.read(asked.x), Place.read(asked.y)
        phis = np.linspace(asked.start, asked.to, asked.points).tolist()
        apart = (asked.to - asked.start) / (asked.points - 1)
        x, y = [await answered(place, phis, apart) for place in places]
        as_of(request, *((axis.place.stream, axis.answers[0].version) for axis in (x, y)))
        each = zip(phis, x.answers, y.answers, strict=True)
        return shown.json({"x": x.shown(), "y": y.shown(), "points": [point(*one) for one in each]})

    return router


def along(live: LiveStream, place: Place, phis: list[float], apart: float) -> Axis:
    """The answers for each phi, in the cheapest mode that tells one phi from the next; or the finest there is."""
    wanted = [phi or LEAST for phi in phis]
    about, kind = {"key": place.key, **read_window(place.window)}, live.settings.value_type
    found = Axis(place, kind, live.answers(wanted, mode=MODES[0], **about))
    for mode in MODES[1:]:
        if found.error <= apart:
            break
        try:
            found = Axis(place, kind, live.answers(wanted, mode=mode, **about))
        except QuantideError:  # refused: it would read too much. `mode` and `error` of the axis tell how fine it is
            break
    return found


def point(phi: float, x: LiveAnswer, y: LiveAnswer) -> dict[str, Any]:
    return {
        "phi": phi,
        "x": shown.value(x.value),
        "y": shown.value(y.value),
        "x_error": x.error,
        "y_error": y.error,
    }
