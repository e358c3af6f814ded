"""Route of pushed rows: a request adds rows to a stream whose source is "push"."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from quantide.errors import InvalidArgumentError
from quantide.server.http.request_limits import PUSH_TYPES, read_content_type
from quantide.server.http.response_json import json_response
from quantide.server.push.stream_pusher import MAX_KEY, StreamPusher
from quantide.server.service import Service

KEY_TEXT = "A text that identifies the request, such as a UUID: a repeat with the same key adds nothing."
EXAMPLE = {"value": 12.5, "endpoint": "/pay", "time": "2026-01-01T00:00:00Z"}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            name: {"schema": {"type": "object"}, "example": EXAMPLE}
            if name == "application/json"
            else {"schema": {"type": "string", "format": "binary"}}
            for name in PUSH_TYPES
        },
    }
}


class PushParameters(BaseModel):
    """Identity of a request, where a header cannot be sent."""

    model_config = ConfigDict(extra="forbid")

    idempotency_key: str | None = Field(None, description=f"{KEY_TEXT} As the header.", max_length=MAX_KEY)


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api/streams", tags=["push"])

    @router.post("/{stream}/rows", status_code=201, summary="Add rows to a push stream", openapi_extra=BODY)
    async def push(
        request: Request,
        stream: str,
        parameters: Annotated[PushParameters, Query()],
        idempotency_key: Annotated[str | None, Header(description=KEY_TEXT, max_length=MAX_KEY)] = None,
    ) -> Response:
        pusher = find_pusher(service, stream)
        given = [key for key in (idempotency_key, parameters.idempotency_key) if key is not None]
        if len(set(given)) > 1:
            raise InvalidArgumentError("the header Idempotency-Key and idempotency_key= differ; send one of them")
        body = await request.body()
        content_type = read_content_type(request.headers.get("content-type", "").encode("latin-1")) or ""
        table = await service.compute(lambda: pusher.read_body(content_type, body))
        id, rows = await pusher.add(table, given[0] if given else None)
        return json_response({"stream": stream, "rows": rows, "id": id}, 201)

    return router


def find_pusher(service: Service, stream: str) -> StreamPusher:
    """Return the pusher of a stream; raise if it is unknown, or has another source."""
    service.streams.check_name(stream)
    pusher = service.pushers.get(stream)
    if pusher is None:
        raise InvalidArgumentError(
            f'the stream {stream} is not a push stream: rows come from its source. Configure source = "push" to push'
        )
    return pusher
