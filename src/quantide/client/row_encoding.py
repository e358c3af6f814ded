"""Row encoding: rows in any of several forms become the body of a push request."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from quantide.errors import InvalidArgumentError, TypeMismatchError

LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
VALUE = "value"
FORMS = "a list of dicts, a pyarrow, pandas or polars table, or a numpy array of values"


def encode_rows(rows: Any) -> tuple[str, bytes]:
    """Return the content type and the body for rows; raise InvalidArgumentError if they are not rows."""
    if isinstance(rows, Mapping):
        rows = [rows]
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return LINES, _encode_dicts(rows)
    return ARROW, encode_table(to_table(rows))


def to_table(rows: Any) -> pa.Table:
    """Return an Arrow table of a table of another library, or of an array, whose column is then `value`."""
    try:
        if isinstance(rows, np.ndarray):
            if rows.ndim != 1:
                raise InvalidArgumentError(f"the array has {rows.ndim} dimensions; push one of values, or a table")
            return pa.table({VALUE: pa.array(rows)})
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if isinstance(rows, pa.Table):
            return rows
        if hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "iloc"):  # polars, duckdb and others
            return pa.table(rows)
        if hasattr(rows, "iloc") and hasattr(rows, "columns"):
            return pa.Table.from_pandas(rows, preserve_index=False)
    except (pa.ArrowException, TypeError) as error:
        raise TypeMismatchError(f"these rows are no table that Arrow can represent: {error}") from error
    raise InvalidArgumentError(f"{type(rows).__name__} is not rows; push {FORMS}")


def encode_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = io.BytesIO()
    table = table.replace_schema_metadata(None)
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _encode_dicts(rows: Sequence[Any]) -> bytes:
    lines = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidArgumentError(f"rows[{number}] is {type(row).__name__}, not a dict; push {FORMS}")
        try:
            lines.append(json.dumps(row, allow_nan=False, separators=(",", ":"), default=_encode_value))
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"rows[{number}] cannot be sent as JSON: {error}") from error
    return "\n".join(lines).encode()


def _encode_value(value: Any) -> Any:
    """Return a value that JSON does not have as one that it has: times as text, numbers of numpy as numbers."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither a number, nor text, nor a time")
