"""Problems: what goes wrong, as a status and a body that programs can read."""

from typing import Any

from quantide import errors
from quantide.errors import QuantideError

STATUS: dict[type[QuantideError], int] = {
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
    errors.CorruptBytesError: 500,
    errors.StorageError: 503,
    errors.NotReadyError: 503,
}


class Problem(Exception):
    """Something about the request itself, that no error of the library names: the host, the body, the route."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


PROBLEMS: dict[str, int] = {
    "not_found": 404,
    "method_not_allowed": 405,
    "too_large": 413,
    "not_json": 415,
    "wrong_host": 421,
    "wrong_origin": 403,
    "timeout": 408,
    "internal": 500,
}


def problem(code: str, message: str) -> Problem:
    return Problem(PROBLEMS[code], code, message)


def status_of(error: Exception) -> int:
    if isinstance(error, Problem):
        return error.status
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def body_of(error: Exception) -> dict[str, Any]:
    """{"error": {"code", "message"}}: the message of what is not foreseen stays in the log."""
    if isinstance(error, (Problem, QuantideError)):
        return {"error": {"code": error.code, "message": str(error)}}
    return {"error": {"code": "internal", "message": "the server failed at this; its log says why"}}
