"""Routes for operators: liveness, readiness and metrics."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quantide.server.http.response_json import json_response
from quantide.server.http.tokens import identity_of
from quantide.server.service import Service
from quantide.server.stream_health import stream_health

STALE = 10.0  # seconds without a poll after which a stream counts as not ready


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the server runs")
    async def healthz() -> Response:
        return json_response({"status": "ok"})

    @router.get("/readyz", summary="Whether every stream can be queried; 503 and the reasons otherwise")
    async def readyz() -> Response:
        reasons, streams = await service.compute(lambda: (readiness_failures(service), stream_healths(service)))
        body = {"ready": not reasons, "waiting": reasons, "streams": streams}
        return json_response(body, 503 if reasons else 200)

    @router.get("/metrics", summary="Metrics in the format of Prometheus")
    async def metrics(request: Request) -> Response:
        streams = identity_of(request).streams
        text, media_type = await service.compute(lambda: service.metrics.exposition(streams))
        return Response(text, media_type=media_type)

    return router


def readiness_failures(service: Service) -> dict[str, str]:
    """Return the reasons why streams are not ready, by name."""
    reasons = {name: readiness_failure(service, name) for name in service.streams.names}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def readiness_failure(service: Service, name: str) -> str | None:
    """Return the reason why a stream cannot be queried, or why its time windows are unreliable."""
    streams = service.streams
    return streams.failure_reason(name) or poll_failure(service, name) or stream_health(streams, name).blocking


def stream_healths(service: Service) -> dict[str, Any]:
    return {name: stream_health(service.streams, name).to_json(public=True) for name in service.streams.names}


def poll_failure(service: Service, name: str) -> str | None:
    age = service.streams.live(name).stats()["polled"]
    return f"the last poll for commits was {age:.0f} s ago" if age > STALE else None
