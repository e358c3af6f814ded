"""Events: what a server tells by itself, for as long as one listens."""

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

from quantide.client.connection import Connection, check_seconds
from quantide.client.problems import understood
from quantide.client.sse import Message, Parser
from quantide.errors import LimitError, NotReadyError, QuantideError, ServerError, StorageError
from quantide.summary.copying import NotCopied

SILENCE = 40.0  # seconds without a word after which a server is taken for dead; it says one every 15
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
PASSING = (ServerError, LimitError, NotReadyError, StorageError)  # what may be over when one comes again
SENDABLE = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: its kind, the id to go on from after it, and what it says."""

    kind: str
    id: str
    data: Any


class Events(NotCopied, Iterator[Event]):
    """Events as they come, without end; `close()`, leaving a `with`, or dropping it ends the connection.

    The first connection is made at once, and what is wrong with it is raised. When a later one breaks, or the server
    restarts, it is made again, from the last event on, after a pause that gets longer with each failure. `patience` is
    how many seconds a server may be away; then ServerError is raised, and without it never. What will not pass by
    itself, such as a token that was revoked, is raised at once.

    One thread at a time may ask for the next event; any thread may close.
    """

    REOPEN = "it is an open connection; call events() of a Client where it is needed, from the id of the last event on"

    def __init__(
        self,
        connection: Connection,
        parameters: Mapping[str, Any],
        read: Callable[[str, Any], Any],
        patience: float | None = None,
        after: str = "",
    ) -> None:
        self._response: httpx.Response | None = None
        self._connection, self._parameters, self._read = connection, parameters, read
        self._patience = None if patience is None else check_seconds("patience", patience)
        self._parser, self._failures, self._asked_pause = Parser(after), 0, 0.0
        self._messages: deque[Message] = deque()
        self._heard, self._end, self._listening = time.monotonic(), threading.Event(), False
        self._open()

    def close(self) -> None:
        """End the connection, and the loop of whoever listens."""
        self._end.set()
        response = self._response
        if response is not None:
            with suppress(OSError, KeyError):  # it wakes a thread that waits for the next event
                response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            if not self._listening:
                self._hang_up()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while not self._end.is_set():
            if self._messages:
                return self._event(self._messages.popleft())
            self._hear()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._hang_up()

    # Inside

    def _event(self, message: Message) -> Event:
        try:
            with understood(self._connection.address):
                return Event(message.kind, message.id, self._read(message.kind, json.loads(message.data)))
        except QuantideError:
            self.close()
            raise

    def _hear(self) -> None:
        """Take what comes next; connect again where nothing can come."""
        self._listening = True
        try:
            with self._connection.naming():
                chunk = next(self._chunks, None)
            if chunk is None:
                raise ServerError(f"{self._connection.address} ended the connection") from httpx.ReadError("ended")
            self._heard, self._failures = time.monotonic(), 0
            self._messages.extend(self._parser.feed(chunk))
            self._asked_pause = self._parser.retry or self._asked_pause
        except ServerError as error:
            self._hang_up()
            if self._end.is_set():
                return
            if not isinstance(error.__cause__, httpx.HTTPError):
                self._end.set()
                raise
            self._again(error)
        finally:
            self._listening = False

    def _again(self, reason: QuantideError) -> None:
        """Connect until it works."""
        while not self._end.wait(self._pause(reason)):
            try:
                return self._open()
            except PASSING as error:
                reason = error
            except BaseException:
                self._end.set()
                raise

    def _pause(self, reason: QuantideError) -> float:
        """How many seconds to wait before the next attempt."""
        longest: float = min(LONGEST_PAUSE, max(self._asked_pause, FIRST_PAUSE) * 2.0 ** min(self._failures, 20))
        self._failures += 1
        pause = random.uniform(0.5, 1.0) * longest  # so that not all come back at the same moment
        if self._patience is None:
            return pause
        left = self._heard + self._patience - time.monotonic()
        if left <= 0:
            self._end.set()
            away = f"{self._connection.address} has been away for more than {self._patience:g} s"
            raise ServerError(f"{away}: {reason}") from reason
        return min(pause, left)

    def _open(self) -> None:
        self._response = self._connection.listen("/api/events", self._parameters, self._headers(), SILENCE)
        self._parser, self._chunks = Parser(self._parser.last_id), self._response.iter_raw()

    def _headers(self) -> dict[str, str]:
        said = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        last = self._parser.last_id
        return said | ({"Last-Event-ID": last} if SENDABLE.fullmatch(last) else {})

    def _hang_up(self) -> None:
        if self._response is not None:
            with suppress(httpx.HTTPError):
                self._response.close()
            self._response = None
