"""Connections: how many there may be, how long the head of a request may be, and how long it may take to come."""

import asyncio
import socket
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
PATIENCE = 15.0  # seconds
ABORT = "quantide.abort"  # an extension of the scope: a function that ends a connection whose client does not read
SLOW = "quantide.slow"  # another: a function that bounds the bytes that wait to be sent on a connection
WAITING, SENDING = 8 * 1024, 32 * 1024  # bytes that wait in this process, and half of those in the system
STATUS = {400: b"400 Bad Request", 431: b"431 Request Header Fields Too Large", 503: b"503 Service Unavailable"}


class Line(HttpToolsProtocol):
    """A connection that ends when it asks for too much: uvicorn's own would wait and collect without end."""

    MOST = 0  # connections at one time

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self._head: int | None = 0  # bytes of a head that is not whole yet, without those it began among
        self._now = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.MOST:
            self._end(503, "limit", "there are too many connections; try again in a few seconds")
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._now = len(data)
        super().data_received(data)
        if self._head is not None:
            self._head += self._now
            if self._head > LONGEST_HEAD and not self.transport.is_closing():
                self._end(431, "too_large", f"the head of a request may have {LONGEST_HEAD:,} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"now": self.transport.abort}, SLOW: {"now": self._bound_buffers}}
        self._head = -self._now
        self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:  # behind a body in chunks there can be more of them, which proxies do not look at
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head = None
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._end(400, "invalid_argument", "this is not a request that HTTP/1.1 allows")

    def _bound_buffers(self) -> None:
        """Keep little for a client that reads slowly; the system would take megabytes for each."""
        self.transport.set_write_buffer_limits(high=WAITING)
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING)

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(PATIENCE, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, status: int, code: str, message: str) -> None:
        body = orjson.dumps({"error": {"code": code, "message": message}})
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n%b"
            % (STATUS[status], len(body), body)
        )
        self.transport.close()


def lines_of(most: int) -> type[Line]:
    """Connections of a server that has at most so many at a time."""
    return type("Line", (Line,), {"MOST": most})
