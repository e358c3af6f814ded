"""Filters: expressions of pyarrow.compute that can be told apart, kept as bytes, and read back from anyone's bytes.

Arrow writes an expression as a file: a row of literals and options, and the expression itself as tokens among the
metadata. It trusts such bytes when it reads them, so the file and the tokens are checked first. Arrow shows a literal
in full, with the name of its type before each list: that text is bounded, too.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.windows.arrow_file import check_arrow_file

KEYS = ("call", "end", "literal", "options", "field_ref", "nested_field_ref")
TOKEN = re.compile(rf"({'|'.join(KEYS)}): '(.*)'")
MOST_TOKENS, DEEPEST = 10_000, 100
SHOWN, SHOWN_BYTE = 1 << 16, 256  # characters that names of types may take in a text: in any case, for a byte
MARK = "\0"  # between the text of a filter and what tells it from others of the same text

Token = tuple[str, str]


def name_of(filter: Any) -> str:
    """A name that only equal filters share: Arrow shows long lists without their middle, and numbers without type."""
    try:
        data = pack_filter(filter)
        _check(data)
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError) as error:
        raise InvalidArgumentError(f"the filter {filter} cannot be kept as bytes: {error}") from error
    return str(filter) + MARK + hashlib.sha256(data).hexdigest()[:32]


def shown(name: str) -> str:
    """A filter's name as its text."""
    return name.partition(MARK)[0]


def pack_filter(filter: Any) -> bytes:
    """An expression as Arrow writes it."""
    return bytes(filter.__reduce__()[1][0])


def unpack_filter(data: bytes, text: str) -> tuple[str, Any]:
    """The name and the expression of these bytes, which must read as this text."""
    try:
        _check(data)
        found = pc.Expression._deserialize(pa.py_buffer(data))
        name = name_of(found)
    except (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, OSError) as error:
        raise CorruptBytesError(f"these bytes are not a filter: {error}") from error
    if shown(name) != text:
        raise CorruptBytesError("these bytes are not a filter: it reads otherwise than it is said to")
    return name, found


def _check(data: bytes) -> None:
    """Raise unless everything is as Arrow writes it."""
    elements = check_arrow_file(data)
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    table.validate(full=True)
    longest = max((len(str(kind)) for kind in table.schema.types), default=0)
    if elements * longest > SHOWN + SHOWN_BYTE * len(data):
        raise ValueError(f"{elements:,} elements of a type whose name has {longest:,} characters")
    if table.num_rows != 1 or any(f"\n{key}: '".encode() in data for key in KEYS):
        raise ValueError("literals are one row, and no text looks like a token")
    tokens = iter(_tokens(table))
    _check_expression(next(tokens, ("end", "")), tokens, table, 0)
    if next(tokens, None) is not None:
        raise ValueError("tokens after the end of the expression")


def _tokens(table: pa.Table) -> list[Token]:
    text = table.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
    lines = text.rpartition("-- schema metadata --\n")[2].split("\n")
    matches = [TOKEN.fullmatch(line) for line in lines[: MOST_TOKENS + 1]]
    found = [(match[1], match[2]) for match in matches if match]
    if len(found) < len(matches) or len(found) > MOST_TOKENS:
        raise ValueError("the metadata are not an expression")
    return found


def _check_expression(token: Token, rest: Iterator[Token], table: pa.Table, depth: int) -> None:
    key, value = token
    if key == "literal":
        kind = table.column(_place(value, table.num_columns)).type
        if pa.types.is_nested(kind) and "dictionary<" in str(kind):
            raise ValueError(f"a literal of type {kind}")
    elif key == "nested_field_ref":
        for _ in range(_place(value, MOST_TOKENS)):
            if next(rest, ("end", ""))[0] != "field_ref":
                raise ValueError("a nested name lacks a part")
    elif key == "call" and depth < DEEPEST:
        _check_call(value, rest, table, depth)
    elif key != "field_ref":
        raise ValueError(f"{key} where an expression is expected")


def _check_call(name: str, rest: Iterator[Token], table: pa.Table, depth: int) -> None:
    function, arguments, options = pc.get_function(name), 0, None
    for key, value in rest:
        if key == "end" and value == name:
            break
        if key == "options" and options is None:
            options = table.column(_place(value, table.num_columns))[0]
        elif options is None:
            _check_expression((key, value), rest, table, depth + 1)
            arguments += 1
        else:
            raise ValueError("arguments after options")
    else:
        raise ValueError(f"{name} does not end")
    known = function._doc
    if options is None:
        fits = not known.options_required
    else:
        fits = options["_type_name"].as_py() == known.options_class.encode()
        fits = fits and ("field_names" not in options or len(options["field_names"]) == arguments)
    if not fits or function.arity not in (arguments, ...):
        raise ValueError(f"{name} has other arguments or options")


def _place(value: str, count: int) -> int:
    if not re.fullmatch("[0-9]{1,9}", value) or int(value) >= count:
        raise ValueError(f"{value} is not among {count}")
    return int(value)
