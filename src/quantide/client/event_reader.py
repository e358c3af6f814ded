"""Event stream of a server: an iterator that reconnects, and the parser of server-sent events.

The parser is our own because httpx-sse 0.4 does not bound a line or an event, so a hostile server could fill the
memory. It also hides comments, which are the server's heartbeat, and does not skip a byte order mark.
"""

import json
import random
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import httpx

from quantide.client.connection import Connection, check_seconds, parsing_response
from quantide.errors import LimitError, NotReadyError, QuantideError, ServerError, StorageError
from quantide.summary.copying import NotCopied

READ_TIMEOUT = 40.0  # seconds without a byte after which a server counts as dead; its heartbeat is 15 s
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
TEMPORARY_ERRORS = (ServerError, LimitError, NotReadyError, StorageError)  # reconnecting may help
HEADER_SAFE_ID = re.compile(r"[!-~]{1,200}")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_END = re.compile(rb"\r\n|\r|\n")
MAX_MESSAGE_BYTES = 64 * 10**6


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its kind, its id (to continue after it), and its data."""

    kind: str
    id: str
    data: Any


class Events(NotCopied, Iterator[Event]):
    """Endless iterator of events; `close()`, leaving a `with`, or dropping it ends the connection.

    The first connection is made at once and its failure is raised. When a later connection breaks or the server
    restarts, it reconnects and continues after the last event, with a pause that grows with each failure. If `patience`
    is given and the server is away for longer, ServerError is raised. Permanent errors, such as a revoked token, are
    raised at once.

    Only one thread at a time may read events; any thread may close.
    """

    REOPEN = "it is an open connection; call events() of a Client where it is needed, from the id of the last event on"

    def __init__(
        self,
        connection: Connection,
        parameters: Mapping[str, Any],
        parse: Callable[[str, Any], Any],
        patience: float | None = None,
        after: str = "",
    ) -> None:
        self._response: httpx.Response | None = None
        self._connection, self._parameters, self._parse = connection, parameters, parse
        self._patience = None if patience is None else check_seconds("patience", patience)
        self._parser, self._failures, self._server_pause = EventParser(after), 0, 0.0
        self._messages: deque[Message] = deque()
        self._last_received, self._closed, self._reading = time.monotonic(), threading.Event(), False
        self._connect()

    def close(self) -> None:
        """End the connection and the iteration."""
        self._closed.set()
        response = self._response
        if response is not None:
            with suppress(OSError, KeyError):  # wakes a thread that waits for the next event
                response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            if not self._reading:
                self._disconnect()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while not self._closed.is_set():
            if self._messages:
                return self._parse_message(self._messages.popleft())
            self._receive()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._disconnect()

    # Inside

    def _parse_message(self, message: "Message") -> Event:
        try:
            with parsing_response(self._connection.address):
                return Event(message.kind, message.id, self._parse(message.kind, json.loads(message.data)))
        except QuantideError:
            self.close()
            raise

    def _receive(self) -> None:
        """Read the next bytes; reconnect if the connection is broken."""
        self._reading = True
        try:
            with self._connection.translate_errors():
                chunk = next(self._chunks, None)
            if chunk is None:
                raise ServerError(f"{self._connection.address} ended the connection") from httpx.ReadError("ended")
            self._last_received, self._failures = time.monotonic(), 0
            self._messages.extend(self._parser.feed(chunk))
            self._server_pause = self._parser.retry or self._server_pause
        except ServerError as error:
            self._disconnect()
            if self._closed.is_set():
                return
            if not isinstance(error.__cause__, httpx.HTTPError):
                self._closed.set()
                raise
            self._reconnect(error)
        finally:
            self._reading = False

    def _reconnect(self, reason: QuantideError) -> None:
        while not self._closed.wait(self._choose_pause(reason)):
            try:
                return self._connect()
            except TEMPORARY_ERRORS as error:
                reason = error
            except BaseException:
                self._closed.set()
                raise

    def _choose_pause(self, reason: QuantideError) -> float:
        """Return the seconds to wait before the next attempt; raise if patience has run out."""
        longest: float = min(LONGEST_PAUSE, max(self._server_pause, FIRST_PAUSE) * 2.0 ** min(self._failures, 20))
        self._failures += 1
        pause = random.uniform(0.5, 1.0) * longest  # so that clients do not all reconnect at the same moment
        if self._patience is None:
            return pause
        remaining = self._last_received + self._patience - time.monotonic()
        if remaining <= 0:
            self._closed.set()
            away = f"{self._connection.address} has been away for more than {self._patience:g} s"
            raise ServerError(f"{away}: {reason}") from reason
        return min(pause, remaining)

    def _connect(self) -> None:
        self._response = self._connection.open_event_stream(
            "/api/events", self._parameters, self._request_headers(), READ_TIMEOUT
        )
        self._parser, self._chunks = EventParser(self._parser.last_id), self._response.iter_raw()

    def _request_headers(self) -> dict[str, str]:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        last_id = self._parser.last_id
        return headers | ({"Last-Event-ID": last_id} if HEADER_SAFE_ID.fullmatch(last_id) else {})

    def _disconnect(self) -> None:
        if self._response is not None:
            with suppress(httpx.HTTPError):
                self._response.close()
            self._response = None


# Server-sent events (HTML standard, section 9.2.6)


@dataclass(frozen=True, slots=True)
class Message:
    """A server-sent event before its data is parsed."""

    kind: str
    data: str
    id: str


class EventParser:
    """Incremental parser of the server-sent events of one connection; the bytes may be split anywhere.

    `last_id` is the id of the last complete message; `retry` the pause in seconds that the server requests before the
    next connection. A message that is incomplete when the connection ends is discarded.

    >>> parser = EventParser()
    >>> list(parser.feed(b": hello\\r\\nid: 7\\r\\nevent: change\\r\\nda"))
    []
    >>> list(parser.feed(b"ta: one\\r\\ndata: two\\r\\n\\r\\n"))
    [Message(kind='change', data='one\\ntwo', id='7')]
    >>> parser.last_id
    '7'
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry: float | None = None
        self._partial_line: list[bytes] = []
        self._message_bytes = 0
        self._at_start, self._after_cr = True, False
        self._id, self._kind = last_id, ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield the messages that these bytes complete."""
        for line in self._split_lines(chunk):
            if line:
                self._add_field(line)
            elif (message := self._finish_message()) is not None:
                yield message

    def _split_lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._at_start:  # the byte order mark may be split too
            chunk = b"".join([*self._partial_line, chunk])
            self._partial_line = [chunk]
            if len(chunk) < len(BYTE_ORDER_MARK) and BYTE_ORDER_MARK.startswith(chunk):
                return
            self._partial_line, self._at_start, chunk = [], False, chunk.removeprefix(BYTE_ORDER_MARK)
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        self._message_bytes += len(chunk)
        *complete, partial = LINE_END.split(chunk)
        for end_of_line in complete:
            line, self._partial_line = b"".join([*self._partial_line, end_of_line]), []
            yield line
        self._partial_line.append(partial)
        if self._message_bytes > MAX_MESSAGE_BYTES:
            raise ServerError(
                f"the server sent an event of more than {MAX_MESSAGE_BYTES:,} bytes; check that it is a Quantide server"
            )

    def _add_field(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value[:9]) / 1000

    def _finish_message(self) -> Message | None:
        self.last_id = self._id
        kind, data = self._kind or "message", self._data
        self._kind, self._data, self._message_bytes = "", [], 0
        return Message(kind, "\n".join(data), self.last_id) if data else None
