"""Routes of standing queries: register, list, ask, drop."""

import sqlite3
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from quantide.errors import ForbiddenError
from quantide.server import shown
from quantide.server.columns import Ints
from quantide.server.service import Service
from quantide.server.standing import unknown
from quantide.server.tokens import Who
from quantide.server.wanted import Wanted, WantedQuery, read_ids
from quantide.windows.clock import show_span

PAGE, LONGEST_PAGE = 1_000, 10_000
Id = Annotated[int, Path(description="The id of a query.", gt=0, lt=2**63)]
LABEL = "Only queries that have this label."


class Listed(BaseModel):
    """Which queries to list."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, description="Begin after this id: `next` of the page before.", ge=0, lt=2**63)
    limit: int = Field(PAGE, description="How many at most.", ge=1, le=LONGEST_PAGE)
    label: str | None = Field(None, description=LABEL, max_length=100)
    stream: str | None = Field(None, description="Only queries about this stream.", max_length=100)


class Labelled(BaseModel):
    """Which queries to drop."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(description=LABEL, max_length=100)


def _body(kind: Any, example: Any) -> dict[str, Any]:
    """How a body is described that is read in a thread, where a hundred thousand queries hold up nobody."""
    schema = TypeAdapter(kind).json_schema()
    content = {"application/json": {"schema": schema, "example": example}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


ONE = {"stream": "latency", "phi": 0.99, "eps": 0.01, "key": "/pay", "window": "within:5m", "label": "my-page"}
WANTED = _body(WantedQuery, ONE)
IDS = _body(list[int], [17, 18])


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/queries", tags=["queries"])

    @router.post("", status_code=201, summary="Register a standing query, or a list: all of it, or none", **WANTED)
    async def register(request: Request) -> Response:
        data, owner = await request.body(), who(request).id
        return await service.ask(lambda: shown.json(add(service, data, owner), 201))

    @router.get("", summary="Standing queries, a page at a time")
    async def listed(asked: Annotated[Listed, Query()]) -> Response:
        return await service.ask(lambda: shown.json(page(service, asked)))

    @router.get("/{id}", summary="A standing query and its answer now")
    async def one(id: Id) -> Response:
        return await service.ask(lambda: shown.json(answered(service, id)))

    @router.delete("", summary="Drop those of your queries that have a label")
    async def drop_labelled(request: Request, asked: Annotated[Labelled, Query()]) -> Response:
        asks = who(request)
        return await service.ask(lambda: shown.json(drop(service, labelled(service, asked.label, asks), asks)))

    @router.delete("/{id}", summary="Drop a standing query")
    async def drop_one(request: Request, id: Id) -> Response:
        asks = who(request)
        return await service.ask(lambda: shown.json(drop(service, np.array([id], dtype=np.int64), asks)))

    @router.post("/drop", summary="Drop a list of queries: all of them, or none", **IDS)
    async def drop_listed(request: Request) -> Response:
        data, asks = await request.body(), who(request)
        return await service.ask(lambda: shown.json(drop(service, read_ids(data, service.limits), asks)))

    return router


def add(service: Service, data: bytes, owner: str) -> dict[str, Any]:
    """Register queries; the id of each and the precision in force, in the order given."""
    wanted = Wanted(data, service.streams, service.limits)
    ids = service.standing.add(wanted.names, wanted.phis, wanted.epss, wanted.labels, owner, wanted.idles)
    return {"queries": [{"id": id, "eps": eps} for id, eps in zip(ids.tolist(), wanted.epss, strict=True)]}


def page(service: Service, asked: Listed) -> dict[str, Any]:
    chosen = [
        (column, value) for column, value in (("label", asked.label), ("stream", asked.stream)) if value is not None
    ]
    where = "".join(f" AND {column} = ?" for column, _ in chosen)
    sql = f"SELECT * FROM queries WHERE id > ?{where} ORDER BY id LIMIT ?"
    rows = service.registry.rows(sql, (asked.after, *(value for _, value in chosen), asked.limit))
    more = len(rows) == asked.limit
    return {"queries": [shown_query(row) for row in rows], "next": rows[-1]["id"] if more else None}


def answered(service: Service, id: int) -> dict[str, Any]:
    """A query, and under "answer" what would be told of it now."""
    for row in service.registry.rows("SELECT * FROM queries WHERE id = ?", (id,)):
        return shown_query(row) | {"answer": orjson.Fragment(service.standing.answer(id))}
    raise unknown(np.array([id]))


def shown_query(row: sqlite3.Row) -> dict[str, Any]:
    created = datetime.fromtimestamp(row["created"], UTC).isoformat(timespec="milliseconds")
    idle = None if row["idle"] is None else show_span(Fraction(row["idle"]))
    return {**row, "key": orjson.Fragment(row["key"]), "created": created, "idle": idle}


def drop(service: Service, ids: Ints, asks: Who) -> dict[str, int]:
    """Drop queries, if all are there and may be dropped by whoever asks."""
    known = service.standing.columns.find(ids)[1]
    if not known.all():
        raise unknown(ids[~known])
    if not asks.may("admin"):
        others = ids[~np.isin(ids, _ids(service, "owner = ?", asks.id))]
        if len(others):
            raise ForbiddenError(f"the query {others[0]} is not yours; its owner or an admin can drop it")
    if len(ids):
        service.standing.drop(ids)
    return {"dropped": len(ids)}


def labelled(service: Service, label: str, asks: Who) -> Ints:
    """Queries with a label: all of them for an admin, else one's own."""
    if asks.may("admin"):
        return _ids(service, "label = ?", label)
    return _ids(service, "label = ? AND owner = ?", label, asks.id)


def who(request: Request) -> Who:
    found: Who = request.state.who
    return found


def _ids(service: Service, where: str, *values: str) -> Ints:
    rows = service.registry.rows(f"SELECT id FROM queries WHERE {where} ORDER BY id", values)
    return np.array([row[0] for row in rows], dtype=np.int64)
