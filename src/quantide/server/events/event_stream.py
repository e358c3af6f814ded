"""Event stream: a client's subscription and position, and the response that sends the events after that position."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import orjson
from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from quantide.errors import InvalidArgumentError
from quantide.server.http.request_limits import ABORT, SLOW
from quantide.server.service import Service
from quantide.server.subscriptions import change_encoding
from quantide.server.subscriptions.query_table import MonitoredWindow, QuerySet
from quantide.typing import Bools, Ints

BATCH = 50  # queries in one event, about 8 KB: few of these are buffered for a client that does not read
EVENT = b"event: %b\ndata: %b\n\n"
CHANGES = b'{"changes":[%b]}'
LAST_EVENT = b"event: %b\nid: %b\ndata: %b\n\n"
Event = tuple[bytes, bytes]
"""Type and data."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
HEARTBEAT = 15.0  # seconds of silence before an empty comment, which keeps proxies awake and detects dead clients
SEND_TIMEOUT = 30.0  # seconds that a client may take to read
FIRST_TIMEOUT = 1.0  # seconds until the first events, so that all subscribed windows can be evaluated
GREETING = b"retry: 1000\n: here is Quantide\n\n"
COMMENT = b":\n\n"


@dataclass(frozen=True, eq=False)
class Subscription:
    """Queries, streams and alarms that a client subscribes to; `alarms` None: all of them.

    `allowed` are the streams that the client is limited to (None: all); alarms of others are not sent.
    """

    queries: QuerySet
    streams: list[str]
    alarms: set[int] | None
    allowed: frozenset[str] | None = None


@dataclass(frozen=True)
class EventPosition:
    """Position up to which a client has received events; its text is the id of an event.

    `change` counts within one start of the server, `start_number`.
    """

    start_number: int
    change: int
    transition: int

    @classmethod
    def read(cls, text: str | None, service: Service) -> Self | None:
        """Parse the id of an event; None if there is none, or if it is of another registry's server."""
        if not text:
            return None
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            raise InvalidArgumentError(f"Last-Event-ID is {text[:80]!r}; send the id of an event, or leave it out")
        start, change, transition = map(int, parts)
        if (
            start > service.start_number
            or transition > service.alarms.last_transition
            or (start == service.start_number and change > service.queries.last_change)
        ):
            return None
        return cls(service.start_number, change if start == service.start_number else 0, transition)

    def __bytes__(self) -> bytes:
        return b"%d.%d.%d" % (self.start_number, self.change, self.transition)


class Subscriber:
    """Determines the events a client has not received. It queues none: a slow client receives the newest state.

    `position` None: the client has received nothing, and gets the current state of all it subscribes to.
    """

    def __init__(self, service: Service, subscription: Subscription, position: EventPosition | None) -> None:
        self._service, self._subscription, self._position = service, subscription, position
        self._present: Bools | None = None  # the subscribed queries that existed at the last call

    async def pending_events(self) -> Iterator[bytes]:
        """Return the pending events, encoded lazily. Only the last one has an id: a client that disconnects before
        it receives all of them again."""
        before, upto, last = self._position, self._service.queries.last_change, self._service.alarms.last_transition
        alarms = await self._alarm_events(last)
        self._position = EventPosition(
            self._service.start_number, upto, max([last, *(event.get("number", 0) for event in alarms)])
        )
        since = before.change if before is not None else 0
        events = chain(
            self._query_events(since, upto),
            self._unopened_streams() if before is None else (),
            self._stream_events(since, upto),
            ((b"alarm", orjson.dumps(event)) for event in alarms),
        )
        return _encode(events, self._position)

    async def _alarm_events(self, last: int) -> list[dict[str, Any]]:
        """Return the states of alarms for a new client, otherwise every transition since its position."""
        alarms, ids = self._service.alarms, self._subscription.alarms
        if ids == set() or (self._position is not None and self._position.transition >= last):
            return []
        if self._position is None:
            events = await asyncio.to_thread(alarms.states, ids)
        else:
            events = await asyncio.to_thread(alarms.transitions, self._position.transition, ids)
        allowed = self._subscription.allowed
        return events if allowed is None else [event for event in events if event["stream"] in allowed]

    def _query_events(self, since: int, upto: int) -> Iterator[Event]:
        """Yield changes of the subscribed queries, searched batch by batch as the client reads, so that little is
        buffered for one that does not."""
        table, texts = self._service.queries.table, list[bytes]()
        rows, present = self._subscription.queries.rows(table)
        dropped = self._dropped(present)
        self._present = present
        for start in range(0, len(dropped), BATCH):
            yield b"queries", CHANGES % b",".join(change_encoding.encode_dropped(dropped[start : start + BATCH]))
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            changes = table.change[batch]
            texts += table.text[batch[(changes > since) & (changes <= upto)]].tolist()
            if len(texts) >= BATCH:
                yield b"queries", CHANGES % b",".join(texts)
                texts = []
        if texts:
            yield b"queries", CHANGES % b",".join(texts)

    def _dropped(self, present: Bools) -> Ints:
        """Return the ids of queries that were dropped since the last call."""
        if present is self._present:
            return self._subscription.queries.ids[:0]
        dropped = ~present if self._present is None else self._present & ~present
        return self._subscription.queries.ids[dropped]

    def _stream_events(self, since: int, upto: int) -> Iterator[Event]:
        for name in self._subscription.streams:
            change, text = self._service.queries.stream_events.get(name, (0, b""))
            if since < change <= upto:
                yield b"stream", text

    def _unopened_streams(self) -> Iterator[Event]:
        reasons = self._service.streams.open_errors
        for name in self._subscription.streams:
            if name in reasons:
                yield b"stream", change_encoding.encode_stream_event(name, ready=False, why=reasons[name])


