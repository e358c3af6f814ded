"""Origin of rows: the file and the line that a row comes from, and the column at fault in lines Spark cannot read.

For each row of a text file (CSV, JSON, text) Spark gives the block of the file, and a number that grows within the
block. The row counts of the blocks give the number of the record in its file; the file itself gives the lines without
a record.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.spark.row_source import quote_name
from quantide.store.location import StorageOptions

SOURCE_FILE = "_quantide_file"  # column of the file that a row comes from, where Spark reads files
LINE = "_quantide_line"  # column of the line in a text file, or of the row in any other file
RAW_RECORD = "_quantide_record"  # column of a Kafka record that cannot be decoded: all of it, as JSON
REASON, COLUMN = "_quantide_reason", "_quantide_column"  # columns of a bad row: the reason, and the column at fault
ROW, BLOCK = "=row", "=block"  # columns that Spark adds: a number that grows, and the offset of the block in the file
CORRUPT = "_corrupt_record"  # column for the text of CSV, JSON and XML records that Spark cannot read
CORRUPT_FORMATS = ("csv", "json", "xml")
TEXT_FORMATS = ("csv", "json", "text")
BLANK = "".join(map(chr, range(33)))  # characters that Java treats as white space
MALFORMED = {"csv": "the {} has fewer or more columns than there should be", "json": "the {} is not JSON"}
LINE_OPTIONS = ("sep", "delimiter", "quote", "escape", "comment", "ignoreleadingwhitespace", "ignoretrailingwhitespace",
                "nullvalue", "emptyvalue", "allowcomments", "allowunquotedfieldnames", "allowsinglequotes",
                "allownumericleadingzeros", "allowbackslashescapinganycharacter")  # fmt: skip


@dataclass(frozen=True)
class TextFormat:
    """Format of the records in a text file, by the options of its source."""

    kind: str
    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    comment: str = ""
    encoding: str = "utf-8-sig"
    header: bool = False
    is_lines: bool = True

    @classmethod
    def of(cls, kind: str, options: Mapping[str, str]) -> "TextFormat":
        lower = {name.lower(): value for name, value in options.items()}

        def flag(name: str) -> bool:
            return lower.get(name, "").lower() == "true"

        return cls(
            kind,
            sep=_unescape(lower.get("sep", lower.get("delimiter", ","))),
            quote=lower.get("quote", '"'),
            escape=lower.get("escape", "\\"),
            comment=lower.get("comment", ""),
            encoding=_python_encoding(lower.get("encoding", lower.get("charset", "utf-8"))),
            header=kind == "csv" and flag("header"),
            is_lines=kind in TEXT_FORMATS
            and not flag("multiline")
            and not flag("wholetext")
            and "linesep" not in lower,
        )

    def is_record(self, line: str) -> bool:
        """Return True if Spark makes a row of a line; a header is not considered."""
        if self.kind == "text":
            return True
        return bool(line.strip(BLANK)) and not (self.comment and line.startswith(self.comment))


@dataclass(frozen=True)
class LineNumbers:
    """Blocks of text files, each with the number of its first row and the count of records before it."""

    form: TextFormat
    storage: StorageOptions
    blocks: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, form: TextFormat, storage: StorageOptions, counted: Sequence[Mapping[str, Any]]) -> "LineNumbers":
        """Make it from the path, block, first row and number of rows of each block."""
        blocks: dict[tuple[str, int], tuple[int, int]] = {}
        before: dict[str, int] = {}
        for block in sorted(counted, key=lambda block: (block["path"], block["block"])):
            path = block["path"]
            blocks[path, block["block"]] = (block["first"], before.get(path, 0))
            before[path] = before.get(path, 0) + block["rows"]
        return cls(form, storage, blocks)

    def find_lines(self, paths: Sequence[str], blocks: Sequence[int], rows: Sequence[int]) -> list[int | None]:
        """Return the line of each row, from 1 on; None if it is not known any more."""
        records = [self._record_number(*position) for position in zip(paths, blocks, rows, strict=True)]
        by_path: dict[str, set[int]] = {}
        for path, record in zip(paths, records, strict=True):
            if record is not None:
                by_path.setdefault(path, set()).add(record)
        lines = {path: self._find_in_file(path, numbers) for path, numbers in by_path.items()}
        return [None if r is None else lines[path].get(r) for path, r in zip(paths, records, strict=True)]

    def _record_number(self, path: str, block: int, row: int) -> int | None:
        first, before = self.blocks.get((path, block), (None, 0))
        return None if first is None else before + row - first

    def _find_in_file(self, path: str, records: set[int]) -> dict[int, int]:
        """Return the lines of some records of a file, by their number from 0 on."""
        lines: dict[int, int] = {}
        try:
            for record, (line, text) in enumerate(self._records(path)):
                if self.form.kind == "json" and text.lstrip(BLANK).startswith("["):
                    break  # the line has several records: those after it cannot be counted
                if record in records:
                    lines[record] = line
                if len(lines) == len(records):
                    break
        except (OSError, UnicodeError, LookupError, pa.ArrowException):
            return {}  # the file was removed, or compressed by a codec of Hadoop's own
        return lines

    def _records(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the lines that are records, without the header."""
        with open_lines(self.storage, path, self.form) as lines:
            records = ((n, line) for n, line in zip(count(1), lines, strict=False) if self.form.is_record(line))
            if self.form.header:
                next(records, None)
            yield from records


