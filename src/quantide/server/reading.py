"""Routes that ask about one stream: quantiles, ranks, curves, summaries."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from quantide.errors import InvalidArgumentError
from quantide.live.answer import LiveAnswer, LiveBand, LiveRank
from quantide.live.stream import LiveStream
from quantide.server import shown
from quantide.server.again import as_of
from quantide.server.asking import LEAST, About, Asked, AskedCurve, AskedQuantiles, AskedRanks, check_many, key_told
from quantide.server.quick import QuickRoute
from quantide.server.schemas import FAILURES, Curve, Quantiles, Ranks
from quantide.server.service import Service
from quantide.server.words import read_value
from quantide.summary.summary import Summary
from quantide.summary.types import type_named

POINTS = 100
FEW = 10  # quantiles


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"], route_class=QuickRoute, responses=FAILURES)

    @router.get("/{stream}/quantiles", response_model=Quantiles, summary="Quantiles of a stream, a key or a window")
    async def quantiles(request: Request, stream: str, asked: Annotated[AskedQuantiles, Query()]) -> Response:
        live = service.streams.live(stream)
        check_many("values of phi", len(asked.phi), service.limits.phis)
        words = asked.words(live)
        if asked.band:
            bands = await service.ask(lambda: live.bands(asked.phi, mode=asked.mode, **words))
            as_of(request, (stream, bands[0].answer.version))
            body = about(stream, asked, live, bands[0].answer)
            return shown.json(body | {"answers": [banded(found, asked.window) for found in bands]})
        if len(asked.phi) <= FEW and live.at_hand(
            asked.phi, asked.mode, **words
        ):  # a thread would take longer than the answer
            answers = live.answers(asked.phi, mode=asked.mode, **words)
        else:
            answers = await service.ask(lambda: live.answers(asked.phi, mode=asked.mode, **words))
        as_of(request, (stream, answers[0].version))
        body = about(stream, asked, live, answers[0])
        return shown.json(body | {"answers": [answer(found, asked.window) for found in answers]})

    @router.get("/{stream}/rank", response_model=Ranks, summary="How many values are at most a value")
    async def rank(request: Request, stream: str, asked: Annotated[AskedRanks, Query()]) -> Response:
        live = service.streams.live(stream)
        check_many("values", len(asked.value), service.limits.phis)
        found = await service.ask(lambda: ranks_of(live, asked, asked.value))
        as_of(request, (stream, found[0].version))
        return shown.json(
            about(stream, asked, live, found[0]) | {"ranks": [rank_shown(one, asked.window) for one in found]}
        )

    @router.get(
        "/{stream}/cdf", response_model=Curve, summary="The fraction of values at most a value; a curve to draw"
    )
    async def cdf(request: Request, stream: str, asked: Annotated[AskedCurve, Query()]) -> Response:
        live, points = service.streams.live(stream), asked.points or POINTS
        check_many("points", len(asked.value or ()) or points, service.limits.points)
        if asked.value is not None and asked.points is not None:
            raise InvalidArgumentError("value says where the curve is asked about, and points how often; leave one out")

        def ask() -> list[LiveRank]:
            if asked.value is not None:
                return ranks_of(live, asked, asked.value)
            words, phis = asked.words(live), [phi or LEAST for phi in np.linspace(0, 1, points).tolist()]
            values = dict.fromkeys(a.value for a in live.answers(phis, mode=asked.mode, **words))
            return live.ranks(list(values), mode=asked.mode, **words)

        found = await service.ask(ask)
        as_of(request, (stream, found[0].version))
        return shown.json(about(stream, asked, live, found[0]) | {"points": [fraction(one) for one in found]})

    @router.get("/{stream}/summary", summary="A summary, as bytes that Summary.from_bytes() reads")
    async def summary(request: Request, stream: str, asked: Annotated[About, Query()]) -> Response:
        live = service.streams.live(stream)
        found = await service.ask(lambda: summary_of(live, asked))
        return Response(found.to_bytes(), media_type="application/octet-stream")

    return router


def summary_of(live: LiveStream, asked: About) -> Summary:
    words = asked.words(live)
    found = live.summary(**words)
    if not found.n:
        live.answer(1.0, **words)  # says what is not there: the key, or anything at all
    return found


def ranks_of(live: LiveStream, asked: Asked, values: list[str]) -> list[LiveRank]:
    kind = type_named(live.settings.value_type)
    return live.ranks([read_value(text, kind) for text in values], mode=asked.mode, **asked.words(live))


def about(stream: str, asked: About, live: LiveStream, found: LiveAnswer | LiveRank) -> dict[str, Any]:
    """What all answers to one question have in common."""
    return {
        "stream": stream,
        "key": key_told(asked.key),
        "window": asked.window,
        "filter": asked.filter,
        "mode": found.mode,
        "version": found.version,
        "n": found.n,
        "value_type": live.settings.value_type,
    }


def span(found: LiveAnswer | LiveRank, window: str) -> dict[str, Any]:
    """What an answer covers."""
    times = {"since": shown.value(found.since), "until": shown.value(found.until)} if found.since is not None else {}
    steps = {"last_steps": found.last_steps} if found.last_steps is not None else {}
    return {"window": window} | times | steps


def answer(found: LiveAnswer, window: str) -> dict[str, Any]:
    return shown.answer(found) | {"span": span(found, window)}


def banded(found: LiveBand, window: str) -> dict[str, Any]:
    return answer(found.answer, window) | {"low": shown.value(found.low), "high": shown.value(found.high)}


def rank_shown(found: LiveRank, window: str) -> dict[str, Any]:
    bounds = {"rank_lo": found.rank_lo, "rank_hi": found.rank_hi, "n": found.n}
    return {"value": shown.value(found.value)} | bounds | {"span": span(found, window)}


def fraction(found: LiveRank) -> dict[str, Any]:
    """A point of a curve, and the bounds that are proved for it."""
    low, high = found.rank_lo / found.n, found.rank_hi / found.n
    return {"value": shown.value(found.value), "fraction": (low + high) / 2, "lo": low, "hi": high}
