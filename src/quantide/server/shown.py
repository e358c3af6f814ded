"""How values and answers look in a response: as everywhere, and as bytes."""

from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Response

from quantide.live.answer import LiveAnswer
from quantide.summary import shown
from quantide.summary.answer import Answer
from quantide.summary.shown import key, value

__all__ = ["answer", "json", "key", "moment", "value"]


def answer(found: Answer) -> dict[str, Any]:
    """An answer with its certificate; what it covers is said once for all answers to a question."""
    return shown.answer(found) | ({"blocks_read": found.blocks_read} if isinstance(found, LiveAnswer) else {})


def moment(seconds: float) -> str:
    """A time of the server's clock: "2026-01-01T00:00:00Z"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def json(body: Any, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(orjson.dumps(body), status, media_type="application/json")
