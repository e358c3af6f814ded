"""How values and answers look as JSON: numbers where JSON has them, text where it has not."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
from fastapi import Response

from quantide.live.answer import LiveAnswer
from quantide.summary.answer import Answer


def value(found: Any) -> Any:
    """A value: infinities, times, durations and decimals as text, "inf", "2026-01-01T00:00:00", "1500 ms", "1.50"."""
    if isinstance(found, np.datetime64):
        return str(found)
    if isinstance(found, np.timedelta64):
        return f"{int(found.astype(np.int64))} {np.datetime_data(found.dtype)[0]}"
    if isinstance(found, np.generic):
        found = found.item()
    if isinstance(found, float):
        return found if math.isfinite(found) else str(found)
    if isinstance(found, (datetime, date)):
        return found.isoformat()
    if isinstance(found, (Decimal, bytes)):
        return str(found) if isinstance(found, Decimal) else found.hex()
    return found


def key(found: Any) -> Any:
    """A key: a list where keys have several columns."""
    return [value(part) for part in found] if isinstance(found, tuple) else value(found)


def answer(found: Answer) -> dict[str, Any]:
    """An answer with its certificate; what it covers is said once for all answers to a question."""
    return {
        "phi": found.phi,
        "value": value(found.value),
        "rank_lo": found.rank_lo,
        "rank_hi": found.rank_hi,
        "target": found.target,
        "n": found.n,
        "error": found.error,
    } | ({"blocks_read": found.blocks_read} if isinstance(found, LiveAnswer) else {})


def moment(seconds: float) -> str:
    """A time of the server's clock: "2026-01-01T00:00:00Z"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def json(body: Any, status: int = 200) -> Response:
    """A response of JSON."""
    return Response(orjson.dumps(body), status, media_type="application/json")
