"""Routes of sessions and tokens."""

import time
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import TokenError
from quantide.server.http.response_json import format_time, json_response
from quantide.server.http.tokens import (
    INVALID_TOKEN,
    MAX_TOKEN,
    Identity,
    Token,
    close_session,
    cookie_name,
    identify_token,
    list_tokens,
    open_session,
    revoke_token,
)
from quantide.server.service import Service


class SessionRequest(BaseModel):
    """Token that opens a session."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    token: str = Field(max_length=MAX_TOKEN)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["access"])
    registry, secure = service.registry, service.config.server.secure
    name = cookie_name(secure)
    cookie: dict[str, Any] = {"path": "/", "secure": secure, "httponly": True, "samesite": "strict"}

    @router.post("/session", summary="Open a session: exchange a token for a cookie")
    async def post(body: SessionRequest) -> Response:
        now = time.time()
        identity = identify_token(service.loop_registry, body.token, now)  # an invalid token occupies no thread
        if identity is None:
            raise TokenError(INVALID_TOKEN)
        secret, expires = await service.compute(lambda: open_session(registry, identity, now))
        response = json_response(encode_identity(identity))
        response.set_cookie(name, secret, max_age=int(expires - now), **cookie)
        return response

    @router.get("/session", summary="Your name and role on this server")
    async def get(request: Request) -> Response:
        return json_response(encode_identity(request.state.identity))

    @router.delete("/session", summary="End the session of the cookie", status_code=204)
    async def delete(request: Request) -> Response:
        secret = request.cookies.get(name)
        if secret is not None:
            await service.compute(lambda: close_session(registry, secret))
        response = Response(status_code=204)
        response.delete_cookie(name, **cookie)
        return response

    @router.get("/tokens", summary="All tokens, without their secrets; `quantide token create` creates them")
    async def tokens() -> Response:
        listed = await service.compute(lambda: list_tokens(registry))
        return json_response({"tokens": [encode_token(token) for token in listed]})

    @router.delete("/tokens/{id}", summary="Revoke a token and end its sessions", status_code=204)
    async def revoke(id: str) -> Response:
        await service.compute(lambda: revoke_token(registry, id))
        return Response(status_code=204)

    return router


def encode_identity(identity: Identity | Token) -> dict[str, Any]:
    streams = None if identity.streams is None else sorted(identity.streams)
    return {"id": identity.id, "name": identity.name, "role": identity.role, "streams": streams}


def encode_token(token: Token) -> dict[str, Any]:
    expires = None if token.expires is None else format_time(token.expires)
    return encode_identity(token) | {"created": format_time(token.created), "expires": expires}
