"""Keys of appended values: one for all, one for each value, or several columns; always as one Arrow array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError, TypeMismatchError, UnknownKeyError
from quantide.history.run import Key
from quantide.summary.key_encoding import check_same_length, key_array
from quantide.summary.value_json import count

SINGLE = (str, bytes, int, float, bool, np.generic)


def read_keys(key: Any, names: Sequence[str], rows: int, types: list[pa.DataType] | None) -> pa.Array:
    """Return an array of keys, one for each row, of the table's key types (of their own while it has none)."""
    columns = _columns(key, names, rows)
    key_types = types or [plain_type(column.type, name) for column, name in zip(columns, names, strict=True)]
    cast = []
    for column, kind, name in zip(columns, key_types, names, strict=True):
        check_same_length(len(column), rows)
        try:
            cast.append(_cast(column, kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TypeMismatchError(f"keys {name!r} are {kind} in this store, not {column.type}: {error}") from error
    return cast[0] if len(names) == 1 else pa.StructArray.from_arrays(cast, names=list(names))


def read_key(key: Any, names: Sequence[str], types: list[pa.DataType] | None) -> Key:
    """Return one queried key as the directory has it."""
    if not names:
        raise InvalidArgumentError("this store has no keys; leave key out, or make one with History(path, keys=...)")
    parts = tuple(key[name] for name in names) if isinstance(key, dict) and set(key) == set(names) else key
    parts = parts if isinstance(parts, (tuple, list)) else (parts,)
    if len(parts) != len(names):
        raise InvalidArgumentError(
            f"a key here has {count(len(names), 'part')}: {', '.join(names)}; {key!r} has {len(parts)}"
        )
    if types is None:
        raise UnknownKeyError(f"there is no value with the key {key!r}: nothing was appended yet")
    try:
        columns = (_cast(pa.repeat(_scalar(part), 1), kind) for part, kind in zip(parts, types, strict=True))
        return tuple(column[0].as_py() for column in columns)
    except (pa.ArrowException, TypeMismatchError) as error:
        raise UnknownKeyError(f"there is no key {key!r}: keys here are {', '.join(map(str, types))}") from error


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast keys to the type of a store; raise if one would become another key.

    Arrow's own checks let numbers become booleans, digits of decimals be cut off, and times become days.
    """
    cast = column.cast(kind)
    if kind != column.type and (pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind)):
        kept = pc.fill_null(pc.equal(cast.cast(column.type), column), True)
        if not pc.all(kept, min_count=0).as_py():
            changed = column[pc.index(kept, False).as_py()].as_py()
            raise pa.ArrowInvalid(f"{changed!r} would become another key")
    return cast


def _columns(key: Any, names: Sequence[str], rows: int) -> list[pa.Array]:
    if not names:
        raise InvalidArgumentError("this store has no keys; leave key out, or make one with History(path, keys=...)")
    if key is None and len(names) == 1:
        raise InvalidArgumentError(f"values of this store need a key ({names[0]}): pass key=")
    if len(names) == 1:
        return [_column(key, rows)]
    if isinstance(key, dict) and set(key) == set(names):
        return [_column(key[name], rows) for name in names]
    if isinstance(key, tuple) and len(key) == len(names) and not any(isinstance(part, tuple) for part in key):
        return [_column(part, rows) for part in key]
    row_keys = key.tolist() if isinstance(key, np.ndarray) and key.dtype == object else key
    if isinstance(row_keys, list) and all(isinstance(one, tuple) and len(one) == len(names) for one in row_keys):
        return [_column(list(column), rows) for column in zip(*row_keys, strict=True)] or [pa.nulls(0)] * len(names)
    array = key_array(key)
    if pa.types.is_struct(array.type) and {field.name for field in array.type} == set(names):
        columns = {field.name: column for field, column in zip(array.type, array.flatten(), strict=True)}
        return [columns[name] for name in names]
    raise InvalidArgumentError(
        f"a key here has {count(len(names), 'part')}: {', '.join(names)}; give tuples of that many, or columns named so"
    )


def _column(key: Any, rows: int) -> pa.Array:
    if key is None or isinstance(key, SINGLE) or not hasattr(key, "__len__"):
        return pa.repeat(_scalar(key), rows)
    return key_array(key)


def _scalar(key: Any) -> pa.Scalar:
    """Read one key as an array of them would be read."""
    array = key_array(np.array([key]) if isinstance(key, np.generic) else [key])
    if pa.types.is_nested(array.type):
        raise TypeMismatchError(f"{key!r} is not one key")
    return array[0]


def plain_type(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type of a new key column: one that every reader of Delta tables supports."""
    if pa.types.is_null(kind):
        raise TypeMismatchError(f"the first keys {name!r} are all null, which has no type; begin with others")
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return pa.string()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return pa.binary()
    if pa.types.is_decimal128(kind):
        return pa.decimal128(38, kind.scale)
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return kind
    raise TypeMismatchError(f"keys {name!r} of type {kind} are not supported; give numbers, text, dates or times")
