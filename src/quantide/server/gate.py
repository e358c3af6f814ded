"""The gate: every request passes it, and is refused there unless all is right with it.

It asks in this order: is it meant for this server, does it come from a page of this server or from no page at all,
who sends it, may that one do it, is its body what it should be. Whoever is refused has changed nothing.
"""

import re
import time
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from quantide.config.server import ServerConfig
from quantide.errors import ForbiddenError, InvalidArgumentError, QuantideError, TokenError
from quantide.server import shown
from quantide.server.bodies import WITH_BODY, Bodies, Gone, check_kind, drain, given, has_body
from quantide.server.names import Address, Names, names_of
from quantide.server.problems import Problem, body_of, problem, status_of
from quantide.server.registry import Registry
from quantide.server.reply import Reply
from quantide.server.roles import READING, role_for
from quantide.server.sessions import cookie_name, who_in
from quantide.server.tokens import LOCAL, NOBODY, Who, are_needed, count_valid, who_has

Head = dict[bytes, bytes]

ONCE = frozenset(
    b"host origin authorization cookie content-type content-length content-encoding transfer-encoding "
    b"sec-fetch-site sec-fetch-mode sec-fetch-dest".split()
)
SECRET = re.compile(rb"(?:^|[&;])\s*(?:access_?|auth_?)?token=", re.IGNORECASE)
UNKNOWN = "this needs a token that holds: send it as Authorization: Bearer; `quantide token create` makes one"
NONE_LEFT = "this server needs a token, and none holds any more: `quantide token create CONFIG --role reader` makes one"


class Gate:
    """An application behind a gate. `registry` should be a connection of its own, so that it never waits for others.

    Until the first token is created, everyone on this machine is let in as LOCAL. From then on a token is needed, also
    after a restart: revoking the last one does not open the server again, only `quantide token open` does.
    """

    def __init__(
        self, app: ASGIApp, config: ServerConfig, registry: Registry, clock: Callable[[], float] = time.time
    ) -> None:
        self._app, self._config, self._registry, self._clock = app, config, registry, clock
        self._secure, self._cookie = config.secure, cookie_name(config.secure).encode()
        self._bodies = Bodies(config.limits.body)
        self._closed = not config.for_this_machine or are_needed(registry)
        self._names: dict[Address | None, Names] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, send)
        else:  # a WebSocket: there are none here
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = Reply(send, self._secure, self._clock)
        try:
            receive = await self._admit(scope, receive, reply)
        except (QuantideError, Problem) as error:
            await self._refuse(error, scope, receive, reply)
            return
        except Gone:
            return
        try:
            await self._app(scope, receive, reply)
        except Exception:
            if not reply.done:  # else it was told, and is in the log
                raise

    async def _admit(self, scope: Scope, receive: Receive, reply: Reply) -> Receive:
        """What the application may read of a request that is let in."""
        method, path, head = scope["method"], scope["path"], head_of(scope)
        self._check_names(method, path, head, scope.get("server"))
        check_address(path, scope["query_string"])
        needed = role_for(method, path)
        who = NOBODY if needed is None else self._who(method, head)
        if needed is not None and not who.may(needed):
            raise ForbiddenError(f"this needs the role {needed}; the token {who.name!r} has the role {who.role}")
        check_kind(method, head)
        scope.setdefault("state", {})["who"] = who
        reply.still = None if needed is None else lambda: self._who(method, head)
        if not has_body(head):
            return receive
        return given(await self._bodies.read(needed is None or method not in WITH_BODY, head, receive), receive)

    def _check_names(self, method: str, path: str, head: Head, local: Address | None) -> None:
        names = self._names.get(local)
        if names is None:
            if len(self._names) > 100:  # a machine has few addresses
                self._names.clear()
            names = self._names[local] = names_of(self._config, local)
        if head.get(b"host", b"").lower() not in names.hosts:
            raise problem(
                "wrong_host", "this server is not called what the Host header says; `hosts` under [server] adds names"
            )
        origin, site = head.get(b"origin"), head.get(b"sec-fetch-site", b"none")
        if origin is not None and origin not in names.origins:
            raise problem("wrong_origin", "a page of another site, or of another port, may not ask this server")
        if site not in (b"none", b"same-origin") and not is_visit(method, path, head):
            raise problem("wrong_origin", "a page of another site may link to pages of this server, and nothing else")

    def _who(self, method: str, head: Head) -> Who:
        if not self._closed:
            self._closed = are_needed(self._registry)
            if not self._closed:
                return LOCAL
        said, now = head.get(b"authorization"), self._clock()
        if said is not None:
            kind, _, token = said.decode("latin-1").partition(" ")
            who = who_has(self._registry, token.strip(), now) if kind.lower() == "bearer" else None
        else:
            secret = cookie_of(head.get(b"cookie", b""), self._cookie)
            who = None if secret is None else who_in(self._registry, secret, now)
            if who is not None and method not in READING and b"origin" not in head:
                raise problem("wrong_origin", "a change with a cookie needs the Origin header that browsers send")
        if who is None:
            raise TokenError(UNKNOWN if count_valid(self._registry, now) else NONE_LEFT)
        return who

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
        response = shown.json(body_of(error), status_of(error))
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


def head_of(scope: Scope) -> Head:
    """The headers of a request; of those that decide something there is only one."""
    found: Head = {}
    for name, value in scope["headers"]:
        if name in found and name in ONCE:
            raise InvalidArgumentError(f"the header {name.decode('latin-1')} comes twice; send it once")
        found[name] = value
    return found


def check_address(path: str, query: bytes) -> None:
    if not path.isprintable():  # a router that overlooks a line's end would find a route that was not checked
        raise problem("not_found", "there is nothing here; /docs lists what there is")
    if query and SECRET.search(unquote_to_bytes(query)):
        raise InvalidArgumentError(
            "a token never goes into an address, where logs keep it; send it as Authorization: Bearer"
        )


def is_visit(method: str, path: str, head: Head) -> bool:
    """Whether someone follows a link to a page, in a window of its own."""
    return (
        method == "GET"
        and not path.startswith("/api")
        and head.get(b"sec-fetch-mode") == b"navigate"
        and head.get(b"sec-fetch-dest") == b"document"
    )


def cookie_of(header: bytes, name: bytes) -> str | None:
    """The value of a cookie; none when it is there twice, as only one that someone slipped in would be."""
    found = [value for key, _, value in (part.strip().partition(b"=") for part in header.split(b";")) if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None
