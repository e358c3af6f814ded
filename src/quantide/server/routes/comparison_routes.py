"""Route of comparisons: a stream, a key or a window against another one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.live.value_parsing import read_value
from quantide.server.http.query_parameters import (
    FILTER_TEXT,
    FastRoute,
    Phi,
    Selector,
    WindowParameters,
    check_count,
    key_field,
    query_scope,
)
from quantide.server.http.response_cache import set_versions
from quantide.server.http.response_json import encode_key, json_response
from quantide.server.http.tokens import identity_of
from quantide.server.routes.response_schemas import ERROR_RESPONSES, ComparisonModel
from quantide.server.service import Service
from quantide.summary.comparison import BINS, FLOOR, PHIS, Comparison
from quantide.summary.summary import Summary
from quantide.summary.value_json import encode_comparison
from quantide.summary.value_types import type_named

AGAINST_TEXT = "The reference, `stream[:key][@window]`: `latency:/pay@steps:30`."
BINS_TEXT = "For `psi`: number of quantile bins of the reference (10)."
SPLIT_TEXT = "For `psi`, instead of `bins`: values between bins, ascending."
FLOOR_TEXT = "For `psi`: the least fraction of a bin."


class ComparisonQuery(WindowParameters):
    against: str = Field(description=AGAINST_TEXT, examples=["latency:/pay@steps:30"], max_length=2_000)
    against_filter: str | None = Field(None, description=f"Of the reference. {FILTER_TEXT}", max_length=100)
    phi: list[Phi] = Field(list(PHIS), description="Quantiles for `shifts`.", examples=[[0.5, 0.99]], min_length=1)
    bins: int | None = Field(None, description=BINS_TEXT, ge=2)
    split: list[Annotated[str, Field(max_length=40)]] | None = Field(None, description=SPLIT_TEXT)
    floor: float = Field(FLOOR, description=FLOOR_TEXT, ge=0, lt=1)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"], route_class=FastRoute, responses=ERROR_RESPONSES)

    @router.get(
        "/{stream}/compare",
        response_model=ComparisonModel,
        summary="KS, PSI and Wasserstein distance and shifts of quantiles, each with proved bounds",
    )
    async def compare(request: Request, stream: str, query: Annotated[ComparisonQuery, Query()]) -> Response:
        check_count("values of phi", len(query.phi), service.limits.phis)
        check_count("bins", max(query.bins or 0, len(query.split or ())), service.limits.points)
        reference = Selector.read(query.against)
        identity_of(request).check_stream(reference.stream)
        live, other = service.streams.live(stream), service.streams.live(reference.stream)
        scope = QueryScope.of(query.scope_arguments(live))
        against = query_scope(reference.key, reference.window, query.against_filter)

        def compute() -> tuple[int, int, Comparison, dict[str, Any]]:
            """Compare and encode: results are computed when they are read, and take a while for many phis and bins."""
            version, own = live.pull_values(scope)
            other_version, theirs = other.pull_values(against)
            comparison = Comparison(own, theirs, query.phi, read_bins(query, other), query.floor)
            return version, other_version, comparison, encode_comparison(comparison)

        version, other_version, comparison, results = await service.compute(compute)
        set_versions(request, (stream, version), (reference.stream, other_version))
        own_side = encode_side(stream, key_field(query.key), query.window, query.filter, version, live, comparison.a)
        other_side = encode_side(
            reference.stream,
            encode_key(reference.key),
            reference.window,
            query.against_filter,
            other_version,
            other,
            comparison.b,
        )
        return json_response(own_side | {"against": other_side} | results)

    return router


def read_bins(query: ComparisonQuery, other: LiveStream) -> Any:
    """Return the number of bins, or the values between them."""
    if query.split is None:
        return BINS if query.bins is None else query.bins
    if query.bins is not None:
        raise InvalidArgumentError("split gives the values between bins, and bins their number; leave one out")
    return [read_value(text, type_named(other.settings.value_type)) for text in query.split]


def encode_side(
    stream: str, key: Any, window: str, filter: str | None, version: int, live: LiveStream, summary: Summary
) -> dict[str, Any]:
    return {
        "stream": stream,
        "key": key,
        "window": window,
        "filter": filter,
        "version": version,
        "n": summary.n,
        "error": summary.error,
        "value_type": live.settings.value_type,
    }
