"""Routes that tell what streams there are: counts, keys, spans, runs, how far behind a reader is."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.live.stream import LiveStream
from quantide.server import shown
from quantide.server.service import Service
from quantide.server.stream_health import stream_health

KEYS = 100  # that are told when nothing is said
MOST_KEYS = 1_000


class AskedKeys(BaseModel):
    """Which keys."""

    model_config = ConfigDict(extra="forbid")

    contains: str = Field("", description="A text that is in the key, whatever its case.", max_length=100)
    limit: int = Field(KEYS, description="How many are told.", ge=1, le=MOST_KEYS)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["streams"])

    @router.get("", summary="All streams")
    async def streams() -> Response:
        names = service.streams.names
        return shown.json({"streams": await service.ask(lambda: [brief(service, name) for name in names])})

    @router.get("/{stream}", summary="One stream: counts, keys, spans, runs, lag, memory")
    async def one(stream: str) -> Response:
        live = service.streams.live(stream)
        return shown.json(await service.ask(lambda: brief(service, stream) | details(live)))

    @router.get("/{stream}/keys", summary="The keys of a stream, or those that contain a text")
    async def keys(stream: str, asked: Annotated[AskedKeys, Query()]) -> Response:
        live = service.streams.live(stream)
        count, found = await service.ask(lambda: live.find_keys(asked.contains, asked.limit))
        return shown.json({"count": count, "keys": [shown.key(one) for one in found]})

    return router


def brief(service: Service, name: str) -> dict[str, Any]:
    """A stream in a list of streams."""
    why = service.streams.wrong(name)
    if why is not None:
        return {"name": name, "ready": False, "why": why}
    live, health = service.streams.live(name), stream_health(service.streams, name)
    settings, stats = live.settings, live.stats()
    return {
        "name": name,
        "ready": True,
        "n": stats["values"],
        "version": stats["version"],
        "newest": shown.value(stats["newest"]),
        "lag": lag(stats),
        "ingest": health.to_json()["ingest"],
        "problems": list(health.problems),
        "eps": settings.eps,
        "value_type": settings.value_type,
        "key_columns": list(settings.keys),
        "filters": list(settings.filters),
        "window": stats["window"],
    }


def details(live: LiveStream) -> dict[str, Any]:
    """What only a question about one stream is told."""
    stats, (count, keys) = live.stats(), live.find_keys("", KEYS)
    counted = ("history_values", "stream_values", "recent_values", "nulls", "nans", "steps", "runs", "chunks", "files")
    return {
        "key_count": count,
        "keys": [shown.key(key) for key in keys],
        "counts": {name: stats[name] for name in counted},
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


def lag(stats: dict[str, Any]) -> dict[str, Any]:
    """Seconds since commits were looked for; and, where times are timestamps, since the newest of them."""
    return {"looked": stats["polled"]} | ({} if stats["lag"] is None else {"newest": stats["lag"]})
