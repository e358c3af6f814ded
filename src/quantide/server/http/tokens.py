"""Tokens, the sessions they open, and the role that each request needs.

A browser exchanges its token for a session cookie, because a page cannot send a token with an event stream.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quantide.errors import ForbiddenError, InvalidArgumentError, TokenError
from quantide.server.http.request_limits import PUSH_PATH, QUERY_PATHS
from quantide.server.server_registry import IS_CLOSED, ServerRegistry

ROLES = ("pusher", "reader", "writer", "admin")
INCLUDED = {  # roles that each role includes
    "pusher": ("pusher",),
    "reader": ("reader",),
    "writer": ("pusher", "reader", "writer"),
    "admin": ROLES,
}
ANY_ROLE = "any"  # required of requests that every valid token may send
MAX_NAME = 100  # characters
MAX_TOKEN = 200  # characters
SESSION_SECONDS = 12 * 3600.0
MAX_SESSIONS = 100  # of one token; the oldest ends when there are more
INVALID_TOKEN = "this is not a valid token; create one with `quantide token create`"

READ_METHODS = ("GET", "HEAD")
PUBLIC = {(method, path) for method in READ_METHODS for path in ("/healthz", "/readyz", "/")} | {
    ("POST", "/api/session")
}
PAGE_FILES = "/page/"  # public: these files contain no data, which the page requests through the API
OWN_SESSION = {(method, "/api/session") for method in (*READ_METHODS, "DELETE")}
ADMIN_PATHS = ("/api/tokens",)


@dataclass(frozen=True, slots=True)
class Identity:
    """Client of a request: the id, the name and the role of its token, and the streams it is limited to (None: all)."""

    id: str
    name: str
    role: str
    streams: frozenset[str] | None = None

    def has_role(self, role: str) -> bool:
        """Return True if the identity has this role, or one that includes it."""
        return role == ANY_ROLE or role in INCLUDED[self.role]

    def may_use(self, stream: str) -> bool:
        """Return True unless the identity is limited to other streams."""
        return self.streams is None or stream in self.streams

    def check_stream(self, stream: str, item: str = "") -> None:
        """Raise if the identity is limited to other streams; the message is the same if there is no such stream.

        `item` is what the client named instead, such as "alarm 7": the message does not disclose its stream.
        """
        if not self.may_use(stream):
            named = f"that of {item}" if item else repr(stream[:100])
            raise ForbiddenError(f"the token {self.name!r} is limited to other streams than {named}")

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> "Identity":
        """Return the identity of a row of the registry: id, name, role and streams of a token."""
        id, name, role, streams = row
        return cls(id, name, role, _read_streams(streams))


LOCAL = Identity("local", "local", "admin")
"""Every client on this machine, until the first token is created."""
ANONYMOUS = Identity("nobody", "nobody", "reader")
"""Client of a route that needs no token."""


def identity_of(request: Any) -> Identity:
    """Return the identity that the security middleware found."""
    identity: Identity = request.state.identity
    return identity


@dataclass(frozen=True, slots=True)
class Token:
    """Stored properties of a token, without its secret. Times are seconds since 1970."""

    id: str
    name: str
    role: str
    created: float
    expires: float | None
    streams: frozenset[str] | None = None


def required_role(method: str, path: str) -> str | None:
    """Return the role that a request needs; None for public routes. Unlisted routes need a reader to read, a writer
    for everything else; rows need a pusher. Queries of Prometheus read, also with POST."""
    if path.startswith(ADMIN_PATHS):
        return "admin"
    if (method, path) in PUBLIC or (method in READ_METHODS and path.startswith(PAGE_FILES)):
        return None
    if (method, path) in OWN_SESSION:
        return ANY_ROLE
    if method == "POST" and PUSH_PATH.fullmatch(path):
        return "pusher"
    if method == "POST" and path in QUERY_PATHS:
        return "reader"
    return "reader" if method in READ_METHODS else "writer"


def create_token(
    registry: ServerRegistry,
    name: str,
    role: str,
    expires: float | None = None,
    streams: Iterable[str] | None = None,
) -> tuple[str, str]:
    """Create a token, for all streams or for some; return its id and its secret text, which is not stored and cannot
    be shown again."""
    if role not in ROLES:
        raise InvalidArgumentError(f"the role is {role[:40]!r}; write one of {', '.join(ROLES)}")
    if not name.isprintable() or not 0 < len(name) <= MAX_NAME:
        raise InvalidArgumentError(f"a token needs a name of 1 to {MAX_NAME} printable characters")
    now = time.time()
    if expires is not None and not now < expires < float("inf"):
        raise InvalidArgumentError("the token would have expired already; let it expire later, or never")
    id = secrets.token_hex(4)
    token = f"qt_{id}_{secrets.token_urlsafe(32)}"
    with registry.transaction() as write:
        registry.set_closed(write, True)
        limited = None if streams is None else json.dumps(sorted(streams))
        write.execute(
            "INSERT INTO tokens (id, name, role, hash, created, expires, streams) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (id, name, role, hash_secret(token), now, expires, limited),
        )
    return id, token


def list_tokens(registry: ServerRegistry) -> list[Token]:
    """Return all tokens, oldest first; expired ones are listed until they are revoked."""
    rows = registry.rows("SELECT id, name, role, created, expires, streams FROM tokens ORDER BY created, id")
    return [Token(**{**dict(row), "streams": _read_streams(row["streams"])}) for row in rows]


def _read_streams(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


def revoke_token(registry: ServerRegistry, id: str) -> None:
    """Invalidate a token and its sessions, from the next request on."""
    if not registry.write("DELETE FROM tokens WHERE id = ?", (id,)):
        raise InvalidArgumentError(f"there is no token {id[:40]!r}; `quantide token list` shows all of them")


def hash_secret(secret: str) -> bytes:
    """Return the hash that is stored instead of a secret.

    A slow hash protects passwords, which can be guessed. 256 random bits cannot: SHA-256 is enough, and cheap enough
    for every request. Secrets are found by their hash, so the time of a lookup reveals nothing about them.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def identify_token(registry: ServerRegistry, token: str, now: float) -> Identity | None:
    """Return the identity of a token; None if it is unknown, revoked or expired."""
    if len(token) > MAX_TOKEN:
        return None
    sql = "SELECT id, name, role, streams FROM tokens WHERE hash = ? AND (expires IS NULL OR expires > ?)"
    return next((Identity.of_row(row) for row in registry.rows(sql, (hash_secret(token), now))), None)


