"""Routes for whoever looks after the server: is it alive, is it ready, what does it measure."""

from typing import Any

from fastapi import APIRouter, Response

from quantide.server import shown
from quantide.server.service import Service
from quantide.server.stream_health import stream_health

STALE = 10.0  # seconds without a look for commits after which a stream is not followed any more


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the server runs")
    async def healthz() -> Response:
        return shown.json({"status": "ok"})

    @router.get("/readyz", summary="Whether every stream can be asked; 503 and the reasons otherwise")
    async def readyz() -> Response:
        wrong, streams = await service.ask(lambda: (troubles(service), healths(service)))
        return shown.json({"ready": not wrong, "waiting": wrong, "streams": streams}, 503 if wrong else 200)

    @router.get("/metrics", summary="Measurements in the format of Prometheus")
    async def metrics() -> Response:
        text, kind = await service.ask(service.metrics.text)
        return Response(text, media_type=kind)

    return router


def troubles(service: Service) -> dict[str, str]:
    """Streams that cannot be asked, and why."""
    found = {name: trouble(service, name) for name in service.streams.names}
    return {name: why for name, why in found.items() if why is not None}


def trouble(service: Service, name: str) -> str | None:
    """Reason why a stream cannot be asked, or why its windows of time are wrong."""
    streams = service.streams
    return streams.wrong(name) or stale(service, name) or stream_health(streams, name).blocking


def healths(service: Service) -> dict[str, Any]:
    """Health of every stream."""
    return {name: stream_health(service.streams, name).to_json(public=True) for name in service.streams.names}


def stale(service: Service, name: str) -> str | None:
    looked = service.streams.live(name).stats()["polled"]
    return f"commits were last looked for {looked:.0f} s ago" if looked > STALE else None
