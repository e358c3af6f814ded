"""Filters: pyarrow.compute expressions with unique names, serialization, and evaluation over a table.

Arrow writes an expression as a file: a row of literals and options, and the expression itself as tokens in the
metadata. It trusts such bytes when it reads them, so the file and the tokens are checked first. Arrow prints a literal
in full, with the name of its type before each list: the length of that text is bounded, too.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError
from quantide.typing import Ints
from quantide.windows.arrow_file import check_arrow_file

KEYS = ("call", "end", "literal", "options", "field_ref", "nested_field_ref")
TOKEN = re.compile(rf"({'|'.join(KEYS)}): '(.*)'")
MAX_TOKENS, MAX_DEPTH = 10_000, 100
MAX_TYPE_TEXT, MAX_TYPE_TEXT_PER_BYTE = 1 << 16, 256  # characters of type names in a text, plus so many per byte
SEPARATOR = "\0"  # between the text of a filter and the hash that makes its name unique

TRUE, FALSE, UNKNOWN = 1, 0, 2  # results of a filter; null is unknown, and so is its opposite

Token = tuple[str, str]
FilterResults = tuple[int, ...]  # the result of each filter for one row


def filter_name(filter: Any) -> str:
    """Return a name that only equal filters share: Arrow's text abbreviates long lists and omits types of numbers."""
    try:
        data = pack_filter(filter)
        _check(data)
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError) as error:
        raise InvalidArgumentError(f"the filter {filter} cannot be kept as bytes: {error}") from error
    return str(filter) + SEPARATOR + hashlib.sha256(data).hexdigest()[:32]


def filter_text(name: str) -> str:
    """Return the text of a filter from its name."""
    return name.partition(SEPARATOR)[0]


def pack_filter(filter: Any) -> bytes:
    """Serialize an expression as Arrow does."""
    return bytes(filter.__reduce__()[1][0])


def unpack_filter(data: bytes, text: str) -> tuple[str, Any]:
    """Return the name and the expression of these bytes; raise unless its text is this one."""
    try:
        _check(data)
        expression = pc.Expression._deserialize(pa.py_buffer(data))
        name = filter_name(expression)
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, OSError) as error:
        raise CorruptBytesError(f"these bytes are not a filter: {error}") from error
    if filter_text(name) != text:
        raise CorruptBytesError("these bytes are not a filter: its text differs from the one stored with it")
    return name, expression


def _check(data: bytes) -> None:
    """Raise unless the bytes are as Arrow writes them."""
    elements = check_arrow_file(data)
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    table.validate(full=True)
    longest = max((len(str(kind)) for kind in table.schema.types), default=0)
    if elements * longest > MAX_TYPE_TEXT + MAX_TYPE_TEXT_PER_BYTE * len(data):
        raise ValueError(f"{elements:,} elements of a type whose name has {longest:,} characters")
    if table.num_rows != 1 or any(f"\n{key}: '".encode() in data for key in KEYS):
        raise ValueError("literals must be one row, and no text may resemble a token")
    tokens = iter(_tokens(table))
    _check_expression(next(tokens, ("end", "")), tokens, table, 0)
    if next(tokens, None) is not None:
        raise ValueError("tokens after the end of the expression")


def _tokens(table: pa.Table) -> list[Token]:
    text = table.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
    lines = text.rpartition("-- schema metadata --\n")[2].split("\n")
    matches = [TOKEN.fullmatch(line) for line in lines[: MAX_TOKENS + 1]]
    tokens = [(match[1], match[2]) for match in matches if match]
    if len(tokens) < len(matches) or len(tokens) > MAX_TOKENS:
        raise ValueError("the metadata are not an expression")
    return tokens


def _check_expression(token: Token, rest: Iterator[Token], table: pa.Table, depth: int) -> None:
    key, value = token
    if key == "literal":
        kind = table.column(_index(value, table.num_columns)).type
        if pa.types.is_nested(kind) and "dictionary<" in str(kind):
            raise ValueError(f"a literal of type {kind}")
    elif key == "nested_field_ref":
        for _ in range(_index(value, MAX_TOKENS)):
            if next(rest, ("end", ""))[0] != "field_ref":
                raise ValueError("a nested name lacks a part")
    elif key == "call" and depth < MAX_DEPTH:
        _check_call(value, rest, table, depth)
    elif key != "field_ref":
        raise ValueError(f"{key} where an expression is expected")


def _check_call(name: str, rest: Iterator[Token], table: pa.Table, depth: int) -> None:
    function, arguments, options = pc.get_function(name), 0, None
    for key, value in rest:
        if key == "end" and value == name:
            break
        if key == "options" and options is None:
            options = table.column(_index(value, table.num_columns))[0]
        elif options is None:
            _check_expression((key, value), rest, table, depth + 1)
            arguments += 1
        else:
            raise ValueError("arguments after options")
    else:
        raise ValueError(f"{name} does not end")
    doc = function._doc
    if options is None:
        fits = not doc.options_required
    else:
        fits = options["_type_name"].as_py() == doc.options_class.encode()
        fits = fits and ("field_names" not in options or len(options["field_names"]) == arguments)
    if not fits or function.arity not in (arguments, ...):
        raise ValueError(f"{name} has other arguments or options")


def _index(value: str, count: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", value) or int(value) >= count:
        raise ValueError(f"{value} is not among {count}")
    return int(value)


def as_table(table: Any) -> pa.Table:
    """Return an Arrow table or record batch, or anything convertible to one, as a table without views."""
    try:
        table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
        return _without_views(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeMismatchError(f"give an Arrow table or record batch, not {type(table).__name__}: {error}") from error


def _without_views(table: pa.Table) -> pa.Table:
    """Cast string and binary views, which polars exports and Arrow's filters cannot compare."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for i, field in enumerate(table.schema):
        if field.type in plain:
            table = table.set_column(i, field.name, table.column(i).cast(plain[field.type]))
        elif pa.types.is_dictionary(field.type) and field.type.value_type in plain:
            kind = pa.dictionary(field.type.index_type, plain[field.type.value_type])
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(kind.value_type))
                for chunk in table.column(i).chunks
            ]
            table = table.set_column(i, field.name, pa.chunked_array(chunks, kind))
    return table


def filter_codes(table: pa.Table, filters: dict[str, Any]) -> Ints:
    """Evaluate all filters on each row; return one number per row with a base-3 digit for each filter."""
    from pyarrow import acero  # lazily: it takes a quarter of a second to import

    codes = np.zeros(table.num_rows, dtype=np.int64)
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    for i, (name, filter) in enumerate(filters.items()):
        projection = acero.Declaration("project", acero.ProjectNodeOptions([filter], ["result"]), [source])
        try:
            results = projection.to_table(use_threads=False)["result"]
            if pa.types.is_null(results.type):
                results = results.cast(pa.bool_())
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"the filter {filter_text(name)} does not fit these columns: {error}") from error
        if not pa.types.is_boolean(results.type):
            raise InvalidArgumentError(f"the filter {filter_text(name)} gives {results.type}, not true or false")
        digits = results.cast(pa.int8()).fill_null(UNKNOWN).to_numpy()
        codes += digits.astype(np.int64) * 3**i
    return codes


def filter_classes(codes: Ints, filters: int) -> Iterator[tuple[FilterResults, Any]]:
    """Yield each combination of filter results that occurs, with its rows in arrival order."""
    first = int(codes[0])
    if (codes == first).all():
        yield _digits(first, filters), slice(None)
        return
    order = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
        yield _digits(code, filters), rows


def _digits(code: int, filters: int) -> FilterResults:
    return tuple(code // 3**i % 3 for i in range(filters))
