"""Request parameters: the arguments of LiveStream.answer(), values, times and ids, as the API takes them."""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypedDict

import numpy as np

from quantide.errors import InvalidArgumentError, UnknownStreamError
from quantide.summary.value_column import read_column

STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
DURATION_UNITS = ("ns", "us", "ms", "s", "m", "h", "D", "W")  # of numpy; months and years have no fixed length
FINER_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "m"}  # numpy units whose text is not a full timestamp


class ScopeParameters(TypedDict, total=False):
    """Scope of a query: one key or all; everything, the last n values, a time span, or the last steps."""

    key: Any
    last: int | None
    within: Any
    filter: str | None
    last_steps: int | None


class TimedScopeParameters(ScopeParameters, total=False):
    """Scope with `now`, the end of a time window instead of the newest time."""

    now: Any


class QuantileParameters(TimedScopeParameters, total=False):
    """Scope with `mode`: "quick", "accurate" or "exact"."""

    mode: str | None


def query_string(arguments: Mapping[str, Any], allowed: type) -> dict[str, Any]:
    """Return the arguments as parameters of a URL.

    >>> query_string({"key": ("eu", 7), "within": "5 min", "mode": "exact"}, QuantileParameters)
    {'key': ['eu', '7'], 'window': 'within:5 min', 'mode': 'exact'}
    """
    given = _check_names(arguments, allowed)
    parameters: dict[str, Any] = {}
    if "key" in given:
        parameters["key"] = [_format_key_part(part) for part in split_key(given["key"])]
    if (window := format_window(given)) != "all":
        parameters["window"] = window
    parameters |= {name: given[name] for name in ("filter", "mode") if name in given}
    return parameters | ({"now": format_time(given["now"])} if "now" in given else {})


def scope_fields(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as fields of a JSON body.

    >>> scope_fields({"key": "/pay", "last": 1000})
    {'key': '/pay', 'window': 'last:1000'}
    """
    given = _check_names(arguments, ScopeParameters)
    fields: dict[str, Any] = {"key": encode_key(given["key"])} if "key" in given else {}
    if (window := format_window(given)) != "all":
        fields["window"] = window
    return fields | ({"filter": given["filter"]} if "filter" in given else {})


def reference_fields(arguments: Any) -> dict[str, Any]:
    """Return the window that an alarm compares with, as fields of a JSON body; None replaces the alarm's key or filter.

    >>> reference_fields({"key": None, "last_steps": 7})
    {'key': None, 'window': 'steps:7'}
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArgumentError(f'against={arguments!r} is not a window; give a dict, such as {{"last_steps": 7}}')
    replaced = {name: None for name in ("key", "filter") if name in arguments}
    return replaced | scope_fields(arguments)


def _check_names(arguments: Mapping[str, Any], allowed: type) -> dict[str, Any]:
    unknown = set(arguments) - set(allowed.__annotations__)
    if unknown:
        names = ", ".join(allowed.__annotations__)
        raise InvalidArgumentError(f"{min(unknown)}= is not a parameter here; use one of {names}")
    return {name: value for name, value in arguments.items() if value is not None}


# Windows and durations


def format_window(arguments: Mapping[str, Any]) -> str:
    """Return the window that the arguments choose, as text.

    >>> format_window({"within": 90}), format_window({"last_steps": 0}), format_window({})
    ('within:90 s', 'steps:0', 'all')
    >>> format_window({"last": 1000, "within": "5 min"})
    'last:1000,within:5 min'
    """
    given = [name for name in ("last", "within", "last_steps") if arguments.get(name) is not None]
    if "last_steps" in given:
        if len(given) > 1:
            raise InvalidArgumentError(
                "last_steps= selects history, last= and within= select recent values; give one of them"
            )
        return f"steps:{_check_count('last_steps', arguments['last_steps'], least=0)}"
    last = [f"last:{_check_count('last', arguments['last'])}"] if "last" in given else []
    within = [f"within:{format_duration(arguments['within'])}"] if "within" in given else []
    return ",".join(last + within) or "all"


def _check_count(name: str, number: Any, least: int = 1) -> int:
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, (int, np.integer)) or number < least:
        raise InvalidArgumentError(f"{name} must be a whole number of at least {least}, not {number!r}")
    return int(number)


def format_duration(duration: Any) -> str:
    if isinstance(duration, str):
        return duration
    if isinstance(duration, timedelta):
        return f"{duration // timedelta(microseconds=1)} us"
    if isinstance(duration, np.timedelta64):
        unit, multiple = np.datetime_data(duration.dtype)
        if unit in DURATION_UNITS and not np.isnat(duration):
            return f"{int(duration.astype(np.int64)) * multiple} {unit}"
    elif isinstance(duration, (int, float, np.integer, np.floating)) and not isinstance(duration, bool):
        return f"{_format_seconds(duration.item() if isinstance(duration, np.generic) else duration)} s"
    raise InvalidArgumentError(
        f'{duration!r} is not a length of time; give seconds, a timedelta, or text such as "5 min"'
    )


