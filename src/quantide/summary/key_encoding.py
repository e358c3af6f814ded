"""Key encoding and group by: keys of any Arrow columns as codes 0, 1, 2, ... in key order."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import InvalidArgumentError, QuantideError, TypeMismatchError
from quantide.kernels.block_sort import radix_from, radix_sort_segments, sort
from quantide.kernels.key_segments import gather_rows, scatter, sort_short, write_back_rows
from quantide.typing import Array, Ints

SHORT = 24  # segments up to this length are sorted by insertion
LONG = 1 << 14  # each longer segment is sorted by its own call; there are few of them
BATCH_SIZE = 1 << 18  # values of rows that are sorted together


def key_array(keys: Any) -> pa.Array:
    """Return keys as one Arrow array; a table, a record batch or a dict of columns becomes an array of structs."""
    try:
        if isinstance(keys, dict):
            keys = pa.table(keys)
        elif hasattr(keys, "__arrow_c_stream__") and not isinstance(keys, (pa.ChunkedArray, pa.Table)):
            keys = pa.table(keys) if hasattr(keys, "columns") else pa.chunked_array(keys)
        if isinstance(keys, (pa.Table, pa.RecordBatch)):
            if len(set(keys.schema.names)) < keys.num_columns or not keys.num_columns:
                raise InvalidArgumentError(f"key columns need names of their own, not {keys.schema.names}")
            columns = [_plain(combine_chunks(keys.column(i))) for i in range(keys.num_columns)]
            return pa.StructArray.from_arrays(columns, names=keys.schema.names)
        array = combine_chunks(keys if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys))
        if not pa.types.is_struct(array.type):
            return _plain(array)
        return pa.StructArray.from_arrays([_plain(x) for x in array.flatten()], names=[f.name for f in array.type])
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, QuantideError):
            raise
        raise TypeMismatchError(f"cannot read keys from a {type(keys).__name__}: {error}") from error


def encode_keys(keys: pa.Array) -> tuple[Ints, pa.Array]:
    """Return a code for every row, and the distinct keys, sorted, null last: row i has the key distinct[codes[i]]."""
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
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = np.arange(len(order))
    return codes[encoded.indices.to_numpy(zero_copy_only=False)], encoded.dictionary.take(pa.array(order))


def find_key(keys: pa.Array, key: Any) -> int:
    """Return the index of a key among distinct keys, or -1. A key of several columns is a tuple, or a dict by name."""
    try:
        if not pa.types.is_struct(keys.type):
            return int(_equal(keys, key).index(pa.scalar(True)).as_py())
        names = [field.name for field in keys.type]
        if isinstance(key, dict) and set(key) == set(names):
            key = tuple(key[name] for name in names)
        if not isinstance(key, (tuple, list)) or len(key) != len(names):
            return -1
        matches = _equal(keys.field(0), key[0])
        for i, part in enumerate(key[1:], start=1):
            matches = pc.and_(matches, _equal(keys.field(i), part))
        return int(matches.index(pa.scalar(True)).as_py())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return -1  # a key of another type is not among the keys


def hashable_keys(keys: pa.Array) -> list[Any]:
    """Return keys as Python values for a dict; keys of several columns as tuples."""
    if pa.types.is_struct(keys.type):
        return list(zip(*(hashable_keys(column) for column in keys.flatten()), strict=True))
    values: list[Any] = keys.to_pylist()
    return [hashable_key(value) for value in values] if pa.types.is_floating(keys.type) else values


def hashable_key(key: Any) -> Any:
    """Replace NaN by math.nan: a dict finds a NaN only if it is the same object."""
    if isinstance(key, tuple):
        return tuple(map(hashable_key, key))
    return math.nan if isinstance(key, float) and key != key else key


def check_same_length(keys: int, values: int) -> None:
    if keys != values:
        raise InvalidArgumentError(f"{keys} keys for {values} values: there must be one key for each value")


def combine_chunks(column: Any) -> pa.Array:
    """Return a column as one array, copied only if it has several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def group_by_code(codes: Ints, values: Array, groups: int) -> tuple[Array, Ints]:
    """Return the values grouped by code and sorted within each group, and the bounds of the groups."""
    bounds = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=groups), out=bounds[1:])
    grouped = scatter(codes, values, bounds)
    sort_segments(grouped, bounds)
    return grouped, bounds


def sort_segments(values: Array, bounds: Ints) -> None:
    """Sort every segment in place.

    Where np.sort is faster, segments of similar length become rows of one array, padded to a common width, and one
    call sorts them all. Widths grow by a quarter at most, so little padding is sorted.
    """
    sort_short(values, bounds, SHORT)
    lengths = np.diff(bounds)
    width, longest = SHORT, max(SHORT, min(LONG, radix_from(values.dtype.name)))
    while width < longest:
        narrower, width = width, max(width + 8, width * 5 // 4)
        segments = np.flatnonzero((lengths > narrower) & (lengths <= width))
        batch_rows = max(1, BATCH_SIZE // width)
        for start in range(0, len(segments), batch_rows):
            batch = segments[start : start + batch_rows]
            rows = np.empty((len(batch), width), dtype=values.dtype)
            gather_rows(values, bounds, batch, rows)
            rows.sort(axis=1)
            write_back_rows(values, bounds, batch, rows)
    long_segments = np.flatnonzero(lengths > width)
    if longest < LONG:
        radix_sort_segments(values, bounds, long_segments)
    else:
        for segment in long_segments:
            sort(values[bounds[segment] : bounds[segment + 1]])


def _plain(column: pa.Array) -> pa.Array:
    """Return a column of a type that can be sorted and compared: no dictionaries, no views, no -0.0."""
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


def _encode_dense(keys: pa.Array, low: int) -> tuple[Ints, pa.Array]:
    """Encode integers of a small range without hashing."""
    offset = keys.to_numpy(zero_copy_only=False).astype(np.int64) - low
    present = np.bincount(offset) > 0
    distinct = pa.array((np.flatnonzero(present) + low).astype(keys.type.to_pandas_dtype()), type=keys.type)
    if present.all():
        return offset, distinct
    return (np.cumsum(present) - 1)[offset], distinct


def _encode_dictionary(keys: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Encode the dictionary instead of the rows; a null is an index of a null entry, or a null index."""
    entries = pa.concat_arrays([keys.dictionary, pa.nulls(1, keys.dictionary.type)])
    codes, distinct = encode_keys(entries)
    rows = codes[keys.indices.fill_null(len(entries) - 1).to_numpy(zero_copy_only=False)]
    rows, used = encode_keys(pa.array(rows))
    return rows, distinct.take(used)


def _encode_structs(keys: pa.StructArray) -> tuple[Ints, pa.Array]:
    """Encode column by column: pairs of the code so far and that of the next column, encoded again."""
    codes = np.zeros(len(keys), dtype=np.int64)
    columns: list[pa.Array] = []
    for i in range(keys.type.num_fields):
        column, distinct = encode_keys(keys.field(i))
        width = max(1, len(distinct))
        codes, pairs = encode_keys(pa.array(codes * width + column))
        before, own = np.divmod(pairs.to_numpy(), width)
        columns = [part.take(pa.array(before)) for part in columns] + [distinct.take(pa.array(own))]
    return codes, pa.StructArray.from_arrays(columns, names=[field.name for field in keys.type])
