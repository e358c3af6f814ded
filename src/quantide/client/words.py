"""The words of a question, as LiveStream.answer() takes them, turned into those of a request."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

import numpy as np

from quantide.client.values import number_text, text_of, time_text
from quantide.errors import InvalidArgumentError, UnknownStreamError

STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
UNITS = ("ns", "us", "ms", "s", "m", "h", "D", "W")  # of numpy; months and years have no fixed length


class Words(TypedDict, total=False):
    """What is asked about: of a key or of all; everything, the last n values, a span of time, the last steps."""

    key: Any
    last: int | None
    within: Any
    filter: str | None
    last_steps: int | None


class TimedWords(Words, total=False):
    """`now` is where a window of time ends, instead of the newest time."""

    now: Any


class AskedWords(TimedWords, total=False):
    """`mode` is "quick", "accurate" or "exact"."""

    mode: str | None


def parameters(words: Mapping[str, Any], known: type) -> dict[str, Any]:
    """These words as parameters of an address.

    >>> parameters({"key": ("eu", 7), "within": "5 min", "mode": "exact"}, AskedWords)
    {'key': ['eu', '7'], 'window': 'within:5 min', 'mode': 'exact'}
    """
    said = _said(words, known)
    found: dict[str, Any] = {}
    if "key" in said:
        found["key"] = [_part_text(part) for part in key_parts(said["key"])]
    if (window := window_of(said)) != "all":
        found["window"] = window
    found |= {name: said[name] for name in ("filter", "mode") if name in said}
    return found | ({"now": time_text(said["now"])} if "now" in said else {})


def body_of(words: Mapping[str, Any]) -> dict[str, Any]:
    """These words as a part of a body in JSON.

    >>> body_of({"key": "/pay", "last": 1000})
    {'key': '/pay', 'window': 'last:1000'}
    """
    said = _said(words, Words)
    found: dict[str, Any] = {"key": key_json(said["key"])} if "key" in said else {}
    if (window := window_of(said)) != "all":
        found["window"] = window
    return found | ({"filter": said["filter"]} if "filter" in said else {})


def window_of(words: Mapping[str, Any]) -> str:
    """The window that some words name, as text.

    >>> window_of({"within": 90}), window_of({"last_steps": 7}), window_of({})
    ('within:90 s', 'steps:7', 'all')
    >>> window_of({"last": 1000, "within": "5 min"})
    'last:1000,within:5 min'
    """
    named = [name for name in ("last", "within", "last_steps") if words.get(name) is not None]
    if "last_steps" in named:
        if len(named) > 1:
            raise InvalidArgumentError("last_steps= is about history, last= and within= about recent values; say one")
        return f"steps:{_count('last_steps', words['last_steps'])}"
    last = [f"last:{_count('last', words['last'])}"] if "last" in named else []
    within = [f"within:{span_text(words['within'])}"] if "within" in named else []
    return ",".join(last + within) or "all"


def key_parts(key: Any) -> tuple[Any, ...]:
    if isinstance(key, dict):
        raise InvalidArgumentError(
            f"the key {key!r} is a dict; give a tuple of its values in the order that stream(...)['key_columns'] has"
        )
    return tuple(key) if isinstance(key, (tuple, list)) else (key,)


def key_json(key: Any) -> Any:
    """A key in a body: a list where it has several parts."""
    parts = [part if part is None else _part_json(part) for part in key_parts(key)]
    return parts if isinstance(key, (tuple, list)) else parts[0]


def stream_name(name: Any) -> str:
    if not isinstance(name, str) or not STREAM.fullmatch(name):
        raise UnknownStreamError(f"{str(name)[:100]!r} is not the name of a stream; streams() lists those there are")
    return name


def read_key(shown: Any) -> Any:
    """A key of a response: a tuple where keys have several columns."""
    return tuple(shown) if isinstance(shown, list) else shown


def _said(words: Mapping[str, Any], known: type) -> dict[str, Any]:
    unknown = set(words) - set(known.__annotations__)
    if unknown:
        there_are = ", ".join(known.__annotations__)
        raise InvalidArgumentError(f"{min(unknown)}= is not a word here; there are {there_are}")
    return {name: value for name, value in words.items() if value is not None}


def _part_json(part: Any) -> Any:
    plain = part.item() if isinstance(part, (np.bool_, np.number)) and not isinstance(part, np.timedelta64) else part
    return plain if isinstance(plain, (str, int, float)) else _part_text(plain)


def _part_text(part: Any) -> str:
    if isinstance(part, (bool, np.bool_)):
        return "true" if part else "false"
    if part is None or isinstance(part, (bytes, np.bytes_)):
        raise InvalidArgumentError(f"the key {part!r} cannot be said in an address; give text, a number or a time")
    return text_of(part)


def _count(name: str, number: Any) -> int:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)) or number < 1:
        raise InvalidArgumentError(f"{name} must be a whole number of at least 1, not {number!r}")
    return int(number)


def span_text(span: Any) -> str:
    if isinstance(span, str):
        return span
    if isinstance(span, timedelta):
        return f"{span // timedelta(microseconds=1)} us"
    if isinstance(span, np.timedelta64):
        unit, each = np.datetime_data(span.dtype)
        if unit in UNITS and not np.isnat(span):
            return f"{int(span.astype(np.int64)) * each} {unit}"
    elif isinstance(span, (int, float, np.integer, np.floating)) and not isinstance(span, bool):
        return f"{number_text(span.item() if isinstance(span, np.generic) else span)} s"
    raise InvalidArgumentError(f'{span!r} is not a length of time; give seconds, a timedelta, or text such as "5 min"')
