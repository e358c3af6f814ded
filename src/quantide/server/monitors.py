"""The route of monitors: windows that standing queries are about, and what keeping these right has cost."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.server import shown
from quantide.server.service import Service

LIMIT, MOST = 100, 1_000
SUMMED = ("clusters", "looks", "evaluations", "saved")


class AskedMonitors(BaseModel):
    """Which windows."""

    model_config = ConfigDict(extra="forbid")

    stream: str | None = Field(None, description="Only windows of this stream.", max_length=100)
    limit: int = Field(LIMIT, description="How many are told; totals are about all.", ge=1, le=MOST)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/monitors", tags=["queries"])

    @router.get("", summary="Windows with standing queries, and how their queries are kept right")
    async def monitors(asked: Annotated[AskedMonitors, Query()]) -> Response:
        if asked.stream is not None:
            service.streams.check(asked.stream)
        return await service.ask(lambda: shown.json(told(service, asked)))

    return router


def told(service: Service, asked: AskedMonitors) -> dict[str, Any]:
    """Those that somebody listens to first, then those with most queries."""
    found = service.standing.monitors(asked.stream)
    found.sort(key=lambda one: (not one["listened"], -one["queries"]))
    totals = {name: sum(one.get(name, 0) for one in found) for name in ("queries", "listened", *SUMMED)}
    return {"count": len(found), "monitors": found[: asked.limit], "totals": totals}
