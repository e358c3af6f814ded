"""Routes about the streams themselves: counts, keys, spans, runs, lag and memory."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.live.live_stream import LiveStream
from quantide.server.http.response_json import encode_key, encode_value, json_response
from quantide.server.http.tokens import identity_of
from quantide.server.service import Service
from quantide.server.stream_health import stream_health

KEYS, MAX_KEYS = 100, 1_000


class KeyQuery(BaseModel):
    """Filter of the keys to list."""

    model_config = ConfigDict(extra="forbid")

    contains: str = Field("", description="A text that the key contains, ignoring case.", max_length=100)
    limit: int = Field(KEYS, description="Number of keys, at most.", ge=1, le=MAX_KEYS)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"])

    @router.get("", summary="All streams")
    async def streams(request: Request) -> Response:
        names = [name for name in service.streams.names if identity_of(request).may_use(name)]
        overviews = await service.compute(lambda: [stream_overview(service, name) for name in names])
        return json_response({"streams": overviews})

    @router.get("/{stream}", summary="One stream: counts, keys, spans, runs, lag, memory")
    async def one(stream: str) -> Response:
        live = service.streams.live(stream)
        return json_response(await service.compute(lambda: stream_overview(service, stream) | stream_details(live)))

    @router.get("/{stream}/keys", summary="The keys of a stream, or those that contain a text")
    async def keys(stream: str, query: Annotated[KeyQuery, Query()]) -> Response:
        live = service.streams.live(stream)
        count, keys = await service.compute(lambda: live.find_keys(query.contains, query.limit))
        return json_response({"count": count, "keys": [encode_key(key) for key in keys]})

    return router


def stream_overview(service: Service, name: str) -> dict[str, Any]:
    """Return the entry of a stream in the list of streams."""
    reason = service.streams.failure_reason(name)
    if reason is not None:
        return {"name": name, "ready": False, "why": reason}
    live, health = service.streams.live(name), stream_health(service.streams, name)
    settings, stats = live.settings, live.stats()
    return {
        "name": name,
        "ready": True,
        "n": stats["values"],
        "version": stats["version"],
        "newest": encode_value(stats["newest"]),
        "lag": stream_lag(stats),
        "ingest": health.to_json()["ingest"],
        "problems": list(health.problems),
        "eps": settings.eps,
        "tail": settings.tail,
        "value_type": settings.value_type,
        "unit": service.streams.unit(name),
        "key_columns": list(settings.keys),
        "filters": list(settings.filters),
        "window": stats["window"],
    }


def stream_details(live: LiveStream) -> dict[str, Any]:
    """Return the fields of a single stream beside those of the list."""
    stats, (count, keys) = live.stats(), live.find_keys("", KEYS)
    counts = ("history_values", "stream_values", "recent_values", "nulls", "nans", "steps", "runs", "chunks", "files")
    return {
        "key_count": count,
        "keys": [encode_key(key) for key in keys],
        "counts": {name: stats[name] for name in counts},
        "spans": [  # with the open step, as answers about them
            {"last_steps": span.last_steps, "n": span.values + stats["stream_values"]} for span in live.spans()
        ],
        "kappa": live.settings.kappa,
        "levels": [
            {
                "level": run.id.level,
                "first_step": run.id.first,
                "last_step": run.id.last,
                "n": run.rows,
                "bytes": run.size,
            }
            for run in live.runs()
        ],
        "bytes": {"history": stats["bytes"], "recent": stats["recent_bytes"]},
        "memory": {"used": stats["memory"], "limit": stats["memory_limit"]},
        "monitors": stats["monitors"],
    }


def stream_lag(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds since the last poll and, where times are timestamps, since the newest time."""
    return {"looked": stats["polled"]} | ({} if stats["lag"] is None else {"newest": stats["lag"]})
