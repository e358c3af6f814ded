"""Fields: JSON that lies in a store, each value checked for type and range before anything is built from it.

A checksum proves that a file is as somebody wrote it. Whoever can write into the folder can compute checksums too, so
no number, name or length is trusted because its checksum matches. Everything here raises ValueError; the parser of a
file turns it into a CorruptBytesError that names the file.
"""

import json
import math
import reprlib
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Read = Callable[[Any], T]

MOST_JSON = 1 << 26  # bytes of one JSON text
MOST_INT = 2**63 - 1
REPAIR = "run `quantide history repair PATH` on the folder of the store, or restore it from a copy"


def parse_json(text: str | bytes, most: int = MOST_JSON) -> Any:
    """Parse strict JSON: bounded in size and depth, without NaN, Infinity and repeated names."""
    if len(text) > most:
        raise ValueError(f"{len(text):,} bytes of JSON are more than the {most:,} that are read")
    try:
        plain = text if isinstance(text, str) else text.decode()
        return json.loads(plain, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


class Fields:
    """The fields of a JSON object."""

    def __init__(self, found: Any) -> None:
        if not isinstance(found, dict):
            raise ValueError(f"{reprlib.repr(found)} is not a JSON object")
        self._left = dict(found)

    def take(self, name: str, read: Read[T]) -> T:
        """Return a field that must be there."""
        if name not in self._left:
            raise ValueError(f"it has no {name}")
        try:
            return read(self._left.pop(name))
        except ValueError as error:
            raise ValueError(f"its {name}: {error}") from error

    def take_all(self, reads: Mapping[str, Read[Any]], optional: Container[str] = ()) -> dict[str, Any]:
        """Return all fields; those in `optional` may be missing, and any other field is refused."""
        names = [name for name in reads if name in self._left or name not in optional]
        found = {name: self.take(name, reads[name]) for name in names}
        if self._left:
            raise ValueError(f"it has an unknown field {reprlib.repr(min(self._left))}")
        return found


def integer(low: int = 0, high: int = MOST_INT) -> Read[int]:
    """Read a whole number within a range."""

    def read(found: Any) -> int:
        if isinstance(found, bool) or not isinstance(found, int) or not low <= found <= high:
            raise ValueError(f"{reprlib.repr(found)} is not a whole number from {low} to {high}")
        return found

    return read


def number(found: Any) -> float:
    """Read a finite number."""
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not _is_finite(found):
        raise ValueError(f"{reprlib.repr(found)} is not a finite number")
    return float(found)


def moment(clock: str | None) -> Read[Any]:
    """Read a time of a clock: seconds, or nanoseconds that fit 64 bits."""
    return number if clock == "seconds" else integer(-MOST_INT, MOST_INT)


def text(found: Any) -> str:
    """Read text that can be written again: no half of a surrogate pair."""
    if not isinstance(found, str):
        raise ValueError(f"{reprlib.repr(found)} is not text")
    found.encode()
    return found


def boolean(found: Any) -> bool:
    if not isinstance(found, bool):
        raise ValueError(f"{reprlib.repr(found)} is neither true nor false")
    return found


def one_of(known: Container[str]) -> Read[str]:
    """Read one of some words."""

    def read(found: Any) -> str:
        if not isinstance(found, str) or found not in known:
            raise ValueError(f"{reprlib.repr(found)} is not known")
        return found

    return read


def sequence(read: Read[T], most: int = MOST_JSON) -> Read[tuple[T, ...]]:
    """Read a list of at most so many values of one kind."""

    def read_all(found: Any) -> tuple[T, ...]:
        if not isinstance(found, list) or len(found) > most:
            raise ValueError(f"{reprlib.repr(found)} is not a list of at most {most:,}")
        return tuple(read(one) for one in found)

    return read_all


def mapping(read: Read[T]) -> Read[dict[str, T]]:
    """Read an object whose values are of one kind."""

    def read_all(found: Any) -> dict[str, T]:
        if not isinstance(found, dict):
            raise ValueError(f"{reprlib.repr(found)} is not a JSON object")
        return {text(name): read(value) for name, value in found.items()}

    return read_all


def optional(read: Read[T]) -> Read[T | None]:
    """Read a value, or null."""
    return lambda found: None if found is None else read(found)


def _is_finite(found: float) -> bool:
    try:
        return math.isfinite(found)
    except OverflowError:  # a whole number beyond every float
        return False


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one JSON object")
    return found
