"""Request limits: on the number of connections, on the size and time of a request's head, and on JSON bodies."""

import asyncio
import re
import socket
from typing import Any

import orjson
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quantide.errors import LimitError
from quantide.server.http.response_json import Problem

MAX_HEAD = 64 * 1024  # bytes
HEAD_TIMEOUT = 15.0  # seconds
ABORT = "quantide.abort"  # scope extension: a function that aborts the connection of a client that does not read
SLOW = "quantide.slow"  # scope extension: a function that bounds the bytes buffered for the connection
WRITE_BUFFER, SEND_BUFFER = 8 * 1024, 32 * 1024  # bytes in this process; half of the bytes in the system
STATUS_LINES = {400: b"400 Bad Request", 431: b"431 Request Header Fields Too Large", 503: b"503 Service Unavailable"}
SMALL_BODY = 10_000  # bytes; for requests without a token, and for methods that need no body
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
BODY_TIMEOUT = 30.0  # seconds for a whole body
UTF8 = (b"", b"charset=utf-8", b'charset="utf-8"')  # parameters of a content type
JSON_TYPE = "application/json"
PUSH_TYPES = {  # of the rows of a push request. An HTML form can send none of these without a preflight
    JSON_TYPE: "json",
    "application/x-ndjson": "lines",
    "application/jsonl": "lines",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/vnd.apache.parquet": "parquet",
}
PUSH_PATH = re.compile(r"/api/streams/([^/]+)/rows")
FORM_TYPE = "application/x-www-form-urlencoded"
QUERY_PATHS = tuple(f"/api/v1/{name}" for name in ("query", "query_range", "labels", "series"))
"""Paths of the Prometheus API that read, also with POST, whose parameters are then a form. Other sites can send a form,
which changes nothing, and cannot read the response."""


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
        if self.transport.is_closing():  # the client has left; uvloop would raise RuntimeError
            return
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


def has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _describe_body(headers: dict[bytes, bytes], is_plain: bool) -> str:
    """Describe why a body has no rows: its encoding, or its type."""
    if not is_plain:
        return "the body has a Content-Encoding, which is not supported here"
    return f"the Content-Type is {headers.get(b'content-type', b'').decode('latin-1')[:80]!r}"


def check_content_type(method: str, path: str, headers: dict[bytes, bytes]) -> None:
    """Raise unless the body is JSON or has rows; queries of Prometheus, which change nothing, may be forms.

    A page of another site cannot send JSON or rows without a preflight, which is refused. Without a preflight it can
    use no method but GET, HEAD and POST, so other methods may omit the body and its type.
    """
    if method != "POST" and not has_body(headers):
        return
    content_type = read_content_type(headers.get(b"content-type", b""))
    is_plain = headers.get(b"content-encoding", b"identity").lower() == b"identity"
    if method == "POST" and PUSH_PATH.fullmatch(path):
        if content_type not in PUSH_TYPES or not is_plain:
            raise Problem("not_rows", f"{_describe_body(headers, is_plain)}; send rows as {', '.join(PUSH_TYPES)}")
    elif method == "POST" and path in QUERY_PATHS:
        if content_type != FORM_TYPE or not is_plain:
            raise Problem("not_form", f"the parameters are a form; send Content-Type: {FORM_TYPE}")
    elif content_type != JSON_TYPE or not is_plain:
        raise Problem("not_json", "a body is JSON in UTF-8, not compressed; send Content-Type: application/json")


def read_content_type(header: bytes) -> str | None:
    """Return the content type without its charset, which must be UTF-8; None if it is another.

    >>> read_content_type(b"text/csv; charset=UTF-8"), read_content_type(b"text/csv; charset=latin-1")
    ('text/csv', None)
    """
    name, _, parameter = header.replace(b" ", b"").lower().partition(b";")
    return name.decode("latin-1") if parameter in UTF8 else None


class BodyReader:
    """Reads bodies; those being read at one time share a budget of `concurrent` bodies of the largest size."""

    def __init__(self, max_bytes: int, concurrent: int = 8, timeout: float = BODY_TIMEOUT) -> None:
        self._max_bytes, self._budget, self._timeout = max_bytes, max_bytes * concurrent, timeout
        self._buffered = 0

    async def read(self, small: bool, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Return the whole body of a request."""
        limit = min(SMALL_BODY, self._max_bytes) if small else self._max_bytes
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > limit:
            raise _too_large(limit)
        chunks, length = list[bytes](), 0
        try:
            async with asyncio.timeout(self._timeout):
                more = True
                while more:
                    chunk, more = _chunk(await receive())
                    length, self._buffered = length + len(chunk), self._buffered + len(chunk)
                    if length > limit:
                        raise _too_large(limit)
                    if self._buffered > self._budget:
                        raise LimitError("too many large bodies are being sent; send them one after the other")
                    chunks.append(chunk)
        except TimeoutError:
            raise Problem("timeout", f"the body was not complete after {self._timeout:g} seconds") from None
        finally:
            self._buffered -= length
        return b"".join(chunks)


async def drain(receive: Receive, max_bytes: int, timeout: float = 2.0) -> None:
    """Read on a little after a refusal: a client that is cut off while it sends would not see the reason."""
    try:
        async with asyncio.timeout(timeout):
            more = True
            while more and max_bytes > 0:
                chunk, more = _chunk(await receive())
                max_bytes -= len(chunk)
    except (TimeoutError, ClientDisconnected):
        return


class ClientDisconnected(Exception):
    """The client disconnected in the middle of its request."""


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers a body that was read already."""
    unread = [body]

    async def receive_again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receive_again


def _chunk(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)


def _too_large(limit: int) -> Exception:
    return Problem("too_large", f"the body is longer than {limit:,} bytes; send it in parts")