def open_lines(storage: StorageOptions, path: str, form: TextFormat) -> io.TextIOWrapper:
    """Open a text file, decompressed by its suffix. Lines end with LF, CR or both, as in Spark."""
    filesystem, file_path = storage.locate(path)
    stream: Any = filesystem.open_input_stream(file_path, compression="detect")
    return io.TextIOWrapper(stream, encoding=form.encoding, errors="replace", newline=None)


def count_blocks(table: pa.Table, path: str) -> list[dict[str, Any]]:
    """Count the rows of a table by file and block, for LineNumbers.of; `path` is the column of paths."""
    groups = table.group_by([path, BLOCK]).aggregate([(ROW, "min"), (ROW, "count")]).to_pylist()
    return [
        {"path": group[path], "block": group[BLOCK], "first": group[f"{ROW}_min"], "rows": group[f"{ROW}_count"]}
        for group in groups
    ]


def row_numbers(mask: NDArray[np.bool_]) -> pa.Array:
    """Return the numbers of the rows in a mask, from 1 on."""
    return pa.array(np.flatnonzero(mask) + 1, pa.int64())


def _python_encoding(name: str) -> str:
    """Return Python's name for an encoding; a byte order mark is not part of the first line."""
    return "utf-8-sig" if name.lower().replace("_", "-") in ("utf-8", "utf8") else name


def _unescape(text: str) -> str:
    return {"\\t": "\t"}.get(text, text)


@dataclass(frozen=True)
class RowOrigin:
    """Columns with the origin of rows, and with the reason and column of errors in those that Spark cannot read."""

    columns: tuple[Column, ...] = ()
    errors: tuple[Column, ...] = ()
    error_columns: tuple[Column, ...] = ()


NO_ORIGIN = RowOrigin()


def origin_of_files(
    frame: DataFrame,
    form: TextFormat,
    schema: StructType | None,
    options: Mapping[str, str],
    prefix: tuple[str, str] = ("", ""),
) -> RowOrigin:
    """Return the origin of rows of files; `schema` has the columns of a text file in its own order.

    `prefix` is the beginning of the paths of local copies, and the beginning of the URIs that they are copies of.
    """
    if SOURCE_FILE in frame.columns:  # rows of the quarantine have it already
        return RowOrigin(tuple(F.col(name) for name in (SOURCE_FILE, LINE, REASON, COLUMN) if name in frame.columns))
    path = F.regexp_replace("_metadata.file_path", "^file:(//)?(?=/)", "")
    columns = [(F.replace(path, F.lit(prefix[0]), F.lit(prefix[1])) if prefix[0] else path).alias(SOURCE_FILE)]
    if form.kind == "parquet":
        columns.append((F.col("_metadata.row_index") + 1).alias(LINE))
    if form.is_lines:
        columns += [
            F.monotonically_increasing_id().alias(ROW),
            F.col("_metadata.file_block_start").alias(BLOCK),
        ]
    if form.kind not in MALFORMED or schema is None:
        return RowOrigin(tuple(columns))
    return RowOrigin(tuple(columns), *find_error_columns(form.kind, schema, options))


def find_error_columns(
    kind: str, schema: StructType, options: Mapping[str, str], noun: str = "line"
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Parse lines that Spark cannot read once more as text: a column that is null only in its own type is at fault."""
    names = [*schema.names, CORRUPT]
    line_options = {name: value for name, value in options.items() if name.lower() in LINE_OPTIONS}
    text = ", ".join(f"{quote_name(name)} STRING" for name in names)
    parsed = (F.from_csv if kind == "csv" else F.from_json)(F.col(CORRUPT), text, line_options)
    errors = [F.when(parsed[CORRUPT].isNotNull(), F.lit(MALFORMED[kind].format(noun)))]
    error_columns = [F.when(parsed[CORRUPT].isNotNull(), F.lit(""))]
    for column in schema.fields:
        wrong = F.col(quote_name(column.name)).isNull() & parsed[column.name].isNotNull()
        type_name = column.dataType.simpleString().upper()
        errors.append(F.when(wrong, F.lit(f"the column {column.name} is not {type_name}")))
        error_columns.append(F.when(wrong, F.lit(column.name)))
    corrupt = F.col(CORRUPT).isNotNull()
    return (F.when(corrupt, F.coalesce(*errors)),), (F.when(corrupt, F.coalesce(*error_columns)),)
