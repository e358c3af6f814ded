"""JSON of responses: answers, values and times, and the problem details of every error response."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Response

from quantide import errors
from quantide.errors import QuantideError
from quantide.live.live_view import LiveAnswer
from quantide.summary import value_json
from quantide.summary.answer import Answer
from quantide.summary.value_json import encode_key, encode_value

__all__ = [
    "ERROR_STATUS",
    "PROBLEM_STATUS",
    "Problem",
    "encode_answer",
    "encode_key",
    "encode_value",
    "error_body",
    "error_status",
    "format_time",
    "json_response",
]

ERROR_STATUS: dict[type[QuantideError], int] = {
    errors.InvalidArgumentError: 400,
    errors.TypeMismatchError: 400,
    errors.NaNError: 400,
    errors.SpanError: 400,
    errors.TooCoarseError: 400,
    errors.TokenError: 401,
    errors.ForbiddenError: 403,
    errors.EmptyError: 404,
    errors.UnknownKeyError: 404,
    errors.UnknownQueryError: 404,
    errors.UnknownStreamError: 404,
    errors.UnknownAlarmError: 404,
    errors.LimitError: 429,
    errors.BacklogError: 429,
    errors.CorruptBytesError: 500,
    errors.StorageError: 503,
    errors.NoStoreError: 503,
    errors.AccessRefusedError: 503,
    errors.DiskFullError: 507,
    errors.NotReadyError: 503,
}
PROBLEM_STATUS: dict[str, int] = {
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "not_json": 415,
    "not_form": 415,
    "not_rows": 415,
    "wrong_host": 421,
    "wrong_origin": 403,
    "timeout": 408,
    "internal": 500,
}


def encode_answer(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer with its rank bounds; routes add the span it covers."""
    return value_json.encode_answer(answer) | (
        {"blocks_read": answer.blocks_read, "requests": answer.requests} if isinstance(answer, LiveAnswer) else {}
    )


def format_time(seconds: float) -> str:
    """Format a time of the server's clock: "2026-01-01T00:00:00Z"."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def json_response(body: Any, status: int = 200) -> Response:
    try:
        content = orjson.dumps(body)
    except orjson.JSONEncodeError:  # a whole number beyond 64 bits, such as the difference of two int64
        content = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(content, status, media_type="application/json")


class Problem(Exception):
    """Error of the request itself, which no error of the library describes: its host, its body, its route."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, PROBLEM_STATUS[code]


def error_status(error: Exception) -> int:
    if isinstance(error, Problem):
        return error.status
    return next((ERROR_STATUS[kind] for kind in type(error).__mro__ if kind in ERROR_STATUS), 500)


def error_body(error: Exception) -> dict[str, Any]:
    """Return {"error": {"code", "message"}}; the message of an unexpected error is logged, not sent."""
    if isinstance(error, (Problem, QuantideError)):
        return {"error": {"code": error.code, "message": str(error)}}
    return {"error": {"code": "internal", "message": "the request failed in the server; see the server's log"}}
