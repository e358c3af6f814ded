"""Answers given again: what many ask at once, or ask again before anything has changed, is computed once.

An answer is a function of its question and of the version of the stream. So the bytes of a response hold for as long as
all streams that it speaks of are at the versions that it was made of; a route says which by `as_of()`.
"""

import asyncio
from collections import OrderedDict
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantide.errors import QuantideError
from quantide.server.streams import Streams

MOST_BYTES = 32 * 10**6
LONGEST = 256 * 10**3  # bytes of a response that is kept
EACH = 1_000  # bytes that anything kept costs beside what it holds

Question = tuple[str, bytes]
AsOf = tuple[tuple[str, int], ...]


# A response: the versions it is about, its headers, its body, the path of its route. A plain tuple of plain things: the
# garbage collector does not look at these again, and there may be tens of thousands.
Told = tuple[AsOf, tuple[tuple[bytes, bytes], ...], bytes, str]


def as_of(request: Request, *versions: tuple[str, int]) -> None:
    """Say of which streams, at which versions, the response is a function."""
    request.scope["as_of"] = versions


class Again:
    """Keeps responses that said as of what they hold, within a number of bytes: what was not used for longest goes."""

    def __init__(self, app: ASGIApp, streams: Streams) -> None:
        self._app, self._streams = app, streams
        self._kept: OrderedDict[Question, Told] = OrderedDict()
        self._asking: dict[Question, asyncio.Future[Told | None]] = {}
        self._routes: dict[str, Any] = {}
        self.nbytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["query_string"]:
            await self._app(scope, receive, send)
            return
        question = (scope["path"], scope["query_string"])
        told = self._known(question) or await self._heard(question)
        if told is None:
            await self._ask(question, scope, receive, send)
            return
        _, headers, body, path = told
        scope["route"] = self._routes[path]
        await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    async def _heard(self, question: Question) -> Told | None:
        """What others are told who ask the same just now, unless it is older than this question."""
        since = self._streams.versions
        while question in self._asking:
            told = await asyncio.shield(self._asking[question])  # whoever gives up does so alone
            if told is None or all(version >= since.get(name, 0) for name, version in told[0]):
                return told
        return self._known(question)

    async def _ask(self, question: Question, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it be answered; whoever asks the same meanwhile waits, unless someone is waited for already."""
        if question in self._asking:
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        answered = self._asking[question] = asyncio.get_running_loop().create_future()

        def tell(told: Told | None) -> None:
            if not answered.done():
                del self._asking[question]
                answered.set_result(told)

        async def heard(message: Message) -> None:
            if "as_of" not in scope:  # an error, events, whatever is not a function of versions: nobody waits for it
                tell(None)
            elif not answered.done():
                messages.append(_copy(message))
                if message["type"] == "http.response.body":
                    tell(self._keep(question, scope, messages))
            await send(message)

        try:
            await self._app(scope, receive, heard)
        finally:
            tell(None)

    def _known(self, question: Question) -> Told | None:
        told = self._kept.get(question)
        if told is None:
            return None
        if self._holds(told):
            self._kept.move_to_end(question)
            return told
        self._forget(question)
        return None

    def _holds(self, told: Told) -> bool:
        try:
            lives = [(self._streams.live(name), version) for name, version in told[0]]
            return all(live.version == version and live.trouble is None for live, version in lives)
        except QuantideError:
            return False

    def _keep(self, question: Question, scope: Scope, messages: list[Message]) -> Told | None:
        """What was said, if it was said whole, went well and is not too long."""
        versions = scope.get("as_of")
        whole = len(messages) == 2 and not messages[1].get("more_body", False)
        if versions is None or not whole or messages[0].get("status") != 200:
            return None
        route = scope.get("route")
        path = getattr(route, "path", "none")
        self._routes[path] = route
        told = versions, tuple(map(tuple, messages[0]["headers"])), messages[1]["body"], path
        size = _size(question, told)
        if size <= LONGEST:
            self._forget(question)
            self._kept[question] = told
            self.nbytes += size
            while self.nbytes > MOST_BYTES:
                self._forget(next(iter(self._kept)))
        return told

    def _forget(self, question: Question) -> None:
        told = self._kept.pop(question, None)
        self.nbytes -= _size(question, told) if told is not None else 0


def _size(question: Question, told: Told) -> int:
    return len(told[2]) + len(question[1]) + EACH


def _copy(message: Message) -> Message:
    """Whoever sends a message on may change it, and its headers."""
    return {**message, "headers": [*message["headers"]]} if "headers" in message else dict(message)
