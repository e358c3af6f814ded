"""HTTP connections: limits on their number, on the size of a request's head, and on the time it may take."""

import asyncio
import socket
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes
HEAD_TIMEOUT = 15.0  # seconds
ABORT = "quantide.abort"  # scope extension: a function that aborts the connection of a client that does not read
SLOW = "quantide.slow"  # scope extension: a function that bounds the bytes buffered for the connection
WRITE_BUFFER, SEND_BUFFER = 8 * 1024, 32 * 1024  # bytes in this process; half of the bytes in the system
STATUS_LINES = {400: b"400 Bad Request", 431: b"431 Request Header Fields Too Large", 503: b"503 Service Unavailable"}


class HttpProtocol(HttpToolsProtocol):
    """Connection that is closed when it exceeds a limit; uvicorn's own has none on heads and connections."""

    MAX_CONNECTIONS = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes: int | None = 0  # of an incomplete head, without the packet it began in; None after the head
        self._packet_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.MAX_CONNECTIONS:
            self._refuse(503, "limit", "there are too many connections; try again in a few seconds")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._packet_bytes = len(data)
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += self._packet_bytes
            if self._head_bytes > MAX_HEAD and not self.transport.is_closing():
                self._refuse(431, "too_large", f"the head of a request may have {MAX_HEAD:,} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"now": self.transport.abort}, SLOW: {"now": self._bound_buffers}}
        self._head_bytes = -self._packet_bytes
        self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_bytes is not None:  # a chunked body may have trailers, which proxies do not check
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "invalid_argument", "this is not a request that HTTP/1.1 allows")

    def _bound_buffers(self) -> None:
        """Buffer little for a client that reads slowly; the system would take megabytes for each."""
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER)
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT, self.transport.close)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: int, code: str, message: str) -> None:
        body = orjson.dumps({"error": {"code": code, "message": message}})
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINES[status], len(body), body)
        )
        self.transport.close()


def limited_protocol(max_connections: int) -> type[HttpProtocol]:
    """Return a protocol class for a server with at most so many connections."""
    return type("LimitedHttpProtocol", (HttpProtocol,), {"MAX_CONNECTIONS": max_connections})
