"""How values and answers look as JSON: numbers where JSON has them, text where it has not."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TextIO

import numpy as np

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
    return [value(part) for part in found] if isinstance(found, (tuple, list)) else value(found)


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
    }


def write_line(out: TextIO, body: dict[str, Any]) -> None:
    """A document of JSON on a line of its own, seen at once by whoever reads along."""
    out.write(json.dumps(body, allow_nan=False) + "\n")
    out.flush()