def tokens_required(registry: ServerRegistry) -> bool:
    """Return True once a token was created, also when all have expired or are revoked, until allow_anonymous()."""
    return bool(registry.rows(f"SELECT ({IS_CLOSED}) OR EXISTS (SELECT 1 FROM tokens)")[0][0])


def count_valid_tokens(registry: ServerRegistry, now: float) -> int:
    """Return the number of tokens that have not expired."""
    return int(registry.rows("SELECT COUNT(*) FROM tokens WHERE expires IS NULL OR expires > ?", (now,))[0][0])


def allow_anonymous(registry: ServerRegistry) -> None:
    """Let all clients on this machine in without a token from the next start on; raise if a token is left."""
    with registry.transaction() as write:
        count, first = write.execute("SELECT COUNT(*), MIN(id) FROM tokens").fetchone()
        if count:
            raise InvalidArgumentError(
                f"the server has {count} token{'s' if count > 1 else ''}, such as {first}; end each with "
                "`quantide token revoke` before you let everyone in"
            )
        registry.set_closed(write, False)


def cookie_name(secure: bool) -> str:
    """Return the cookie's name; browsers accept the prefix __Host- only from this very host, over https."""
    return "__Host-quantide" if secure else "quantide"


def open_session(registry: ServerRegistry, identity: Identity, now: float) -> tuple[str, float]:
    """Open a session; return its secret and its end, which is at the latest that of the token."""
    secret = secrets.token_urlsafe(32)
    with registry.transaction() as write:
        write.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
        write.execute(
            "INSERT INTO sessions SELECT ?, id, MIN(?, COALESCE(expires, ?)) FROM tokens WHERE id = ?",
            (hash_secret(secret), now + SESSION_SECONDS, now + SESSION_SECONDS, identity.id),
        )
        write.execute(
            "DELETE FROM sessions WHERE token = ? AND hash NOT IN "
            "(SELECT hash FROM sessions WHERE token = ? ORDER BY expires DESC, rowid DESC LIMIT ?)",
            (identity.id, identity.id, MAX_SESSIONS),
        )
        row = write.execute("SELECT expires FROM sessions WHERE hash = ?", (hash_secret(secret),)).fetchone()
    if row is None:
        raise TokenError(INVALID_TOKEN)  # revoked just now
    return secret, float(row[0])


def identify_session(registry: ServerRegistry, secret: str, now: float) -> Identity | None:
    """Return the identity of a session; None if it is unknown or has ended."""
    sql = (
        "SELECT tokens.id, tokens.name, tokens.role, tokens.streams "
        "FROM sessions JOIN tokens ON tokens.id = sessions.token "
        "WHERE sessions.hash = ? AND sessions.expires > ?"
    )
    if len(secret) > MAX_TOKEN:
        return None
    return next((Identity.of_row(row) for row in registry.rows(sql, (hash_secret(secret), now))), None)


def close_session(registry: ServerRegistry, secret: str) -> None:
    registry.write("DELETE FROM sessions WHERE hash = ?", (hash_secret(secret),))
