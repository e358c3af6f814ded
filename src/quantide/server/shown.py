"""How values and answers look in a response: as everywhere, and as bytes."""

from typing import Any

import orjson
from fastapi import Response

from quantide.live.answer import LiveAnswer
from quantide.summary import shown
from quantide.summary.answer import Answer
from quantide.summary.shown import key, value

__all__ = ["answer", "json", "key", "value"]


def answer(found: Answer) -> dict[str, Any]:
    """An answer with its certificate; what it covers is said once for all answers to a question."""
    return shown.answer(found) | ({"blocks_read": found.blocks_read} if isinstance(found, LiveAnswer) else {})


def json(body: Any, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(orjson.dumps(body), status, media_type="application/json")
