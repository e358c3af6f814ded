"""Event stream: the response that sends events until the client disconnects, stops reading, or the server stops."""

import asyncio
from typing import Any

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from quantide.server.events.subscriber import EventPosition, Subscriber, Subscription
from quantide.server.http.http_protocol import ABORT, SLOW
from quantide.server.service import Service
from quantide.server.subscriptions.window_key import MonitoredWindow

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
HEARTBEAT = 15.0  # seconds of silence before an empty comment, which keeps proxies awake and detects dead clients
SEND_TIMEOUT = 30.0  # seconds that a client may take to read
FIRST_TIMEOUT = 1.0  # seconds until the first events, so that all subscribed windows can be evaluated
GREETING = b"retry: 1000\n: here is Quantide\n\n"
COMMENT = b":\n\n"


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
