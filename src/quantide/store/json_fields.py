"""Checked JSON: each value of a stored file is checked for type and range before anything is built from it.

A matching checksum does not prove that Quantide wrote a file: anyone with access to the folder can compute checksums.
So no number, name or length is trusted. Everything here raises ValueError; the parser of a file turns it into a
CorruptBytesError that names the file.
"""

import json
import math
import reprlib
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Read = Callable[[Any], T]

MAX_JSON = 1 << 26  # bytes
MAX_INT = 2**63 - 1
REPAIR = "run `quantide history repair PATH` on the folder of the store, or restore it from a copy"


def parse_json(text: str | bytes, limit: int = MAX_JSON) -> Any:
    """Parse strict JSON: bounded in size and depth, without NaN, Infinity and repeated names."""
    if len(text) > limit:
        raise ValueError(f"{len(text):,} bytes of JSON are more than the {limit:,} that are read")
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, parse_constant=_refuse_constant, object_pairs_hook=_build_object)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


class Fields:
    """Fields of a JSON object that have not been taken yet."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{reprlib.repr(value)} is not a JSON object")
        self._fields = dict(value)

    def take(self, name: str, read: Read[T]) -> T:
        """Return a required field."""
        if name not in self._fields:
            raise ValueError(f"it has no {name}")
        try:
            return read(self._fields.pop(name))
        except ValueError as error:
            raise ValueError(f"its {name}: {error}") from error

    def take_all(self, reads: Mapping[str, Read[Any]], optional: Container[str] = ()) -> dict[str, Any]:
        """Return all fields; those in `optional` may be missing; unknown fields are refused."""
        names = [name for name in reads if name in self._fields or name not in optional]
        values = {name: self.take(name, reads[name]) for name in names}
        if self._fields:
            raise ValueError(f"it has an unknown field {reprlib.repr(min(self._fields))}")
        return values


def integer(low: int = 0, high: int = MAX_INT) -> Read[int]:
    """Return a reader of whole numbers within a range."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{reprlib.repr(value)} is not a whole number from {low} to {high}")
        return value

    return read


def number(value: Any) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        raise ValueError(f"{reprlib.repr(value)} is not a finite number")
    return float(value)


def moment(clock: str | None) -> Read[Any]:
    """Return a reader of the times of a clock: seconds, or nanoseconds that fit into 64 bits."""
    return number if clock == "seconds" else integer(-MAX_INT, MAX_INT)


def text(value: Any) -> str:
    """Read text that can be encoded: no lone surrogates."""
    if not isinstance(value, str):
        raise ValueError(f"{reprlib.repr(value)} is not text")
    value.encode()
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{reprlib.repr(value)} is neither true nor false")
    return value


def one_of(choices: Container[str]) -> Read[str]:
    """Return a reader of one of several texts."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{reprlib.repr(value)} is not known")
        return value

    return read


def sequence(read: Read[T], limit: int = MAX_JSON) -> Read[tuple[T, ...]]:
    """Return a reader of lists of at most `limit` values."""

    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list) or len(value) > limit:
            raise ValueError(f"{reprlib.repr(value)} is not a list of at most {limit:,}")
        return tuple(read(item) for item in value)

    return read_all


def mapping(read: Read[T]) -> Read[dict[str, T]]:
    """Return a reader of objects whose values all have one type."""

    def read_all(value: Any) -> dict[str, T]:
        if not isinstance(value, dict):
            raise ValueError(f"{reprlib.repr(value)} is not a JSON object")
        return {text(name): read(item) for name, item in value.items()}

    return read_all


def optional(read: Read[T]) -> Read[T | None]:
    """Return a reader that also accepts null."""
    return lambda value: None if value is None else read(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name occurs twice in one JSON object")
    return fields