def _encode(events: Iterator[Event], position: EventPosition) -> Iterator[bytes]:
    previous: Event | None = None
    for event in events:
        if previous is not None:
            yield EVENT % previous
        previous = event
    if previous is not None:
        yield LAST_EVENT % (previous[0], bytes(position), previous[1])


class EventStream(Response):
    """Sends the pending events of a subscriber whenever the hub wakes it."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, subscription: Subscription, position: EventPosition | None) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service, self._queries, self._streams = service, subscription.queries, subscription.streams
        self._subscriber = Subscriber(service, subscription, position)
        self._disconnected = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub, queries = self._service.hub, self._service.queries
        if SLOW in scope.get("extensions", {}):
            scope["extensions"][SLOW]["now"]()
        wakeup = hub.connect()
        disconnect = asyncio.create_task(self._wait_for_disconnect(receive, wakeup))
        windows: list[MonitoredWindow] | None = None
        try:
            await hub.pacer.wait_turn()
            if self._disconnected:
                return
            await _send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send(send, _body(GREETING, more=not hub.closing))
            if hub.closing:
                return
            windows = queries.subscribe(self._queries, self._streams, wakeup)
            if any(map(queries.is_stale, windows)):
                await _wait(wakeup, FIRST_TIMEOUT)
            await self._send_events(send, wakeup)
        except TimeoutError:
            if ABORT in scope.get("extensions", {}):
                scope["extensions"][ABORT]["now"]()
                await disconnect
        finally:
            disconnect.cancel()
            if windows is not None:
                queries.unsubscribe(self._queries.ids, windows, self._streams, wakeup)
            hub.disconnect(wakeup)

    async def _wait_for_disconnect(self, receive: Receive, wakeup: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        wakeup.set()

    async def _send_events(self, send: Send, wakeup: asyncio.Event) -> None:
        while not self._disconnected:
            wakeup.clear()
            if self._service.hub.closing:
                return await _send(send, _body(b"", more=False))
            await self._send_pending(send)
            if not await _wait(wakeup, HEARTBEAT):
                await _send(send, _body(COMMENT))

    async def _send_pending(self, send: Send) -> None:
        hub = self._service.hub
        await hub.pacer.wait_turn()
        for event in await self._subscriber.pending_events():
            if self._disconnected or hub.closing:
                return
            await _send(send, _body(event))
            await hub.pacer.wait_turn()


async def _wait(wakeup: asyncio.Event, seconds: float) -> bool:
    """Return True if the wakeup is set within a time."""
    try:
        async with asyncio.timeout(seconds):
            return await wakeup.wait()
    except TimeoutError:
        return False


async def _send(send: Send, message: Message) -> None:
    async with asyncio.timeout(SEND_TIMEOUT):
        await send(message)


def _body(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}
