"""Keys: any Arrow column, or several, as numbers 0, 1, 2, ... in the order of the keys."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, QuantideError, TypeMismatchError

Codes = NDArray[np.int64]


def key_array(keys: Any) -> pa.Array:
    """Keys as one Arrow array; a table, a record batch or a dict of columns becomes an array of structs."""
    try:
        if isinstance(keys, dict):
            keys = pa.table(keys)
        elif hasattr(keys, "__arrow_c_stream__") and not isinstance(keys, (pa.ChunkedArray, pa.Table)):
            keys = pa.table(keys) if hasattr(keys, "columns") else pa.chunked_array(keys)
        if isinstance(keys, (pa.Table, pa.RecordBatch)):
            if len(set(keys.schema.names)) < keys.num_columns or not keys.num_columns:
                raise InvalidArgumentError(f"key columns need names of their own, not {keys.schema.names}")
            columns = [_plain(one_array(keys.column(i))) for i in range(keys.num_columns)]
            return pa.StructArray.from_arrays(columns, names=keys.schema.names)
        array = one_array(keys if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys))
        if not pa.types.is_struct(array.type):
            return _plain(array)
        return pa.StructArray.from_arrays([_plain(x) for x in array.flatten()], names=[f.name for f in array.type])
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, QuantideError):
            raise
        raise TypeMismatchError(f"cannot read keys from a {type(keys).__name__}: {error}") from error


def encode_keys(keys: pa.Array) -> tuple[Codes, pa.Array]:
    """A number for every row and the distinct keys, sorted, null last: row i has the key distinct[codes[i]]."""
    if pa.types.is_struct(keys.type):
        return _encode_structs(keys)
    if pa.types.is_dictionary(keys.type):
        return _encode_dictionary(keys)
    if pa.types.is_integer(keys.type) and keys.null_count == 0 and len(keys):
        low, high = (int(x.as_py()) for x in pc.min_max(keys).values())
        if high - low < 2 * len(keys) + 1024 and low > -(2**62) and high < 2**62:
            return _encode_dense(keys, low)
    try:
        encoded = keys.dictionary_encode(null_encoding="encode")
    except pa.ArrowException as error:
        raise TypeMismatchError(f"keys of type {keys.type} are not supported: {error}") from error
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(pa.array(order))


def find_key(keys: pa.Array, key: Any) -> int:
    """Where a key is among distinct keys, or -1. A key of several columns is a tuple, or a dict by their names."""
    try:
        if not pa.types.is_struct(keys.type):
            return int(_equal(keys, key).index(pa.scalar(True)).as_py())
        names = [field.name for field in keys.type]
        if isinstance(key, dict) and set(key) == set(names):
            key = tuple(key[name] for name in names)
        if not isinstance(key, (tuple, list)) or len(key) != len(names):
            return -1
        hits = _equal(keys.field(0), key[0])
        for i, part in enumerate(key[1:], start=1):
            hits = pc.and_(hits, _equal(keys.field(i), part))
        return int(hits.index(pa.scalar(True)).as_py())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return -1  # a key of another type is a key we do not hold


def key_names(keys: pa.Array) -> list[Any]:
    """Keys as Python values that a dict finds again; those of several columns as tuples."""
    if pa.types.is_struct(keys.type):
        return list(zip(*(key_names(column) for column in keys.flatten()), strict=True))
    names: list[Any] = keys.to_pylist()
    return [key_name(name) for name in names] if pa.types.is_floating(keys.type) else names


def key_name(key: Any) -> Any:
    """A key that a dict finds again: to it one NaN is not another, unless they are the same object."""
    if isinstance(key, tuple):
        return tuple(map(key_name, key))
    return math.nan if isinstance(key, float) and key != key else key


def check_same_length(keys: int, values: int) -> None:
    if keys != values:
        raise InvalidArgumentError(f"{keys} keys for {values} values: there must be one key for each value")


def one_array(column: Any) -> pa.Array:
    """A column as one array, copied only when it is in several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(column: pa.Array) -> pa.Array:
    """A column of a type that can be sorted and compared: no dictionaries, no views, no -0.0."""
    if pa.types.is_dictionary(column.type):
        column = pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary)).dictionary_decode()
    if column.type == pa.string_view():
        column = column.cast(pa.string())
    if column.type == pa.binary_view():
        column = column.cast(pa.binary())
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_nested(column.type):
        raise TypeMismatchError(f"keys of type {column.type} are not supported; give several columns instead")
    return column


def _equal(column: pa.Array, key: Any) -> pa.Array:
    if key is None:
        return column.is_null()
    if isinstance(key, float) and key != key:
        return pc.is_nan(column).fill_null(False)
    return pc.equal(column, pa.scalar(key, type=column.type)).fill_null(False)


def _encode_dense(keys: pa.Array, low: int) -> tuple[Codes, pa.Array]:
    """Integers that lie close together need no hashing."""
    offset = keys.to_numpy(zero_copy_only=False).astype(np.int64) - low
    present = np.bincount(offset) > 0
    distinct = pa.array((np.flatnonzero(present) + low).astype(keys.type.to_pandas_dtype()), type=keys.type)
    if present.all():
        return offset, distinct
    return (np.cumsum(present) - 1)[offset], distinct


def _encode_dictionary(keys: pa.DictionaryArray) -> tuple[Codes, pa.Array]:
    """Only what the dictionary holds is compared, however often it stands; nulls are numbers into it, or none."""
    held = pa.concat_arrays([keys.dictionary, pa.nulls(1, keys.dictionary.type)])
    codes, distinct = encode_keys(held)
    rows = codes[keys.indices.fill_null(len(held) - 1).to_numpy(zero_copy_only=False)]
    rows, used = encode_keys(pa.array(rows))
    return rows, distinct.take(used)


def _encode_structs(keys: pa.StructArray) -> tuple[Codes, pa.Array]:
    """Column by column: the distinct keys so far, each with each distinct value of the next column it occurs with."""
    codes = np.zeros(len(keys), dtype=np.int64)
    taken: list[pa.Array] = []
    for i in range(keys.type.num_fields):
        column, distinct = encode_keys(keys.field(i))
        width = max(1, len(distinct))
        codes, pairs = encode_keys(pa.array(codes * width + column))
        before, own = np.divmod(pairs.to_numpy(), width)
        taken = [part.take(pa.array(before)) for part in taken] + [distinct.take(pa.array(own))]
    return codes, pa.StructArray.from_arrays(taken, names=[field.name for field in keys.type])
