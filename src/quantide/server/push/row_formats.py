"""Row formats: the body of a push request, by its Content-Type, becomes an Arrow table."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.server.http.request_limits import PUSH_TYPES
from quantide.server.push.body_limit import (
    check_arrow_body,
    check_cells,
    check_csv_header,
    check_parquet_body,
    check_table,
)
from quantide.store.parquet_footer import read_footer

MAX_EXPANDED = 8  # a body's rows may take so many times limits.body in memory
MAX_COLUMNS = 1_000


def parse_rows(content_type: str, body: bytes, max_bytes: int, keys: Sequence[str] = ()) -> pa.Table:
    """Return the rows of a body; raise InvalidArgumentError or TypeMismatchError if it cannot be read.

    In CSV, `keys` are columns of text: 007 is not a number there.
    """
    kind, limit = PUSH_TYPES[content_type], MAX_EXPANDED * max_bytes
    try:
        table = _parse_csv(body, keys) if kind == "csv" else PARSERS[kind](body, limit)
        names = table.column_names  # decoded here: those of CSV and Arrow may not be UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidArgumentError | TypeMismatchError):
            raise
        reason = (str(error).splitlines() or [""])[0][:300]
        raise InvalidArgumentError(f"the body is not {content_type}: {reason}; nothing was added") from error
    if not len(table):
        raise InvalidArgumentError("the body has no rows; send one or more")
    _check_count(table.num_columns)
    _check_names(names)
    check_table(table, limit)
    return table


def _check_count(columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise InvalidArgumentError(
            f"the rows have {columns:,} columns, and at most {MAX_COLUMNS:,} are possible; send those that the stream "
            "needs. Nothing was added"
        )


def _check_names(names: list[str]) -> None:
    counts = Counter(name.lower() for name in names)
    for name in names:
        if not name or not name.isprintable() or counts[name.lower()] > 1:
            raise InvalidArgumentError(f"the column {name[:80]!r} has no name, or its name is not unique; rename it")


def _parse_json(body: bytes, limit: int) -> pa.Table:
    rows = _load_json(body, "the body")
    return _table_of(rows if isinstance(rows, list) else [rows], "row", limit)


def _parse_lines(body: bytes, limit: int) -> pa.Table:
    lines = body.split(b"\n")
    try:
        rows = orjson.loads(b"[" + b",".join(line for line in lines if line.strip()) + b"]")
    except orjson.JSONDecodeError:
        rows = None
    if rows is None or len(rows) != sum(1 for line in lines if line.strip()):  # find the line, for the message
        rows = [_load_json(line, f"line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    return _table_of(rows, "line", limit)


def _load_json(data: bytes, place: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError(f"{place} is not JSON: {error}; nothing was added") from error


def _table_of(rows: list[Any], unit: str, limit: int) -> pa.Table:
    """Return the columns of JSON objects; a field that an object lacks is null."""
    names: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InvalidArgumentError(
                f'{unit} {number} is not a JSON object; send rows such as {{"value": 12.5}}. Nothing was added'
            )
        if not row.keys() <= names.keys():
            names |= dict.fromkeys(row)
    _check_count(len(names))
    _check_names(list(names))
    check_cells(len(rows), len(names), limit)
    columns = {}
    for name in names:
        try:
            columns[name] = _column([row.get(name) for row in rows], name)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if isinstance(error, TypeMismatchError):
                raise
            reason = (str(error).splitlines() or [""])[0][:200]
            raise TypeMismatchError(
                f"the column {name!r} has values of different types, or too large ones: {reason}; nothing was added"
            ) from error
    return pa.table(columns)


def _column(values: list[Any], name: str) -> pa.Array:
    if not {dict, list}.isdisjoint(map(type, values)):  # before Arrow takes a kilobyte for each name in an object
        raise TypeMismatchError(
            f"the column {name[:80]!r} has objects or lists; send text, numbers, true or false, and times. Nothing was "
            "added"
        )
    try:
        return pa.array(values)
    except pa.ArrowInvalid:
        kinds = {type(value) for value in values if value is not None}
        if kinds != {int, float}:
            raise
        return pa.array(values, pa.float64())  # 1 and 2.5 in one column


def _parse_csv(body: bytes, keys: Sequence[str]) -> pa.Table:
    check_csv_header(body, MAX_COLUMNS)  # Arrow takes two kilobytes for each column, and a column has one byte here
    return pyarrow.csv.read_csv(
        io.BytesIO(body),
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(1 << 20, len(body))),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in keys},
            null_values=["", "null", "NULL"],
            strings_can_be_null=True,
        ),
    )


def _parse_arrow(body: bytes, limit: int) -> pa.Table:
    check_arrow_body(body, limit)
    with pyarrow.ipc.open_stream(body) as reader:
        _check_count(len(reader.schema))
        table = reader.read_all()
    table.validate(full=True)
    return table


def _parse_parquet(body: bytes, limit: int) -> pa.Table:
    metadata, chunks = read_footer(io.BytesIO(body))
    _check_count(metadata.num_columns)  # Arrow takes half a minute for 90,000 of one name
    texts = check_parquet_body(metadata, chunks, limit)  # their rows refer to a dictionary until they are measured
    with pq.ParquetFile(io.BytesIO(body), metadata=metadata, read_dictionary=texts, pre_buffer=False) as file:
        table = file.read(use_threads=False)
    table.validate(full=True)
    return table


PARSERS: dict[str, Callable[[bytes, int], pa.Table]] = {
    "json": _parse_json,
    "lines": _parse_lines,
    "arrow": _parse_arrow,
    "parquet": _parse_parquet,
}
