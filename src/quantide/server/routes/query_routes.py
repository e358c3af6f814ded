"""Routes of continuous queries and of their monitors."""

import sqlite3
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from quantide.errors import ForbiddenError
from quantide.server.http.response_json import json_response
from quantide.server.http.tokens import Identity, identity_of
from quantide.server.service import Service
from quantide.server.subscriptions.continuous_queries import unknown_query
from quantide.server.subscriptions.register_request import QueryRequest, RegisterRequest, read_ids
from quantide.typing import Ints
from quantide.windows.time_clock import show_span

PAGE_SIZE, MAX_PAGE_SIZE = 1_000, 10_000
MONITORS, MAX_MONITORS = 100, 1_000
TOTALS = ("queries", "listened", "clusters", "looks", "evaluations", "saved")
Id = Annotated[int, Path(description="The id of a query.", gt=0, lt=2**63)]
LABEL_TEXT = "Only queries that have this label."


class QueryListParameters(BaseModel):
    """Filter of the queries to list."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, description="Begin after this id: `next` of the page before.", ge=0, lt=2**63)
    limit: int = Field(PAGE_SIZE, description="Number of queries, at most.", ge=1, le=MAX_PAGE_SIZE)
    label: str | None = Field(None, description=LABEL_TEXT, max_length=100)
    stream: str | None = Field(None, description="Only queries about this stream.", max_length=100)


class LabelParameters(BaseModel):
    """Label of the queries to drop."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(description=LABEL_TEXT, max_length=100)


class MonitorQuery(BaseModel):
    """Filter of the monitors to list."""

    model_config = ConfigDict(extra="forbid")

    stream: str | None = Field(None, description="Only windows of this stream.", max_length=100)
    limit: int = Field(MONITORS, description="Number of windows, at most; totals are about all.", ge=1, le=MAX_MONITORS)


def _describe_body(kind: Any, example: Any) -> dict[str, Any]:
    """Return the OpenAPI description of a body that a thread parses: 100,000 queries would block the event loop."""
    schema = TypeAdapter(kind).json_schema()
    content = {"application/json": {"schema": schema, "example": example}}
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}}


EXAMPLE = {"stream": "latency", "phi": 0.99, "eps": 0.01, "key": "/pay", "window": "within:5m", "label": "my-page"}
QUERY_BODY = _describe_body(QueryRequest, EXAMPLE)
ID_LIST_BODY = _describe_body(list[int], [17, 18])


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["queries"])

    @router.post(
        "/queries", status_code=201, summary="Register a continuous query, or a list: all or none", **QUERY_BODY
    )
    async def register(request: Request) -> Response:
        data, identity = await request.body(), identity_of(request)
        return await service.compute(lambda: json_response(register_queries(service, data, identity), 201))

    @router.get("/queries", summary="Continuous queries, a page at a time")
    async def list_queries(request: Request, parameters: Annotated[QueryListParameters, Query()]) -> Response:
        identity = identity_of(request)
        return await service.compute(lambda: json_response(query_page(service, parameters, identity)))

    @router.get("/queries/{id}", summary="A continuous query and its current answer")
    async def get_query(request: Request, id: Id) -> Response:
        identity = identity_of(request)
        return await service.compute(lambda: json_response(answer_query(service, id, identity)))

    @router.delete("/queries", summary="Drop those of your queries that have a label")
    async def drop_labelled(request: Request, parameters: Annotated[LabelParameters, Query()]) -> Response:
        identity = identity_of(request)

        def drop() -> Response:
            ids = labelled_queries(service, parameters.label, identity)
            return json_response(drop_queries(service, ids, identity))

        return await service.compute(drop)

    @router.delete("/queries/{id}", summary="Drop a continuous query")
    async def drop_one(request: Request, id: Id) -> Response:
        identity, ids = identity_of(request), np.array([id], dtype=np.int64)
        return await service.compute(lambda: json_response(drop_queries(service, ids, identity)))

    @router.post("/queries/drop", summary="Drop a list of queries: all or none", **ID_LIST_BODY)
    async def drop_listed(request: Request) -> Response:
        data, identity = await request.body(), identity_of(request)
        return await service.compute(
            lambda: json_response(drop_queries(service, read_ids(data, service.limits), identity))
        )

    @router.get("/monitors", summary="Windows with continuous queries, and the counters of their monitors")
    async def monitors(request: Request, parameters: Annotated[MonitorQuery, Query()]) -> Response:
        identity = identity_of(request)
        if parameters.stream is not None:
            identity.check_stream(parameters.stream)
            service.streams.check_name(parameters.stream)
        return await service.compute(lambda: json_response(list_monitors(service, parameters, identity)))

    return router


