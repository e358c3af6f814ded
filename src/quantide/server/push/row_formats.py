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
    too_large,
)
from quantide.server.push.parquet_pages import WITH_DICTIONARY, WITHOUT_EXPANSION, scan_pages
from quantide.store.parquet_footer import read_footer

MAX_EXPANDED = 8  # a body's rows may take so many times limits.body in memory
MAX_COLUMNS = 1_000
MAX_READS = 1_000_000  # of columns in parts of some rows


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
    pages = scan_pages(body, metadata, chunks)
    check_parquet_body(metadata, chunks, pages, limit)
    columns = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    texts = {column.path: index for index, column in enumerate(columns) if column.physical_type == "BYTE_ARRAY"}
    # texts of a dictionary refer to it until they are measured, those that share prefixes are read some rows at a time
    shared = [path for path, index in texts.items() if pages.encodings[index] <= WITH_DICTIONARY]
    expanding = {
        path: int(pages.sizes[:, index].max(initial=1))
        for path, index in texts.items()
        if path not in shared and not pages.encodings[index] <= WITHOUT_EXPANSION
    }
    with pq.ParquetFile(io.BytesIO(body), metadata=metadata, read_dictionary=shared, pre_buffer=False) as file:
        table = _read_by_rows(file, expanding, limit) if expanding else file.read(use_threads=False)
    table.validate(full=True)
    return table


def _read_by_rows(file: pq.ParquetFile, expanding: dict[str, int], limit: int) -> pa.Table:
    """Read a file with columns of texts that share prefixes, or parts of a dictionary, some rows at a time.

    No text has more bytes than the pages of its column, which `expanding` has; but each row may have as many.
    """
    names = file.schema_arrow.names
    _check_names(names)
    if not expanding.keys() <= set(names):
        raise TypeMismatchError("a column has structs; send text, numbers, true or false, and times. Nothing was added")
    rows = max(1, limit // (4 * sum(expanding.values())))
    if file.metadata.num_rows > rows * (MAX_READS // len(expanding)):
        raise InvalidArgumentError(
            f"the columns {', '.join(expanding)[:200]} have an encoding that may expand them beyond {limit:,} bytes; "
            "write them with a dictionary or plain, or send them in parts. Nothing was added"
        )
    batches, size = list[pa.RecordBatch](), 0
    for batch in file.iter_batches(rows, columns=list(expanding), use_threads=False):
        batches.append(batch)
        size += batch.nbytes
        if size > limit:
            raise too_large(limit)
    table = file.read(columns=[name for name in names if name not in expanding], use_threads=False)
    if not batches:
        return table
    texts = pa.Table.from_batches(batches)
    return pa.table({name: texts[name] if name in expanding else table[name] for name in names})


PARSERS: dict[str, Callable[[bytes, int], pa.Table]] = {
    "json": _parse_json,
    "lines": _parse_lines,
    "arrow": _parse_arrow,
    "parquet": _parse_parquet,
}
