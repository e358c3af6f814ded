"""Lists: Python's own values, which have no fixed type, as Arrow arrays that lose nothing of them."""

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import TypeMismatchError
from quantide.summary.types import FLOATS, INTEGERS, SUPPORTED, ValueType, type_of_arrow


def arrow_of(values: list[Any], expected: ValueType | None) -> pa.Array:
    """Python's own numbers have no fixed type: they take the expected one when no value changes by it."""
    array = _as_arrow(values)
    if expected is None or array.null_count == len(array):
        return array
    kind = type_of_arrow(array.type)
    return array if kind == expected else _cast_exactly(array, kind, expected)


def _cast_exactly(array: pa.Array, kind: ValueType, expected: ValueType) -> pa.Array:
    """The same values in another type; refused when any of them would change."""
    plain = (*FLOATS, *INTEGERS)
    try:
        if expected.name in plain and kind.name in plain:
            cast = array.cast(expected.arrow, safe=False)
            back = cast.cast(array.type, safe=False)
            same = pc.or_(pc.equal(back, array), pc.and_(_is_nan(back), _is_nan(array)))
            if pc.all(same).as_py():
                return cast
        elif expected.is_decimal and (kind.is_decimal or kind.name in INTEGERS):
            return array.cast(pa.decimal128(38, expected.scale)).cast(expected.arrow)
        elif kind.family == expected.family and ("tz=" in kind.name) == ("tz=" in expected.name):
            return array.cast(expected.arrow)
    except pa.ArrowException as error:
        raise mismatch(f"{kind} such as {shown_values(array.to_pylist())}", expected) from error
    raise mismatch(f"{kind} such as {shown_values(array.to_pylist())}", expected)


def _is_nan(array: pa.Array) -> pa.Array:
    return pc.is_nan(array) if pa.types.is_floating(array.type) else pa.repeat(False, len(array))


def _as_arrow(values: list[Any]) -> pa.Array:
    """A list as Arrow reads it, less what Arrow would read without a word: booleans, nested lists, lost nanoseconds."""
    types = {type(x) for x in values if x is not None}
    if types & {bool, np.bool_}:
        raise TypeMismatchError(f"cannot read values from {shown_values(values)}: True and False have no rank")
    if any(issubclass(kind, (list, tuple, dict, set, str, bytes)) for kind in types):
        raise TypeMismatchError(f"cannot read values from {shown_values(values)}; supported are {SUPPORTED}")
    try:
        if types and all(kind.__module__.startswith("pandas.") for kind in types):
            return _arrow_of_pandas(values)
        zones = {x.tzinfo is None for x in values if isinstance(x, datetime)}
        if len(zones) > 1:
            raise TypeMismatchError("times with and without a zone are mixed; give all of them one, or none")
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(
            f"cannot read values from {shown_values(values)}: {error}; supported are {SUPPORTED}"
        ) from error


def _arrow_of_pandas(values: list[Any]) -> pa.Array:
    """Timestamp and Timedelta count nanoseconds, which Arrow drops unless told."""
    some = [None if x is None or x != x else x for x in values]
    first = next((x for x in some if x is not None), None)
    if first is None:
        return pa.nulls(len(some))
    counted = pa.array([x if x is None else x.as_unit("ns").value for x in some], pa.int64())
    if type(first).__name__ == "Timedelta":
        return counted.cast(pa.duration("ns"))
    zone = str(first.tz) if first.tz is not None else None
    if any(x is not None and (x.tz is None) != (zone is None) for x in some):
        raise TypeMismatchError("times with and without a zone are mixed; give all of them one, or none")
    return counted.cast(pa.timestamp("ns", tz=zone))


def mismatch(found: str, expected: ValueType) -> TypeMismatchError:
    return TypeMismatchError(
        f"values of type {found} do not fit among {expected} values; cast them to {expected} first"
    )


def shown_values(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."
