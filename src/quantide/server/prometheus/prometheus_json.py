"""JSON of the Prometheus API: results, times and values, and errors with their types."""

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from fastapi import Response

from quantide.errors import InvalidArgumentError
from quantide.server.http.response_json import error_body, error_status, json_response
from quantide.server.prometheus.promql_evaluation import SampleSeries
from quantide.server.prometheus.promql_tokens import read_duration

MAX_POINTS = 11_000  # of a series, as in Prometheus
MAX_TIME = 9_000_000_000  # seconds since 1970: nanoseconds since then are int64
LEAST_STEP = Decimal("0.001")  # seconds
ERROR_TYPES = {400: "bad_data", 404: "not_found", 500: "internal"}
DURATION = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+", re.ASCII)


def success(data: Any, warnings: list[str] | None = None) -> Response:
    return json_response({"status": "success", "data": data} | ({"warnings": warnings} if warnings else {}))


def failure(error: Exception) -> Response:
    """Return an error as Prometheus does; the message of an unexpected one is logged, not sent."""
    status, message = error_status(error), error_body(error)["error"]["message"]
    kind = ERROR_TYPES.get(status, "unavailable")
    return json_response({"status": "error", "errorType": kind, "error": message}, status)


def instant_result(result: float | list[SampleSeries], time: int) -> dict[str, Any]:
    """Return the value of a query at one time."""
    if isinstance(result, float):
        return {"resultType": "scalar", "result": [time / 1000, format_number(result)]}
    vector = [
        {"metric": series.labels, "value": [time / 1000, format_number(float(series.values[0]))]} for series in result
    ]
    return {"resultType": "vector", "result": vector}


def range_result(result: float | list[SampleSeries], times: list[int]) -> dict[str, Any]:
    """Return the values of a query at many times; a number is a series without labels."""
    seconds = [time / 1000 for time in times]
    if isinstance(result, float):
        text = format_number(result)
        return {"resultType": "matrix", "result": [{"metric": {}, "values": [[time, text] for time in seconds]}]}
    matrix = [
        {
            "metric": series.labels,
            "values": [
                [time, format_number(value)]
                for time, value, present in zip(seconds, series.values.tolist(), series.present.tolist(), strict=True)
                if present
            ],
        }
        for series in result
    ]
    return {"resultType": "matrix", "result": matrix}


def format_number(value: float) -> str:
    """Return a value as text.

    >>> format_number(2.0), format_number(0.25), format_number(float("inf"))
    ('2', '0.25', '+Inf')
    """
    if math.isfinite(value):
        return repr(value).removesuffix(".0")
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def read_time_ms(name: str, text: str) -> int:
    """Return a time in milliseconds, from seconds since 1970 or a time of RFC 3339.

    >>> read_time_ms("time", "1700000000.5"), read_time_ms("time", "2023-11-14T22:13:20Z")
    (1700000000500, 1700000000000)
    """
    seconds = _read_seconds(text)
    if seconds is None or abs(seconds) > MAX_TIME:
        raise InvalidArgumentError(
            f"{name} is {text[:40]!r}; write seconds since 1970, or a time such as 2026-01-31T12:00:00Z, before 2255"
        )
    return round(seconds * 1000)


def _read_seconds(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if len(text) <= 40 else Decimal("nan")
        return number if number.is_finite() else None
    except ArithmeticError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return Decimal((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())


def read_step(text: str) -> int:
    """Return a step in milliseconds, from seconds or a duration such as 15s."""
    if DURATION.fullmatch(text):
        return read_duration(text)
    try:
        seconds = Decimal(text) if len(text) <= 40 else Decimal("nan")
    except ArithmeticError:
        seconds = Decimal("nan")
    if not seconds.is_finite() or not LEAST_STEP <= seconds <= MAX_TIME:
        raise InvalidArgumentError(f"step is {text[:40]!r}; write seconds from 0.001 on, or a duration such as 15s")
    return round(seconds * 1000)


def list_times(start: int, end: int, step: int) -> list[int]:
    """Return the times of evaluation: start, start + step and so on, up to end."""
    if end < start:
        raise InvalidArgumentError("end is before start; exchange them")
    if (end - start) // step >= MAX_POINTS:
        raise InvalidArgumentError(f"a series of more than {MAX_POINTS:,} points; use a longer step or a shorter range")
    return list(range(start, end + 1, step))
