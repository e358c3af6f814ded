"""Security middleware: checks every request before any route sees it, and guards every response.

The checks, in this order: the Host header names this server; the Origin is a page of this server or absent; the token
or session is valid; its role is sufficient; the body is JSON of an allowed size. A rejected request changes nothing.
"""

import re
import time
from collections.abc import Callable, Iterable
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantide.config.server_config import ServerConfig
from quantide.errors import ForbiddenError, InvalidArgumentError, QuantideError, TokenError
from quantide.server.http.binding import Address, AllowedHosts, allowed_hosts
from quantide.server.http.request_limits import (
    METHODS_WITH_BODY,
    BodyReader,
    ClientDisconnected,
    check_content_type,
    drain,
    has_body,
    replay,
)
from quantide.server.http.response_json import Problem, error_body, error_status, json_response
from quantide.server.http.tokens import (
    ADMIN_PATHS,
    ANONYMOUS,
    LOCAL,
    READ_METHODS,
    Identity,
    cookie_name,
    count_valid_tokens,
    identify_session,
    identify_token,
    required_role,
    tokens_required,
)
from quantide.server.server_registry import ServerRegistry

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
Headers = dict[bytes, bytes]
SINGLE_HEADERS = frozenset(
    b"host origin authorization cookie content-type content-length content-encoding transfer-encoding "
    b"sec-fetch-site sec-fetch-mode sec-fetch-dest idempotency-key".split()
)
STREAM_PATH = re.compile(r"/api/streams/([^/]+)")
SECRET = re.compile(rb"(?:^|[&;])\s*(?:access_?|auth_?)?token=", re.IGNORECASE)
TOKEN_NEEDED = "this needs a valid token: send it as Authorization: Bearer; `quantide token create` creates one"
NO_VALID_TOKEN = (
    "this server needs a token, and no valid one is left: `quantide token create CONFIG --role reader` creates one"
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


class SecurityMiddleware:
    """Middleware that authenticates requests. `registry` should be a connection of its own, so that it never waits.

    Until the first token is created, every client on this machine has the identity LOCAL. From then on a token is
    needed, also after a restart: revoking the last one does not open the server again, only `quantide token open` does.
    """

    def __init__(
        self, app: ASGIApp, config: ServerConfig, registry: ServerRegistry, clock: Callable[[], float] = time.time
    ) -> None:
        self._app, self._config, self._registry, self._clock = app, config, registry, clock
        self._secure, self._cookie = config.secure, cookie_name(config.secure).encode()
        self._bodies = BodyReader(config.limits.body)
        self._closed = not config.for_this_machine or tokens_required(registry)
        self._allowed_hosts: dict[Address | None, AllowedHosts] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:  # a WebSocket, which no route accepts
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        guard = ResponseGuard(send, self._secure, self._clock)
        try:
            receive = await self._admit(scope, receive, guard)
        except (QuantideError, Problem) as error:
            await self._reject(error, scope, receive, guard)
            return
        except ClientDisconnected:
            return
        try:
            await self._app(scope, receive, guard)
        except Exception:
            if not guard.done:  # otherwise the error was sent and logged
                raise

    async def _admit(self, scope: Scope, receive: Receive, guard: ResponseGuard) -> Receive:
        """Check a request; return the `receive` to pass to the application."""
        method, path, headers = scope["method"], scope["path"], read_headers(scope)
        self._check_host(method, path, headers, scope.get("server"))
        check_target(path, scope["query_string"])
        role = required_role(method, path)
        identity = ANONYMOUS if role is None else self._identify(method, headers)
        if role is not None and not identity.has_role(role):
            raise ForbiddenError(
                f"this needs the role {role}; the token {identity.name!r} has the role {identity.role}"
            )
        check_streams(identity, path)
        check_content_type(method, path, headers)
        scope.setdefault("state", {})["identity"] = identity
        guard.check_access = None if role is None else lambda: self._identify(method, headers)
        if not has_body(headers):
            return receive
        small = role is None or method not in METHODS_WITH_BODY
        return replay(await self._bodies.read(small, headers, receive), receive)

    def _check_host(self, method: str, path: str, headers: Headers, local: Address | None) -> None:
        allowed = self._allowed_hosts.get(local)
        if allowed is None:
            if len(self._allowed_hosts) > 100:  # a machine has few addresses
                self._allowed_hosts.clear()
            allowed = self._allowed_hosts[local] = allowed_hosts(self._config, local)
        if headers.get(b"host", b"").lower() not in allowed.hosts:
            raise Problem(
                "wrong_host", "the Host header does not name this server; add the name to `hosts` under [server]"
            )
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"none")
        if origin is not None and origin not in allowed.origins:
            raise Problem("wrong_origin", "a page of another site, or of another port, may not use this server")
        if site not in (b"none", b"same-origin") and not is_navigation(method, path, headers):
            raise Problem("wrong_origin", "a page of another site may link to pages of this server, and nothing else")

    def _identify(self, method: str, headers: Headers) -> Identity:
        if not self._closed:
            self._closed = tokens_required(self._registry)
            if not self._closed:
                return LOCAL
        authorization, now = headers.get(b"authorization"), self._clock()
        if authorization is not None:
            scheme, _, token = authorization.decode("latin-1").partition(" ")
            identity = identify_token(self._registry, token.strip(), now) if scheme.lower() == "bearer" else None
        else:
            secret = read_cookie(headers.get(b"cookie", b""), self._cookie)
            identity = None if secret is None else identify_session(self._registry, secret, now)
            if identity is not None and method not in READ_METHODS and b"origin" not in headers:
                raise Problem("wrong_origin", "a change with a cookie needs the Origin header that browsers send")
        if identity is None:
            raise TokenError(TOKEN_NEEDED if count_valid_tokens(self._registry, now) else NO_VALID_TOKEN)
        return identity

    async def _reject(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        response = json_response(error_body(error), error_status(error))
        if response.status_code == 401:
            response.headers["www-authenticate"] = "Bearer"
        unread = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        if unread:
            response.headers["connection"] = "close"
        await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
        body = b"" if scope["method"] == "HEAD" else response.body
        if unread:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await drain(receive, self._config.limits.body)
            body = b""
        await send({"type": "http.response.body", "body": body})


def read_headers(scope: Scope) -> Headers:
    """Return the headers of a request; raise if one that a check depends on is duplicated."""
    headers: Headers = {}
    for name, value in scope["headers"]:
        if name in headers and name in SINGLE_HEADERS:
            raise InvalidArgumentError(f"the header {name.decode('latin-1')} is duplicated; send it once")
        headers[name] = value
    return headers


def check_target(path: str, query: bytes) -> None:
    if not path.isprintable():  # a router that ignores a line break would find a route that was not checked
        raise Problem("not_found", "there is no such route; /docs lists the routes")
    if query and SECRET.search(unquote_to_bytes(query)):
        raise InvalidArgumentError(
            "a token must not be in a URL, which is logged in many places; send it as Authorization: Bearer"
        )


def check_streams(identity: Identity, path: str) -> None:
    """Raise if a path is about a stream that the identity may not use, or about all tokens if it is limited.

    Routes check streams that are named elsewhere: in parameters, in bodies, by queries and alarms.
    """
    if identity.streams is not None:
        if match := STREAM_PATH.match(path):
            identity.check_stream(match[1])
        if path.startswith(ADMIN_PATHS):
            raise ForbiddenError("tokens are managed by an admin whose own token is not limited to some streams")


def is_navigation(method: str, path: str, headers: Headers) -> bool:
    """Return True if a browser follows a link to a page, in a window of its own."""
    return (
        method == "GET"
        and not path.startswith("/api")
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def read_cookie(header: bytes, name: bytes) -> str | None:
    """Return the value of a cookie; None if it is duplicated, which only an injected cookie can be."""
    values = [value for key, _, value in (part.strip().partition(b"=") for part in header.split(b";")) if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else None
