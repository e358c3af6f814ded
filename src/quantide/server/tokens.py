"""Tokens: who may come in, and what each may do."""

import hashlib
import secrets
import time
from dataclasses import dataclass

from quantide.errors import InvalidArgumentError
from quantide.server.registry import Registry
from quantide.server.registry_file import IS_CLOSED

ROLES = ("reader", "writer", "admin")  # each may do all that those before it may
LONGEST_NAME = 100
LONGEST_TOKEN = 200


@dataclass(frozen=True, slots=True)
class Who:
    """Someone who asks: the id and the name of a token, and its role."""

    id: str
    name: str
    role: str

    def may(self, role: str) -> bool:
        """Whether this role, or one that needs less, was given."""
        return ROLES.index(self.role) >= ROLES.index(role)


LOCAL = Who("local", "local", "admin")
"""Everyone on this machine, for as long as there are no tokens."""
NOBODY = Who("nobody", "nobody", "reader")
"""Someone at a route that needs no token."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is remembered of a token; its secret is not. Times are seconds since 1970."""

    id: str
    name: str
    role: str
    created: float
    expires: float | None


def create_token(registry: Registry, name: str, role: str, expires: float | None = None) -> tuple[str, str]:
    """The id of a new token, and the token: it is shown this once, and nobody can find it out again."""
    if role not in ROLES:
        raise InvalidArgumentError(f"the role is {role[:40]!r}; write one of {', '.join(ROLES)}")
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidArgumentError(f"a token needs a name of 1 to {LONGEST_NAME} characters that can be printed")
    now = time.time()
    if expires is not None and not now < expires < float("inf"):
        raise InvalidArgumentError("the token would have expired already; let it expire later, or never")
    id = secrets.token_hex(4)
    token = f"qt_{id}_{secrets.token_urlsafe(32)}"
    with registry.change() as write:
        registry.set_closed(write, True)
        write.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", (id, name, role, hash_of(token), now, expires))
    return id, token


def list_tokens(registry: Registry) -> list[Token]:
    """All tokens, the oldest first; those that have expired are among them until they are revoked."""
    rows = registry.rows("SELECT id, name, role, created, expires FROM tokens ORDER BY created, id")
    return [Token(*row) for row in rows]


def revoke_token(registry: Registry, id: str) -> None:
    """A token that holds no longer, from the next request on; its sessions end with it."""
    if not registry.write("DELETE FROM tokens WHERE id = ?", (id,)):
        raise InvalidArgumentError(f"there is no token {id[:40]!r}; `quantide token list` shows those there are")


def hash_of(secret: str) -> bytes:
    """What is stored instead of a secret.

    A slow hash is for passwords, which can be guessed. 256 random bits cannot: SHA-256 is enough, and each request
    can afford it. Secrets are looked up by their hash, so how long that takes tells nothing about a secret.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def who_has(registry: Registry, token: str, now: float) -> Who | None:
    """Whose token this is; nobody's when it is unknown, was revoked, or has expired."""
    if len(token) > LONGEST_TOKEN:
        return None
    sql = "SELECT id, name, role FROM tokens WHERE hash = ? AND (expires IS NULL OR expires > ?)"
    return next((Who(*row) for row in registry.rows(sql, (hash_of(token), now))), None)


def are_needed(registry: Registry) -> bool:
    """Return True once a token was created, also when all have expired or are revoked, until allow_anonymous()."""
    return bool(registry.rows(f"SELECT ({IS_CLOSED}) OR EXISTS (SELECT 1 FROM tokens)")[0][0])


def count_valid(registry: Registry, now: float) -> int:
    """Return the number of tokens that have not expired."""
    return int(registry.rows("SELECT COUNT(*) FROM tokens WHERE expires IS NULL OR expires > ?", (now,))[0][0])


def allow_anonymous(registry: Registry) -> None:
    """Let everyone on this machine in without a token when the server starts again; raise if a token is left."""
    with registry.change() as write:
        left = write.execute("SELECT COUNT(*), MIN(id) FROM tokens").fetchone()
        if left[0]:
            raise InvalidArgumentError(
                f"the server has {left[0]} token{'s' if left[0] > 1 else ''}, such as {left[1]}; end each with "
                "`quantide token revoke` before you let everyone in"
            )
        registry.set_closed(write, False)
