"""Response cache: a response is computed once for all identical requests between two commits.

A response depends on its request and on the versions of the streams it is about. Routes declare these versions with
`set_versions()`; the cached bytes are valid while all of these streams stay at these versions.
"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantide.caching import ByteLRU
from quantide.errors import QuantideError
from quantide.server.served_streams import ServedStreams

MAX_BYTES = 32 * 10**6
MAX_RESPONSE = 256 * 10**3  # bytes of a response that is cached
RESPONSE_OVERHEAD = 600  # bytes beside body and query string, and beside those that ByteLRU counts
VERSIONS = "quantide.versions"  # scope entry: the versions that the response depends on

RequestKey = tuple[str, bytes]
"""Path and query string."""
StreamVersions = tuple[tuple[str, int], ...]

# Versions, headers, body, path of the route. A plain tuple of plain values: the garbage collector stops tracking these,
# and there may be tens of thousands.
CachedResponse = tuple[StreamVersions, tuple[tuple[bytes, bytes], ...], bytes, str]


def set_versions(request: Request, *versions: tuple[str, int]) -> None:
    """Declare the streams, and their versions, that the response depends on."""
    request.scope[VERSIONS] = versions


class ResponseCache:
    """Byte-bounded LRU cache of responses, valid for the stream versions they were computed from.

    Identical concurrent requests wait for one computation (single-flight).
    """

    def __init__(self, app: ASGIApp, streams: ServedStreams) -> None:
        self._app, self._streams = app, streams
        self._responses = ByteLRU(MAX_BYTES)
        self._in_flight: dict[RequestKey, asyncio.Future[CachedResponse | None]] = {}
        self._routes: dict[str, Any] = {}

    @property
    def nbytes(self) -> int:
        return self._responses.nbytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["query_string"] or _needs_route(scope):
            await self._app(scope, receive, send)
            return
        key = (scope["path"], scope["query_string"])
        response = self._lookup(key) or await self._join(key)
        if response is None:
            await self._compute(key, scope, receive, send)
            return
        _, headers, body, path = response
        scope["route"] = self._routes[path]
        await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    async def _join(self, key: RequestKey) -> CachedResponse | None:
        """Wait for an identical request in flight; return its response unless it is older than this request."""
        since = self._streams.versions
        while key in self._in_flight:
            response = await asyncio.shield(self._in_flight[key])  # one client's disconnect must not cancel it
            if response is None or all(version >= since.get(name, 0) for name, version in response[0]):
                return response
        return self._lookup(key)

    async def _compute(self, key: RequestKey, scope: Scope, receive: Receive, send: Send) -> None:
        """Compute the response; identical concurrent requests wait for it, unless one is in flight already."""
        if key in self._in_flight:
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        future = self._in_flight[key] = asyncio.get_running_loop().create_future()

        def resolve(response: CachedResponse | None) -> None:
            if not future.done():
                del self._in_flight[key]
                future.set_result(response)

        async def record(message: Message) -> None:
            if VERSIONS not in scope:  # an error or an event stream: no other request may wait for it
                resolve(None)
            elif not future.done():
                messages.append(_copy(message))
                if message["type"] == "http.response.body":
                    resolve(self._store(key, scope, messages))
            await send(message)

        try:
            await self._app(scope, receive, record)
        finally:
            resolve(None)

    def _lookup(self, key: RequestKey) -> CachedResponse | None:
        response: CachedResponse | None = self._responses.lookup(None, key)
        if response is None or self._is_valid(response):
            return response
        self._responses.pop(None, key)
        return None

    def _is_valid(self, response: CachedResponse) -> bool:
        try:
            streams = [(self._streams.live(name), version) for name, version in response[0]]
            return all(live.version == version and live.last_error is None for live, version in streams)
        except QuantideError:
            return False

    def _store(self, key: RequestKey, scope: Scope, messages: list[Message]) -> CachedResponse | None:
        """Cache the response, if it fits, and return it; None if it is an error or was sent in several parts."""
        versions = scope.get(VERSIONS)
        whole = len(messages) == 2 and not messages[1].get("more_body", False)
        if versions is None or not whole or messages[0].get("status") != 200:
            return None
        route = scope.get("route")
        path = getattr(route, "path", "none")
        self._routes[path] = route
        response = versions, tuple(map(tuple, messages[0]["headers"])), messages[1]["body"], path
        size = len(response[2]) + len(key[1]) + RESPONSE_OVERHEAD
        if size <= MAX_RESPONSE:
            self._responses.pop(None, key)
            self._responses.put(None, key, response, size)
        return response


def _needs_route(scope: Scope) -> bool:
    """Return True if only the route can check the streams of a request: the client is limited to some, and the path
    does not name all."""
    identity = scope.get("state", {}).get("identity")
    if identity is None or identity.streams is None:
        return False
    path: str = scope["path"]
    return not path.startswith("/api/streams/") or path.endswith("/compare")


def _copy(message: Message) -> Message:
    """Copy a message: middleware may change it and its headers after it is sent on."""
    return {**message, "headers": [*message["headers"]]} if "headers" in message else dict(message)
