"""Row checks: pushed rows are checked completely, and brought into the columns and types of their stream.

A row without a time gets its time of arrival, unless the stream configures the column of times. Columns beside value,
time and keys are kept: filters may need them.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quantide.config import StreamConfig
from quantide.errors import InvalidArgumentError, NaNError, TypeMismatchError
from quantide.history.appended_rows import MAX_ROW_WEIGHT, read_row_counts
from quantide.history.key_columns import plain_type
from quantide.server.push.pushed_times import convert_times, fill_times
from quantide.summary.value_types import ValueType, type_named

SHOWN = 20  # columns in a message
PUSHED_TIMES = "timestamp with zone"
STORED_TIMES = {
    "seconds": "times that are numbers of seconds",
    "timestamp": "timestamps without a zone",
    "arrival": "times of their arrival at the store",
}
RESERVED = ("_corrupt_record", "_quantide")  # names of columns that ingestion adds to rows begin so


def check_rows(
    table: pa.Table,
    stream: StreamConfig,
    arrived: float,
    value_type: str | None,
    key_types: Sequence[pa.DataType] | None,
) -> pa.Table:
    """Return the rows as the stream stores them; raise if one cannot be stored, and so refuse all of them.

    `value_type` and `key_types` are those of the store, if it has any yet.
    """
    push = stream.source.push
    assert push is not None
    assert stream.time is not None
    value = _find(table, stream.value, f"it is the value of the stream {stream.name}")
    kind = type_named(stream.value_type or value_type or "float64")
    columns: dict[str, Any] = {stream.value: _convert_values(_plain(table[value]), kind, stream)}
    for index, name in enumerate(stream.keys):
        found = _find(table, name, f"it is a key of the stream {stream.name}")
        columns[name] = _convert_key(_plain(table[found]), name, None if key_types is None else key_types[index])
    if stream.weight is not None:
        found = _find(table, stream.weight, f"it is the weight of the rows of the stream {stream.name}")
        columns[stream.weight] = _convert_weights(_plain(table[found]), stream.weight)
    time = _match(table, stream.time)
    if time is not None:
        columns[stream.time] = convert_times(_plain(table[time]), stream.time, push.time_unit)
    elif push.own_time:
        _find(table, stream.time, f"it is the time of the stream {stream.name}")
    columns[stream.time] = fill_times(columns.get(stream.time), len(table), arrived, push.own_time, stream.time)
    used = {name.lower() for name in columns}
    columns |= {
        name: _check_other(_plain(table[name]), name) for name in table.column_names if name.lower() not in used
    }
    return pa.table({name: column for name, column in columns.items() if not pa.types.is_null(column.type)})


def check_time_kind(stored: str | None, stream: str) -> None:
    """Raise if the store has rows of other times than pushed rows have: ingestion would stop at them."""
    if stored is not None and stored != PUSHED_TIMES:
        raise InvalidArgumentError(
            f"the store of the stream {stream} has rows with {STORED_TIMES[stored]}, and pushed rows have times in "
            "UTC; a store has times of one kind. Configure a stream with another name for pushed rows, or add rows "
            "with History.append, as those before. Nothing was added"
        )


def _match(table: pa.Table, name: str) -> str | None:
    """Return the column of a name, ignoring case if no other one is exactly the same."""
    if name in table.column_names:
        return name
    return next((column for column in table.column_names if column.lower() == name.lower()), None)


def _find(table: pa.Table, name: str, role: str) -> str:
    found = _match(table, name)
    if found is None:
        names = ", ".join(name[:80] for name in table.column_names[:SHOWN])
        raise InvalidArgumentError(
            f"the rows have no column {name!r}, and {role}; they have {names}. Nothing was added"
        )
    return found


def _plain(column: Any) -> Any:
    """Return a column without a dictionary, as one array."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _convert_values(column: Any, kind: ValueType, stream: StreamConfig) -> Any:
    name = stream.value
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind.arrow)
    if pa.types.is_boolean(column.type) or pa.types.is_nested(column.type):
        raise TypeMismatchError(
            f"the column {name!r} is {column.type}, and the stream has values of type {kind}; nothing was added"
        )
    converted = _cast(column, kind.arrow, name, f"the stream has values of type {kind}")
    if kind.is_float and stream.nan == "refuse" and pc.any(pc.is_nan(converted)).as_py():
        row = pc.index(pc.is_nan(converted), True).as_py() + 1
        raise NaNError(
            f'row {row}: {name!r} is NaN, which has no rank; leave it out, or configure nan = "skip". Nothing was added'
        )
    return converted


def _convert_weights(column: Any, name: str) -> Any:
    """Return weights as int64; raise unless all are whole numbers in range, whose sum a request may have."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_nested(kind):
        raise TypeMismatchError(f"the weight {name!r} is {kind}; send a whole number. Nothing was added")
    try:
        counts = read_row_counts(_cast(column, pa.int64(), name, "weights are whole numbers"), len(column))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"the weights in {name!r}: {error}. Nothing was added") from error
    if len(counts) and counts.max() > MAX_ROW_WEIGHT:
        row = int(counts.argmax()) + 1
        raise InvalidArgumentError(
            f"row {row}: the weight {name!r} is {counts.max()}, and a row is stored at most {MAX_ROW_WEIGHT:,} times. "
            "Nothing was added"
        )
    return pa.array(counts)


def _convert_key(column: Any, name: str, kind: pa.DataType | None) -> Any:
    if pa.types.is_nested(column.type):
        raise TypeMismatchError(f"the key {name!r} is {column.type}; send text or a number. Nothing was added")
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py() + 1
        raise InvalidArgumentError(f"row {row}: the key {name!r} is missing; send it with every row. Nothing was added")
    if kind is None:  # the first keys: of a type that the store can have, or ingestion would stop at them
        text = pa.types.is_string_view(column.type)
        kind = plain_type(pa.string() if text else column.type, name)
        return _cast(column, kind, name, f"new keys of it would be {kind}")
    return _cast(column, kind, name, f"the stream has keys of type {kind}")


def _check_other(column: Any, name: str) -> Any:
    """Return a column that only filters may need, if its type is one that SQL conditions compare."""
    kind, types = column.type, pa.types
    if name.lower().startswith(RESERVED):
        raise InvalidArgumentError(f"the column {name[:80]!r} has a name that ingestion uses; rename it")
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind):
        if not types.is_interval(kind) and kind != pa.float16():
            return column
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    raise TypeMismatchError(
        f"the column {name!r} is {kind}; send text, numbers, true or false, and times. Nothing was added"
    )


def _cast(column: Any, kind: pa.DataType, name: str, reason: str) -> Any:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        detail = (str(error).splitlines() or [""])[0][:200]
        raise TypeMismatchError(
            f"the column {name!r} is {column.type}, and {reason}: {detail}. Nothing was added"
        ) from error
