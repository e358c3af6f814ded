"""Headers of CSV files: columns go by the names in each file's own header, never by their place in another one's."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pyspark.sql.types import NumericType, StringType, StructField, StructType

from quantide.spark.stream.lines import TextFormat, open_lines
from quantide.spark.stream.missing import column_missing
from quantide.spark.stream.text import find_name
from quantide.store.storage import Storage

Layout = tuple[str | None, ...]  # columns of the schema in the order of a file; None for one that is not in the schema

LONGEST = 1 << 20  # letters of a line that are read to find a header
WORD = re.compile(r"[^\W\d][\w .()/%\[\]-]*")  # what a column may be called
NO_VALUE = {"na", "n/a", "nan", "null", "none", "nil", "inf", "infinity", "true", "false"}


@dataclass(frozen=True)
class HeaderProblem:
    """Reason for which a file is not read."""

    text: str


def first_rows(storage: Storage, path: str, form: TextFormat, rows: int = 2) -> list[list[str]]:
    """The first rows of a CSV file that hold something, as text."""
    with open_lines(storage, path, form) as lines:
        kept = (line for line in iter(lambda: lines.readline(LONGEST), "") if form.holds_record(line))
        return list(islice(_cut(kept, form), rows))


def _cut(lines: Iterator[str], form: TextFormat) -> Iterator[list[str]]:
    """Lines cut into values. Python's reader knows separators of one letter only."""
    if len(form.sep) != 1:
        return ([value.strip(form.quote or " ") for value in line.rstrip("\n").split(form.sep)] for line in lines)
    escape = form.escape if len(form.escape) == 1 and form.escape != form.quote else None
    if len(form.quote) != 1:
        return csv.reader(lines, delimiter=form.sep, quoting=csv.QUOTE_NONE, escapechar=escape)
    return csv.reader(lines, delimiter=form.sep, quotechar=form.quote, escapechar=escape)


def match_header(header: Sequence[str], schema: Sequence[str], needed: Sequence[str]) -> Layout | HeaderProblem:
    """Find the columns of a schema in a file's header. One that is `needed` must be there once.

    >>> match_header(["Bytes", " ms", "host"], ["ms", "bytes"], ["ms"])
    ('bytes', 'ms', None)
    """
    names = [name.strip().strip("\ufeff").strip() for name in header]
    layout: list[str | None] = [None] * len(names)
    for column in schema:
        places = [i for i, name in enumerate(names) if name == column]
        places = places or [i for i, name in enumerate(names) if name.lower() == column.lower()]
        if len(places) == 1:
            layout[places[0]] = column
        elif column in needed and places:
            return HeaderProblem(f"its header has the column {column!r} {len(places)} times: {_list(names)}")
        elif column in needed:
            return HeaderProblem(
                f"{column_missing(column, names)}; source.schema has {_list(schema)}. Is the first line a header?"
            )
    return tuple(layout)


def looks_like_header(rows: Sequence[Sequence[str]], schema: StructType) -> bool:
    """Return True if the first of some rows names columns: it has no number where the schema wants one."""
    if not rows or not rows[0]:
        return False
    first, names = [value.strip() for value in rows[0]], {name.lower() for name in schema.names}
    numbers = [value for value in _numeric(first, schema) if value]
    if any(map(_is_number, numbers)):
        return False
    named = sum(value.lower() in names for value in first)
    if named and (numbers or 2 * named >= len(first)):
        return True
    words = bool(numbers) and all(WORD.fullmatch(value) and value.lower() not in NO_VALUE for value in numbers)
    return words and len(rows) > 1 and any(map(_is_number, _numeric(rows[1], schema)))


def layout_schema(layout: Layout, schema: StructType) -> StructType:
    """The schema in the order of a file; columns that are not in it are text."""
    fields = {column.name: column.dataType for column in schema.fields}
    return StructType(
        [
            StructField(f"_quantide_other_{i}" if name is None else name, fields[name] if name else StringType())
            for i, name in enumerate(layout)
        ]
    )


def needed_columns(used: Sequence[str], schema: Sequence[str]) -> list[str]:
    """The names that a schema has for columns in use."""
    return [name for column in used if (name := find_name(column, list(schema))) is not None]


def _numeric(row: Sequence[str], schema: StructType) -> list[str]:
    """The values of a row that are to be numbers."""
    return [
        value for value, column in zip(row, schema.fields, strict=False) if isinstance(column.dataType, NumericType)
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower().lstrip("+-") not in NO_VALUE


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
