"""JSON encoding of values and answers: numbers where JSON has them, otherwise text."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TextIO

import numpy as np

from quantide.summary.answer import Answer
from quantide.summary.comparison import PROOFS, Comparison


def encode_value(value: Any) -> Any:
    """Return a value; infinities, times, durations and decimals as "inf", "2026-01-01T00:00:00", "1500 ms", "1.50"."""
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, np.timedelta64):
        return f"{int(value.astype(np.int64))} {np.datetime_data(value.dtype)[0]}"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (Decimal, bytes)):
        return str(value) if isinstance(value, Decimal) else value.hex()
    return value


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> count(1, "file"), count(1_000, "file")
    ('1 file', '1,000 files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def name_with_unit(name: str, unit: str | None) -> str:
    """Return the name of a column with the unit of its numbers.

    >>> name_with_unit("value", "ms"), name_with_unit("value", None)
    ('value (ms)', 'value')
    """
    return name if unit is None else f"{name} ({unit})"


def encode_key(key: Any) -> Any:
    """Return a key; a list if keys have several columns."""
    return [encode_value(part) for part in key] if isinstance(key, (tuple, list)) else encode_value(key)


def encode_answer(answer: Answer) -> dict[str, Any]:
    """Return an answer with its error bound; the caller adds what all answers to a query share."""
    return {
        "phi": answer.phi,
        "value": encode_value(answer.value),
        "rank_lo": answer.rank_lo,
        "rank_hi": answer.rank_hi,
        "target": answer.target,
        "n": answer.n,
        "error": answer.error,
    }


def encode_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the results of a comparison: every one has a proved low and high end, null where there is no bound."""
    shifts = [
        {"phi": phi} | encode_interval(shift) | {"is_above": PROOFS[comparison.is_above(phi)]}
        for phi, shift in comparison.shifts.items()
    ]
    return {
        "ks": encode_interval(comparison.ks),
        "psi": encode_interval(comparison.psi),
        "wasserstein": encode_interval(comparison.wasserstein),
        "shifts": shifts,
        "splits": [encode_value(split) for split in comparison.splits],
        "floor": comparison.floor,
    }


def encode_interval(interval: tuple[Any, Any]) -> dict[str, Any]:
    """Return the proved ends of an interval."""
    return {"low": encode_value(interval[0]), "high": encode_value(interval[1])}


def write_line(out: TextIO, body: dict[str, Any]) -> None:
    """Write a JSON document as one line, and flush."""
    out.write(json.dumps(body, allow_nan=False) + "\n")
    out.flush()
