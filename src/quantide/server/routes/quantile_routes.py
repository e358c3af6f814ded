"""Routes about one stream: quantiles, ranks, CDF curves, summaries."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.live_view import LiveAnswer, LiveBand, LiveRank
from quantide.live.value_parsing import read_value
from quantide.server.http.query_parameters import (
    CurveQuery,
    FastRoute,
    QuantileQuery,
    RankQuery,
    WindowParameters,
    check_count,
    key_field,
)
from quantide.server.http.response_cache import set_versions
from quantide.server.http.response_json import encode_answer, encode_value, json_response
from quantide.server.routes.response_schemas import ERROR_RESPONSES, CurveModel, QuantilesModel, RanksModel
from quantide.server.service import Service
from quantide.summary.key_ranking import KeyRankingAsOf
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named

POINTS = 100
MAX_INLINE = 10  # quantiles that the event loop may answer itself


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"], route_class=FastRoute, responses=ERROR_RESPONSES)

    @router.get(
        "/{stream}/quantiles", response_model=QuantilesModel, summary="Quantiles of a stream, a key or a window"
    )
    async def quantiles(request: Request, stream: str, query: Annotated[QuantileQuery, Query()]) -> Response:
        live = service.streams.live(stream)
        check_count("values of phi", len(query.phi), service.limits.phis)
        scope = query.scope_arguments(live)
        if query.band:
            bands = await service.compute(lambda: live.bands(query.phi, mode=query.mode, **scope))
            set_versions(request, (stream, bands[0].answer.version))
            body = common_fields(stream, query, live, bands[0].answer)
            return json_response(body | {"answers": [encode_band(band, query.window) for band in bands]})
        if len(query.phi) <= MAX_INLINE and live.is_cached(query.phi, query.mode, **scope):
            answers = live.answers(query.phi, mode=query.mode, **scope)  # a thread would take longer than the answer
        else:
            answers = await service.compute(lambda: live.answers(query.phi, mode=query.mode, **scope))
        set_versions(request, (stream, answers[0].version))
        body = common_fields(stream, query, live, answers[0])
        return json_response(body | {"answers": [encode_quantile(answer, query.window) for answer in answers]})

    @router.get("/{stream}/rank", response_model=RanksModel, summary="Number of values that are at most a value")
    async def rank(request: Request, stream: str, query: Annotated[RankQuery, Query()]) -> Response:
        live = service.streams.live(stream)
        check_count("values", len(query.value), service.limits.phis)
        ranks = await service.compute(lambda: compute_ranks(live, query, query.value))
        set_versions(request, (stream, ranks[0].version))
        body = common_fields(stream, query, live, ranks[0])
        return json_response(body | {"ranks": [encode_rank(rank, query.window) for rank in ranks]})

    @router.get(
        "/{stream}/cdf", response_model=CurveModel, summary="Fractions of values that are at most a value: a CDF curve"
    )
    async def cdf(request: Request, stream: str, query: Annotated[CurveQuery, Query()]) -> Response:
        live, points = service.streams.live(stream), query.points or POINTS
        check_count("points", len(query.value or ()) or points, service.limits.points)
        if query.value is not None and query.points is not None:
            raise InvalidArgumentError("value gives the values of the curve, and points their number; leave one out")
        ranks = await service.compute(lambda: compute_curve(live, query, points))
        set_versions(request, (stream, ranks[0].version))
        body = common_fields(stream, query, live, ranks[0])
        return json_response(body | {"points": [encode_curve_point(rank) for rank in ranks]})

    @router.get("/{stream}/summary", summary="A summary, as bytes that Summary.from_bytes() reads")
    async def summary(request: Request, stream: str, query: Annotated[WindowParameters, Query()]) -> Response:
        live = service.streams.live(stream)
        summary = await service.compute(lambda: compute_summary(live, query))
        return Response(summary.to_bytes(), media_type="application/octet-stream")

    return router


def compute_summary(live: LiveStream, query: WindowParameters) -> Summary:
    scope = query.scope_arguments(live)
    summary = live.summary(**scope)
    if not summary.n:
        live.answer(1.0, **scope)  # raises an error that names what is missing: the key, or any value
    return summary


def compute_ranks(live: LiveStream, query: RankQuery | CurveQuery, values: list[str]) -> list[LiveRank]:
    numbers = [read_value(text, type_named(live.settings.value_type)) for text in values]
    return live.ranks(numbers, mode=query.mode, inclusive=query.inclusive, **query.scope_arguments(live))


def compute_curve(live: LiveStream, query: CurveQuery, points: int) -> list[LiveRank]:
    if query.value is not None:
        return compute_ranks(live, query, query.value)
    scope, phis = query.scope_arguments(live), np.linspace(0, 1, points)
    values = dict.fromkeys(answer.value for answer in live.answers(phis, mode=query.mode, **scope))
    return live.ranks(list(values), mode=query.mode, inclusive=query.inclusive, **scope)


def common_fields(
    stream: str, query: WindowParameters, live: LiveStream, answer: LiveAnswer | LiveRank
) -> dict[str, Any]:
    """Return the fields that all answers of one response share."""
    return {
        "stream": stream,
        "key": key_field(query.key),
        "window": query.window,
        "filter": query.filter,
        "mode": answer.mode,
        "version": answer.version,
        "n": answer.n,
        "value_type": live.settings.value_type,
    }


def encode_span(answer: LiveAnswer | LiveRank | KeyRankingAsOf, window: str) -> dict[str, Any]:
    """Return the span of values that an answer covers."""
    times = (
        {"since": encode_value(answer.since), "until": encode_value(answer.until)} if answer.since is not None else {}
    )
    steps = {"last_steps": answer.last_steps} if answer.last_steps is not None else {}
    return {"window": window} | times | steps


def encode_quantile(answer: LiveAnswer, window: str) -> dict[str, Any]:
    return encode_answer(answer) | {"span": encode_span(answer, window)}


def encode_band(band: LiveBand, window: str) -> dict[str, Any]:
    return encode_quantile(band.answer, window) | {"low": encode_value(band.low), "high": encode_value(band.high)}


def encode_rank(rank: LiveRank, window: str) -> dict[str, Any]:
    bounds = {"rank_lo": rank.rank_lo, "rank_hi": rank.rank_hi, "n": rank.n}
    return {"value": encode_value(rank.value)} | bounds | {"span": encode_span(rank, window)}


def encode_curve_point(rank: LiveRank) -> dict[str, Any]:
    """Return a point of a curve with its proved bounds."""
    low, high = rank.rank_lo / rank.n, rank.rank_hi / rank.n
    return {"value": encode_value(rank.value), "fraction": (low + high) / 2, "lo": low, "hi": high}
