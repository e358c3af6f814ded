"""The response of an event stream: it goes on until the client leaves, does not read any more, or the server stops."""

import asyncio
from typing import Any

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from quantide.server.about import Window
from quantide.server.lines import ABORT, SLOW
from quantide.server.listener import Chosen, Listener, Told
from quantide.server.service import Service

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
KEEP = 15.0  # seconds of silence before a line that says nothing: proxies stay awake, and dead clients are found
PATIENCE = 30.0  # seconds that a client may take to make room for what is sent
FIRST = 1.0  # seconds until the first is told, so that all that is chosen can be looked at
HELLO = b"retry: 1000\n: here is Quantide\n\n"
SILENCE = b":\n\n"


class EventStream(Response):
    """Sends what a listener finds whenever the hub rings."""

    media_type = "text/event-stream"

    def __init__(self, service: Service, chosen: Chosen, told: Told | None) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service, self._queries, self._streams = service, chosen.queries, chosen.streams
        self._listener = Listener(service, chosen, told)
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub, standing = self._service.hub, self._service.standing
        if SLOW in scope.get("extensions", {}):
            scope["extensions"][SLOW]["now"]()
        bell = hub.join()
        leaving = asyncio.create_task(self._notice(receive, bell))
        windows: list[Window] | None = None
        try:
            await hub.pacer.turn()
            if self._gone:
                return
            await _send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send(send, _body(HELLO, more=not hub.closing))
            if hub.closing:
                return
            windows = standing.listen(self._queries, self._streams, bell)
            if any(map(standing.is_stale, windows)):
                await _ring(bell, FIRST)
            await self._talk(send, bell)
        except TimeoutError:
            if ABORT in scope.get("extensions", {}):
                scope["extensions"][ABORT]["now"]()
                await leaving
        finally:
            leaving.cancel()
            if windows is not None:
                standing.leave(self._queries.ids, windows, self._streams, bell)
            hub.leave(bell)

    async def _notice(self, receive: Receive, bell: asyncio.Event) -> None:
        """Wait until the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        bell.set()

    async def _talk(self, send: Send, bell: asyncio.Event) -> None:
        while not self._gone:
            bell.clear()
            if self._service.hub.closing:
                return await _send(send, _body(b"", more=False))
            await self._tell(send)
            if not await _ring(bell, KEEP):
                await _send(send, _body(SILENCE))

    async def _tell(self, send: Send) -> None:
        hub = self._service.hub
        await hub.pacer.turn()
        for event in await self._listener.news():
            if self._gone or hub.closing:
                return
            await _send(send, _body(event))
            await hub.pacer.turn()


async def _ring(bell: asyncio.Event, seconds: float) -> bool:
    """Whether a bell rings within a time."""
    try:
        async with asyncio.timeout(seconds):
            return await bell.wait()
    except TimeoutError:
        return False


async def _send(send: Send, message: Message) -> None:
    async with asyncio.timeout(PATIENCE):
        await send(message)


def _body(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}