def _format_seconds(seconds: float) -> str:
    """Return a number without an exponent.

    >>> _format_seconds(1e-07), _format_seconds(300)
    ('0.0000001', '300')
    """
    if not math.isfinite(seconds):
        raise InvalidArgumentError(f"{seconds!r} is not a length of time")
    return format(Decimal(repr(seconds)), "f")


# Values and times


def format_value(value: Any) -> str:
    """Return a value as text that the server parses without loss.

    >>> format_value(0.1), format_value(np.float32(0.5)), format_value(Decimal("1.50"))
    ('0.1', '0.5', '1.50')
    >>> format_value(np.timedelta64(90, "s"))
    '90 s'
    >>> format_value(np.datetime64("2026-01-31T12")), format_value(np.datetime64("2026"))
    ('2026-01-31T12:00', '2026-01-01')
    """
    if isinstance(value, (date, np.datetime64, np.timedelta64)) or hasattr(value, "total_seconds"):
        return _format_temporal(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidArgumentError(f"{value!r} is not a value of a stream; give a number, a decimal, a time or text")
    if value != value:
        raise InvalidArgumentError("nan has no rank; give a number")
    return repr(value) if isinstance(value, float) else str(value)


def format_time(time: Any) -> str:
    """Return a time as a request has it: seconds, or a timestamp (in UTC if it has a zone)."""
    if isinstance(time, (bool, np.bool_)) or not isinstance(time, (int, float, str, np.generic, date)):
        raise InvalidArgumentError(f"{time!r} is not a time; give seconds, a datetime, or text")
    return format_value(time)


def format_threshold(value: Any) -> Any:
    """Return an alarm's threshold for a JSON body: a finite number as it is, anything else as text."""
    plain = (
        value.item()
        if isinstance(value, (np.integer, np.floating)) and not isinstance(value, np.timedelta64)
        else value
    )
    if value is None or (isinstance(plain, (int, float)) and not isinstance(plain, bool) and math.isfinite(plain)):
        return plain
    return format_value(plain)


def _format_temporal(value: Any) -> str:
    """Format through a value column, which handles zones and the nanoseconds of pandas."""
    if isinstance(value, np.datetime64) and not np.isnat(value):
        unit = np.datetime_data(value.dtype)[0]
        return str(value.astype(f"M8[{FINER_UNITS[unit]}]") if unit in FINER_UNITS else value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    column = read_column([value] if not isinstance(value, np.generic) else np.array([value]))
    if column.type is None or len(column) != 1 or not column.type.is_temporal:
        raise InvalidArgumentError(f"{value!r} is not a time; give a datetime or a timedelta that is not missing")
    temporal = column.type.restore(column.carried())[0]
    if temporal.dtype.kind == "M":
        return f"{temporal}Z" if "tz=" in column.type.name else str(temporal)
    return f"{int(temporal.astype(np.int64))} {np.datetime_data(temporal.dtype)[0]}"


# Keys, stream names and ids


def split_key(key: Any) -> tuple[Any, ...]:
    if isinstance(key, dict):
        raise InvalidArgumentError(
            f"the key {key!r} is a dict; give a tuple of its values in the order of stream(...)['key_columns']"
        )
    return tuple(key) if isinstance(key, (tuple, list)) else (key,)


def encode_key(key: Any) -> Any:
    """Return a key for a JSON body: a list if it has several parts."""
    parts = [part if part is None else _encode_key_part(part) for part in split_key(key)]
    return parts if isinstance(key, (tuple, list)) else parts[0]


def _encode_key_part(part: Any) -> Any:
    plain = part.item() if isinstance(part, (np.bool_, np.number)) and not isinstance(part, np.timedelta64) else part
    return plain if isinstance(plain, (str, int, float)) else _format_key_part(plain)


def _format_key_part(part: Any) -> str:
    if isinstance(part, (bool, np.bool_)):
        return "true" if part else "false"
    if part is None or isinstance(part, (bytes, np.bytes_)):
        raise InvalidArgumentError(f"the key {part!r} cannot be part of a URL; give text, a number or a time")
    return format_value(part)


def check_stream_name(name: Any) -> str:
    if not isinstance(name, str) or not STREAM_NAME.fullmatch(name):
        raise UnknownStreamError(f"{str(name)[:100]!r} is not the name of a stream; streams() lists them")
    return name


def check_id(id: Any) -> int:
    """Return the id of a continuous query or an alarm."""
    if isinstance(id, (bool, np.bool_)) or not isinstance(id, (int, np.integer)) or not 0 < id < 2**63:
        raise InvalidArgumentError(f"{id!r} is not an id; give a number that register() or alarm() returned")
    return int(id)


def check_ids(ids: Any) -> list[int]:
    """Return one id or several as a list.

    >>> check_ids(7), check_ids(range(3, 5)), check_ids(())
    ([7], [3, 4], [])
    """
    return [check_id(id) for id in (ids if hasattr(ids, "__iter__") else [ids])]
