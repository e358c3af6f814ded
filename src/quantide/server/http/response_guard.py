"""Response guard: security headers for every response, and an end to responses whose client loses its access."""

from collections.abc import Callable, Iterable

from starlette.types import Message, Send

from quantide.errors import QuantideError

Header = tuple[bytes, bytes]

ACCESS_CHECK = 5.0  # seconds between two checks of the token behind a streaming response
ALWAYS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NO_STORE: Header = (b"cache-control", b"no-store")
HTTPS_ONLY: Header = (b"strict-transport-security", b"max-age=31536000")
POLICY = b"content-security-policy"
NO_CONTENT: Header = (POLICY, b"default-src 'none'; frame-ancestors 'none'")
OWN_CONTENT: Header = (
    POLICY,
    b"default-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
)


def add_security_headers(headers: Iterable[Header], secure: bool) -> list[Header]:
    """Return the headers and the security headers; a route's own Cache-Control and policy take precedence."""
    result = [*headers]
    given = dict(result)
    if b"cache-control" not in given:
        result.append(NO_STORE)
    if POLICY not in given:
        result.append(OWN_CONTENT if given.get(b"content-type", b"").startswith(b"text/html") else NO_CONTENT)
    if secure:
        result.append(HTTPS_ONLY)
    result.extend(ALWAYS)
    return result


class ResponseGuard:
    """`send` of one response. `check_access` raises when the client has lost its access: the response then ends.

    To the route this looks as if the client had disconnected; anything it sends afterwards is discarded.
    """

    def __init__(self, send: Send, secure: bool, clock: Callable[[], float]) -> None:
        self._send, self._secure, self._clock = send, secure, clock
        self._checked, self._cut = clock(), False
        self.check_access: Callable[[], object] | None = None
        self.done = False

    async def __call__(self, message: Message) -> None:
        if self._cut:
            return
        if message["type"] == "http.response.start":
            message["headers"] = add_security_headers(message.get("headers", ()), self._secure)
        elif message.get("more_body", False) and not self._has_access():
            self._cut = True
            message = {"type": "http.response.body", "body": b""}
        self.done = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    def _has_access(self) -> bool:
        now = self._clock()
        if self.check_access is None or now - self._checked < ACCESS_CHECK:
            return True
        self._checked = now
        try:
            self.check_access()
        except QuantideError:
            return False
        return True
