"""Column matching: the configured columns, looked up in the headers of CSV files and the objects of JSON files.

Columns of a CSV file are matched by the names in its own header, never by their position in another file. A JSON file
in which no object has a column must not be read as nulls.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark.sql.types import NumericType, StringType, StructField, StructType

from quantide.config.toml_table import find_similar
from quantide.spark.sql_expressions import find_name
from quantide.spark.stream.row_origin import BLANK, TextFormat, open_lines
from quantide.store.location import StorageOptions

Layout = tuple[str | None, ...]  # columns of the schema in the order of a file; None for one that is not in the schema

NO_COLUMN = "there is no column"
HEADER = "its first line looks like a header"
MAX_NAMES = 50  # names that a reason lists
MAX_LINE = 1 << 20  # characters of a line that are read to find a header
MAX_DOCUMENT = 64 << 20  # characters of a one-document JSON file that are searched
COLUMN_NAME = re.compile(r"[^\W\d][\w .()/%\[\]-]*")
NO_VALUE = {"na", "n/a", "nan", "null", "none", "nil", "inf", "infinity", "true", "false"}


def column_missing(column: str, names: Sequence[str]) -> str:
    """Return the reason for a missing column, with the nearest name that exists; the same for all formats.

    >>> column_missing("latncy", ["ts", "latency"])
    "there is no column 'latncy'; there are ts, latency. Did you mean 'latency'?"
    """
    listed = ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")
    near = find_similar(column, names, 0.6)
    hint = f". Did you mean {near!r}?" if near else ""
    return f"{NO_COLUMN} {column!r}; there are {listed}{hint}"


def as_sentence(reason: str) -> str:
    """End a reason with a full stop, unless it ends with a question mark.

    >>> as_sentence("Did you mean 'ms'?"), as_sentence("there are ts, ms")
    ("Did you mean 'ms'?", 'there are ts, ms.')
    """
    return reason if reason.endswith("?") else f"{reason}."


def is_column_mismatch(reason: str) -> bool:
    """Return True if a file is in quarantine because the configuration does not match its columns."""
    return NO_COLUMN in reason or HEADER in reason


# CSV


@dataclass(frozen=True)
class HeaderProblem:
    """Reason why a file is not read."""

    text: str


def first_rows(storage: StorageOptions, path: str, form: TextFormat, rows: int = 2) -> list[list[str]]:
    """Read the first records of a CSV file, as text."""
    with open_lines(storage, path, form) as lines:
        records = (line for line in iter(lambda: lines.readline(MAX_LINE), "") if form.is_record(line))
        return list(islice(_split_lines(records, form), rows))


def _split_lines(lines: Iterator[str], form: TextFormat) -> Iterator[list[str]]:
    """Split lines into values. Python's reader only supports separators of one character."""
    if len(form.sep) != 1:
        return ([value.strip(form.quote or " ") for value in line.rstrip("\n").split(form.sep)] for line in lines)
    escape = form.escape if len(form.escape) == 1 and form.escape != form.quote else None
    if len(form.quote) != 1:
        return csv.reader(lines, delimiter=form.sep, quoting=csv.QUOTE_NONE, escapechar=escape)
    return csv.reader(lines, delimiter=form.sep, quotechar=form.quote, escapechar=escape)


def match_header(header: Sequence[str], schema: Sequence[str], required: Sequence[str]) -> Layout | HeaderProblem:
    """Find the columns of a schema in a file's header. A `required` column must occur exactly once.

    >>> match_header(["Bytes", " ms", "host"], ["ms", "bytes"], ["ms"])
    ('bytes', 'ms', None)
    """
    names = [name.strip().strip("\ufeff").strip() for name in header]
    layout: list[str | None] = [None] * len(names)
    for column in schema:
        indexes = [i for i, name in enumerate(names) if name == column]
        indexes = indexes or [i for i, name in enumerate(names) if name.lower() == column.lower()]
        if len(indexes) == 1:
            layout[indexes[0]] = column
        elif column in required and indexes:
            return HeaderProblem(f"its header has the column {column!r} {len(indexes)} times: {', '.join(names)}")
        elif column in required:
            return HeaderProblem(
                f"{column_missing(column, names)}; source.schema has {', '.join(schema)}. Is the first line a header?"
            )
    return tuple(layout)


def looks_like_header(rows: Sequence[Sequence[str]], schema: StructType) -> bool:
    """Return True if the first row names columns: it has no number where the schema has numeric columns."""
    if not rows or not rows[0]:
        return False
    first, names = [value.strip() for value in rows[0]], {name.lower() for name in schema.names}
    numeric = [value for value in _numeric_values(first, schema) if value]
    if any(map(_is_number, numeric)):
        return False
    matches = sum(value.lower() in names for value in first)
    if matches and (numeric or 2 * matches >= len(first)):
        return True
    like_names = bool(numeric) and all(
        COLUMN_NAME.fullmatch(value) and value.lower() not in NO_VALUE for value in numeric
    )
    return like_names and len(rows) > 1 and any(map(_is_number, _numeric_values(rows[1], schema)))


def layout_schema(layout: Layout, schema: StructType) -> StructType:
    """Return the schema in the order of a file; columns that it does not have are text."""
    types = {column.name: column.dataType for column in schema.fields}
    return StructType(
        [
            StructField(f"_quantide_other_{i}" if name is None else name, types[name] if name else StringType())
            for i, name in enumerate(layout)
        ]
    )


def resolve_names(columns: Sequence[str], schema: Sequence[str]) -> list[str]:
    """Return the names that a schema has for some columns."""
    return [name for column in columns if (name := find_name(column, list(schema))) is not None]


def _numeric_values(row: Sequence[str], schema: StructType) -> list[str]:
    """Return the values of a row in numeric columns."""
    return [
        value for value, column in zip(row, schema.fields, strict=False) if isinstance(column.dataType, NumericType)
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower().lstrip("+-") not in NO_VALUE


# JSON


def missing_json_column(storage: StorageOptions, path: str, form: TextFormat, required: Sequence[str]) -> str | None:
    """Return a reason if no object of a file has a required column. Most files are read up to line one only."""
    missing, names, objects = list(dict.fromkeys(required)), dict[str, None](), 0
    with open_lines(storage, path, form) as lines:
        for line in lines if form.is_lines else [lines.read(MAX_DOCUMENT)]:
            for parsed in _parse_objects(line):
                if not isinstance(parsed, str):
                    objects += 1
                    names |= dict.fromkeys(parsed)
                missing = [name for name in missing if name not in parsed]
            if not missing:
                return None
    return column_missing(missing[0], list(names)) if objects else None


def _parse_objects(line: str) -> Iterator[dict[str, Any] | str]:
    """Yield the objects of a line, or the text itself if Python cannot parse it: Spark may."""
    if not line.strip(BLANK):
        return
    try:
        document = json.loads(line)
    except ValueError:
        yield line
        return
    for item in document if isinstance(document, list) else [document]:
        if isinstance(item, dict):
            yield item
