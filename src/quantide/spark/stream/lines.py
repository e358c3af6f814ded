"""Lines of text files: CSV, JSON and text as Spark cuts them into records, and the line each record is on.

Spark tells for a row which block of a file it came from, and numbers rows upwards within a block. With the rows of each
block counted, that gives the number of the record in its file; the file itself tells which lines hold no record.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.store.storage import Storage

BLANK = "".join(map(chr, range(33)))  # letters that Java takes for white space
TEXT_FORMATS = ("csv", "json", "text")
ROW, BLOCK = "=row", "=block"  # columns that Spark adds: a number that grows, and where the block of the file begins


@dataclass(frozen=True)
class TextFormat:
    """Layout of records in a text file, by the options of its source."""

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
        given = {name.lower(): value for name, value in options.items()}

        def flag(name: str) -> bool:
            return given.get(name, "").lower() == "true"

        return cls(
            kind,
            sep=_unescaped(given.get("sep", given.get("delimiter", ","))),
            quote=given.get("quote", '"'),
            escape=given.get("escape", "\\"),
            comment=given.get("comment", ""),
            encoding=_encoding(given.get("encoding", given.get("charset", "utf-8"))),
            header=kind == "csv" and flag("header"),
            is_lines=kind in TEXT_FORMATS
            and not flag("multiline")
            and not flag("wholetext")
            and "linesep" not in given,
        )

    def holds_record(self, line: str) -> bool:
        """Return True if Spark makes a row of a line, headers aside."""
        if self.kind == "text":
            return True
        return bool(line.strip(BLANK)) and not (self.comment and line.startswith(self.comment))


@dataclass(frozen=True)
class Numbering:
    """Number of the first row of each block of a file, and how many records of the file come before it."""

    form: TextFormat
    storage: Storage
    blocks: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, form: TextFormat, storage: Storage, counted: Sequence[Mapping[str, Any]]) -> "Numbering":
        """`counted` has path, block, first row and number of rows of each block."""
        blocks: dict[tuple[str, int], tuple[int, int]] = {}
        before: dict[str, int] = {}
        for one in sorted(counted, key=lambda one: (one["path"], one["block"])):
            path = one["path"]
            blocks[path, one["block"]] = (one["first"], before.get(path, 0))
            before[path] = before.get(path, 0) + one["rows"]
        return cls(form, storage, blocks)

    def lines(self, paths: Sequence[str], blocks: Sequence[int], rows: Sequence[int]) -> list[int | None]:
        """The line of each row, from 1 on; None where it cannot be known any more."""
        records = [self._record(*place) for place in zip(paths, blocks, rows, strict=True)]
        wanted: dict[str, set[int]] = {}
        for path, record in zip(paths, records, strict=True):
            if record is not None:
                wanted.setdefault(path, set()).add(record)
        found = {path: self._find(path, numbers) for path, numbers in wanted.items()}
        return [None if r is None else found[path].get(r) for path, r in zip(paths, records, strict=True)]

    def _record(self, path: str, block: int, row: int) -> int | None:
        first, before = self.blocks.get((path, block), (None, 0))
        return None if first is None else before + row - first

    def _find(self, path: str, records: set[int]) -> dict[int, int]:
        """Lines of some records of a file, by their number from 0 on."""
        found: dict[int, int] = {}
        try:
            for record, (line, text) in enumerate(self._records(path)):
                if self.form.kind == "json" and text.lstrip(BLANK).startswith("["):
                    break  # a line of several records: those behind it cannot be counted
                if record in records:
                    found[record] = line
                if len(found) == len(records):
                    break
        except (OSError, UnicodeError, LookupError, pa.ArrowException):
            return {}  # the file is gone, or was compressed by a codec of Hadoop's own
        return found

    def _records(self, path: str) -> Iterator[tuple[int, str]]:
        """Lines that are records, headers left out."""
        with open_lines(self.storage, path, self.form) as lines:
            kept = ((n, line) for n, line in zip(count(1), lines, strict=False) if self.form.holds_record(line))
            if self.form.header:
                next(kept, None)
            yield from kept


def open_lines(storage: Storage, path: str, form: TextFormat) -> io.TextIOWrapper:
    """A text file, decompressed by the end of its name. Lines end with LF, CR or both, as in Spark."""
    filesystem, place = storage.locate(path)
    stream: Any = filesystem.open_input_stream(place, compression="detect")
    return io.TextIOWrapper(stream, encoding=form.encoding, errors="replace", newline=None)


def count_blocks(table: pa.Table, path: str) -> list[dict[str, Any]]:
    """Rows of a table by file and block, as Numbering.of wants them; `path` is the column of paths."""
    grouped = table.group_by([path, BLOCK]).aggregate([(ROW, "min"), (ROW, "count")]).to_pylist()
    return [
        {"path": one[path], "block": one[BLOCK], "first": one[f"{ROW}_min"], "rows": one[f"{ROW}_count"]}
        for one in grouped
    ]


def positions(mask: NDArray[np.bool_]) -> pa.Array:
    """Rows that are chosen, by their number from 1 on."""
    return pa.array(np.flatnonzero(mask) + 1, pa.int64())


def _encoding(name: str) -> str:
    """Python's name for an encoding; a mark at the beginning of a file is no part of its first line."""
    return "utf-8-sig" if name.lower().replace("_", "-") in ("utf-8", "utf8") else name


def _unescaped(text: str) -> str:
    return {"\\t": "\t"}.get(text, text)
