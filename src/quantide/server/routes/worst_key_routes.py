"""Route of the worst keys of a stream."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from quantide.server.http.query_parameters import FastRoute, WorstKeysParameters, check_count
from quantide.server.http.response_cache import set_versions
from quantide.server.http.response_json import json_response
from quantide.server.routes.quantile_routes import encode_span
from quantide.server.routes.response_schemas import ERROR_RESPONSES, WorstKeysModel
from quantide.server.service import Service
from quantide.summary.key_ranking import KeyRankingAsOf


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"], route_class=FastRoute, responses=ERROR_RESPONSES)

    @router.get(
        "/{stream}/worst-keys", response_model=WorstKeysModel, summary="Keys with the largest or smallest quantile"
    )
    async def worst_keys(request: Request, stream: str, query: Annotated[WorstKeysParameters, Query()]) -> Response:
        live = service.streams.live(stream)
        check_count("keys", query.most, service.limits.points)
        arguments = query.arguments(live)
        ranking = await service.compute(lambda: live.worst_keys(**arguments))
        set_versions(request, (stream, ranking.version))
        common = {"stream": stream, "value_type": live.settings.value_type}
        return json_response(common | encode_live_ranking(ranking, query))

    return router


def encode_live_ranking(ranking: KeyRankingAsOf, query: WorstKeysParameters) -> dict[str, Any]:
    """Return a ranking with the window that it is about."""
    window = {"window": query.window, "filter": query.filter, "mode": ranking.mode, "version": ranking.version}
    return window | ranking.to_json() | {"span": encode_span(ranking, query.window)}
