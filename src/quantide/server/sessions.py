"""Sessions: a browser shows its token once and gets a cookie, since pages cannot send a token with an event stream."""

import secrets
import time
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import TokenError
from quantide.server import shown
from quantide.server.registry import Registry
from quantide.server.service import Service
from quantide.server.tokens import LONGEST_TOKEN, Who, hash_of, list_tokens, revoke_token, who_has

LASTS = 12 * 3600.0  # seconds
NOT_ONE = "this is not a token that holds; `quantide token create` makes one"
MOST = 100  # sessions of one token; the oldest ends when there are more


class Shown(BaseModel):
    """A token that is shown to begin a session."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    token: str = Field(max_length=LONGEST_TOKEN)


def cookie_name(secure: bool) -> str:
    """With this beginning, browsers take the cookie only from this very host, over https."""
    return "__Host-quantide" if secure else "quantide"


def begin(registry: Registry, who: Who, now: float) -> tuple[str, float]:
    """The secret of a new session, and when it ends: with the token, if that is sooner."""
    secret = secrets.token_urlsafe(32)
    with registry.change() as write:
        write.execute("DELETE FROM sessions WHERE expires <= ?", (now,))
        write.execute(
            "INSERT INTO sessions SELECT ?, id, MIN(?, COALESCE(expires, ?)) FROM tokens WHERE id = ?",
            (hash_of(secret), now + LASTS, now + LASTS, who.id),
        )
        write.execute(
            "DELETE FROM sessions WHERE token = ? AND hash NOT IN "
            "(SELECT hash FROM sessions WHERE token = ? ORDER BY expires DESC, rowid DESC LIMIT ?)",
            (who.id, who.id, MOST),
        )
        ends = write.execute("SELECT expires FROM sessions WHERE hash = ?", (hash_of(secret),)).fetchone()
    if ends is None:
        raise TokenError(NOT_ONE)  # revoked just now
    return secret, float(ends[0])


def who_in(registry: Registry, secret: str, now: float) -> Who | None:
    """Whose session this is, while it lasts."""
    sql = (
        "SELECT tokens.id, tokens.name, tokens.role FROM sessions JOIN tokens ON tokens.id = sessions.token "
        "WHERE sessions.hash = ? AND sessions.expires > ?"
    )
    if len(secret) > LONGEST_TOKEN:
        return None
    return next((Who(*row) for row in registry.rows(sql, (hash_of(secret), now))), None)


def end(registry: Registry, secret: str) -> None:
    registry.write("DELETE FROM sessions WHERE hash = ?", (hash_of(secret),))


def shown_who(who: Who) -> dict[str, Any]:
    return {"id": who.id, "name": who.name, "role": who.role}


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["access"])
    registry, secure = service.registry, service.config.server.secure
    name = cookie_name(secure)
    cookie: dict[str, Any] = {"path": "/", "secure": secure, "httponly": True, "samesite": "strict"}

    @router.post("/session", summary="Begin a session: a token for a cookie")
    async def post(shown_token: Shown) -> Response:
        now = time.time()
        who = who_has(service.reads, shown_token.token, now)  # whoever has no token keeps no thread busy
        if who is None:
            raise TokenError(NOT_ONE)
        secret, ends = await service.ask(lambda: begin(registry, who, now))
        response = shown.json(shown_who(who))
        response.set_cookie(name, secret, max_age=int(ends - now), **cookie)
        return response

    @router.get("/session", summary="Who one is here, and with which role")
    async def get(request: Request) -> Response:
        return shown.json(shown_who(request.state.who))

    @router.delete("/session", summary="End the session of the cookie", status_code=204)
    async def delete(request: Request) -> Response:
        secret = request.cookies.get(name)
        if secret is not None:
            await service.ask(lambda: end(registry, secret))
        response = Response(status_code=204)
        response.delete_cookie(name, **cookie)
        return response

    @router.get("/tokens", summary="All tokens, without their secrets; `quantide token create` makes them")
    async def tokens() -> Response:
        found = await service.ask(lambda: list_tokens(registry))
        return shown.json(
            {"tokens": [shown_who(Who(one.id, one.name, one.role)) | _times(one.created, one.expires) for one in found]}
        )

    @router.delete("/tokens/{id}", summary="Revoke a token: it and its sessions hold no longer", status_code=204)
    async def revoke(id: str) -> Response:
        await service.ask(lambda: revoke_token(registry, id))
        return Response(status_code=204)

    return router


def _times(created: float, expires: float | None) -> dict[str, Any]:
    return {"created": shown.moment(created), "expires": None if expires is None else shown.moment(expires)}
