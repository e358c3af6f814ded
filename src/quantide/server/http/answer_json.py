"""JSON of responses: answers, values, keys and times."""

from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Response

from quantide.live.live_view import LiveAnswer
from quantide.summary import value_json
from quantide.summary.answer import Answer
from quantide.summary.value_json import encode_key, encode_value

__all__ = ["encode_answer", "encode_key", "encode_value", "format_time", "json_response"]


def encode_answer(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer with its rank bounds; routes add the span it covers."""
    return value_json.encode_answer(answer) | (
        {"blocks_read": answer.blocks_read} if isinstance(answer, LiveAnswer) else {}
    )


def format_time(seconds: float) -> str:
    """Format a time of the server's clock: "2026-01-01T00:00:00Z"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def json_response(body: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(body), status, media_type="application/json")
