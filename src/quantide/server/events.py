"""Server-sent events: what changes of chosen queries, streams and alarms, for as long as a client listens."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError, UnknownQueryError
from quantide.server.columns import QuerySet
from quantide.server.eventstream import EventStream
from quantide.server.listener import Chosen, Told
from quantide.server.service import Service
from quantide.server.standing import unknown

Id = Annotated[int, Field(gt=0, lt=2**63)]
LAST = "The id of the last event that was received: only what changed since is told."


class Choice(BaseModel):
    """What to listen to."""

    model_config = ConfigDict(extra="forbid")

    query: list[Id] = Field([], description="Standing queries, by their ids.")
    label: list[Annotated[str, Field(max_length=100)]] = Field([], description="All queries that have this label now.")
    stream: list[Annotated[str, Field(max_length=100)]] = Field([], description="Streams: whenever one has moved on.")
    alarm: list[Id] = Field([], description="Alarms, by their ids.")
    alarms: Annotated[str, Field(pattern="^all$")] | None = Field(None, description="`all`: all alarms.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/events", tags=["events"])

    @router.get(
        "",
        summary="Changes of queries, streams and alarms, as server-sent events",
        status_code=200,  # the manual would look for it in the class
        response_class=EventStream,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        request: Request,
        choice: Annotated[Choice, Query()],
        last_event_id: Annotated[str | None, Header(description=LAST, max_length=100)] = None,
    ) -> EventStream:
        told = Told.read(last_event_id, service)
        chosen = await choose(service, choice, told is not None)
        return EventStream(service, chosen, told)

    return router


async def choose(service: Service, choice: Choice, again: bool) -> Chosen:
    """What was chosen, if it is there. One who comes again may name what was dropped meanwhile."""
    if not choice.model_fields_set:
        raise InvalidArgumentError("nothing is listened to; choose with query=, label=, stream=, alarm= or alarms=all")
    for name in choice.stream:
        service.streams.check(name)
    for alarm in choice.alarm:
        if not again:
            service.alarms.get(alarm)
    ids = np.unique(np.array(choice.query, dtype=np.int64))
    known = service.standing.columns.find(ids)[1]
    if not known.all() and not again:
        raise unknown(ids[~known])
    queries = QuerySet(ids)
    for label in dict.fromkeys(choice.label):
        found = await service.labels.queries(label)
        if not len(found.ids) and not again:
            raise UnknownQueryError(f"no query has the label {label!r}; register some, then listen")
        queries = QuerySet(np.union1d(queries.ids, found.ids)) if len(queries.ids) else found
    return Chosen(queries, list(dict.fromkeys(choice.stream)), None if choice.alarms else set(choice.alarm))