def register_queries(service: Service, data: bytes, identity: Identity) -> dict[str, Any]:
    """Register queries; return the id and the precision in force of each, in the order given."""
    request = RegisterRequest(data, service.streams, service.limits, identity.check_stream)
    ids = service.queries.add(request.windows, request.phis, request.epss, request.labels, identity.id, request.idles)
    return {"queries": [{"id": id, "eps": eps} for id, eps in zip(ids.tolist(), request.epss, strict=True)]}


def query_page(service: Service, parameters: QueryListParameters, identity: Identity) -> dict[str, Any]:
    columns = ("label", parameters.label), ("stream", parameters.stream)
    conditions = [(column, value) for column, value in columns if value is not None]
    allowed, streams = limit_streams(identity)
    where = "".join(f" AND {column} = ?" for column, _ in conditions) + f" AND {allowed}"
    sql = f"SELECT * FROM queries WHERE id > ?{where} ORDER BY id LIMIT ?"
    rows = service.registry.rows(
        sql, (parameters.after, *(value for _, value in conditions), *streams, parameters.limit)
    )
    more = len(rows) == parameters.limit
    return {"queries": [encode_query(row) for row in rows], "next": rows[-1]["id"] if more else None}


def limit_streams(identity: Identity) -> tuple[str, list[str]]:
    """Return a condition of SQL on queries that a client may see, and the values of its question marks."""
    if identity.streams is None:
        return "TRUE", []
    return f"stream IN ({', '.join('?' * len(identity.streams))})", sorted(identity.streams)


def answer_query(service: Service, id: int, identity: Identity) -> dict[str, Any]:
    for row in service.registry.rows("SELECT * FROM queries WHERE id = ?", (id,)):
        identity.check_stream(row["stream"], f"query {id}")
        return encode_query(row) | {"answer": orjson.Fragment(service.queries.answer(id))}
    raise unknown_query(np.array([id]))


def encode_query(row: sqlite3.Row) -> dict[str, Any]:
    created = datetime.fromtimestamp(row["created"], UTC).isoformat(timespec="milliseconds")
    idle = None if row["idle"] is None else show_span(Fraction(row["idle"]))
    return {**row, "key": orjson.Fragment(row["key"]), "created": created, "idle": idle}


def drop_queries(service: Service, ids: Ints, identity: Identity) -> dict[str, int]:
    """Drop queries; raise if one does not exist, or belongs to another owner and the identity is no admin."""
    present = service.queries.table.find(ids)[1]
    if not present.all():
        raise unknown_query(ids[~present])
    if identity.streams is not None:
        condition, streams = limit_streams(identity)
        if not np.isin(ids, _select_ids(service, condition, *streams)).all():
            raise ForbiddenError(f"the token {identity.name!r} is limited to other streams")
    if not identity.has_role("admin"):
        others = ids[~np.isin(ids, _select_ids(service, "owner = ?", identity.id))]
        if len(others):
            raise ForbiddenError(f"the query {others[0]} has another owner; its owner or an admin can drop it")
    if len(ids):
        service.queries.drop(ids)
    return {"dropped": len(ids)}


def labelled_queries(service: Service, label: str, identity: Identity) -> Ints:
    """Return the ids of queries with a label: all for an admin, otherwise the identity's own."""
    condition, streams = limit_streams(identity)
    if identity.has_role("admin"):
        return _select_ids(service, f"label = ? AND {condition}", label, *streams)
    return _select_ids(service, f"label = ? AND owner = ? AND {condition}", label, identity.id, *streams)


def list_monitors(service: Service, parameters: MonitorQuery, identity: Identity) -> dict[str, Any]:
    """Return the windows, those with subscribers first, then those with most queries."""
    windows = [w for w in service.queries.monitors(parameters.stream) if identity.may_use(w["stream"])]
    windows.sort(key=lambda window: (not window["listened"], -window["queries"]))
    totals = {name: sum(window.get(name, 0) for window in windows) for name in TOTALS}
    return {"count": len(windows), "monitors": windows[: parameters.limit], "totals": totals}


def _select_ids(service: Service, where: str, *values: str) -> Ints:
    rows = service.registry.rows(f"SELECT id FROM queries WHERE {where} ORDER BY id", values)
    return np.array([row[0] for row in rows], dtype=np.int64)
