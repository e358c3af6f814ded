"""Route of event streams: server-sent events about changes of queries, streams and alarms."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import ForbiddenError, InvalidArgumentError, UnknownQueryError
from quantide.server.events.event_stream import EventPosition, EventStream, Subscription
from quantide.server.http.tokens import Identity, identity_of
from quantide.server.service import Service
from quantide.server.subscriptions.continuous_queries import unknown_query
from quantide.server.subscriptions.query_table import QuerySet
from quantide.typing import Bools, Ints

Id = Annotated[int, Field(gt=0, lt=2**63)]
LAST_EVENT_ID_TEXT = "The id of the last event that was received: only later changes are sent."


class EventParameters(BaseModel):
    """Queries, streams and alarms to subscribe to."""

    model_config = ConfigDict(extra="forbid")

    query: list[Id] = Field([], description="Continuous queries, by their ids.")
    label: list[Annotated[str, Field(max_length=100)]] = Field([], description="All queries that have this label now.")
    stream: list[Annotated[str, Field(max_length=100)]] = Field([], description="Streams: an event after each commit.")
    alarm: list[Id] = Field([], description="Alarms, by their ids.")
    alarms: Annotated[str, Field(pattern="^all$")] | None = Field(None, description="`all`: all alarms.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/events", tags=["events"])

    @router.get(
        "",
        summary="Changes of queries, streams and alarms, as server-sent events",
        status_code=200,  # FastAPI would look for it in the response class
        response_class=EventStream,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        request: Request,
        parameters: Annotated[EventParameters, Query()],
        last_event_id: Annotated[str | None, Header(description=LAST_EVENT_ID_TEXT, max_length=100)] = None,
    ) -> EventStream:
        position = EventPosition.read(last_event_id, service)
        subscription = await make_subscription(service, parameters, position is not None, identity_of(request))
        return EventStream(service, subscription, position)

    return router


async def make_subscription(
    service: Service, parameters: EventParameters, reconnects: bool, identity: Identity
) -> Subscription:
    """Return the subscription; raise if it names something unknown, or of a stream that the client may not use. A
    client that reconnects may name queries and alarms that were dropped since."""
    if not parameters.model_fields_set:
        raise InvalidArgumentError(
            "the request subscribes to nothing; choose with query=, label=, stream=, alarm= or alarms=all"
        )
    for name in parameters.stream:
        identity.check_stream(name)
        service.streams.check_name(name)
    for alarm in parameters.alarm:
        if not reconnects:
            identity.check_stream(service.alarms.get(alarm).setting.stream, f"alarm {alarm}")
    ids = np.unique(np.array(parameters.query, dtype=np.int64))
    present = service.queries.table.find(ids)[1]
    queries = await allowed_queries(service, QuerySet(ids), identity)
    if not reconnects:
        if identity.streams is not None:  # ids of other streams and unknown ids are refused alike
            _check_all_allowed(ids, present, queries, identity)
        elif not present.all():
            raise unknown_query(ids[~present])
    for label in dict.fromkeys(parameters.label):
        labelled = await allowed_queries(service, await service.labels.queries(label), identity)
        if not len(labelled.ids) and not reconnects:
            raise UnknownQueryError(f"no query has the label {label!r}; register some, then subscribe")
        queries = QuerySet(np.union1d(queries.ids, labelled.ids)) if len(queries.ids) else labelled
    alarms = None if parameters.alarms else set(parameters.alarm)
    return Subscription(queries, list(dict.fromkeys(parameters.stream)), alarms, identity.streams)


def _check_all_allowed(ids: Ints, present: Bools, allowed: QuerySet, identity: Identity) -> None:
    refused = ids[~(present & np.isin(ids, allowed.ids))]
    if len(refused):
        raise ForbiddenError(
            f"query {refused[0]} does not exist, or is of a stream that the token {identity.name!r} may not use; "
            "subscribe to queries that GET /api/queries lists"
        )


async def allowed_queries(service: Service, queries: QuerySet, identity: Identity) -> QuerySet:
    """Return the queries without those of streams that the client may not use. Dropped ones stay, and are reported."""
    streams = identity.streams
    if streams is None or not len(queries.ids):
        return queries
    others = await service.compute(lambda: service.queries.of_other_streams(queries.ids, streams))
    return QuerySet(queries.ids[~others]) if others.any() else queries
