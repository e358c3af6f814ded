"""Layouts: which columns the text files of a batch have, and in which order, looked up in the files themselves."""

import csv
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from quantide.config import StreamConfig
from quantide.errors import ConfigError
from quantide.spark.stream.csv_header import (
    HeaderProblem,
    first_rows,
    layout_schema,
    looks_like_header,
    match_header,
    needed_columns,
)
from quantide.spark.stream.json_names import json_problem
from quantide.spark.stream.lines import TextFormat
from quantide.spark.stream.missing import HEADER, column_missing
from quantide.spark.stream.selection import Selection
from quantide.spark.stream.work import CHANGED, UNREADABLE
from quantide.store.ledger import HELD, WAITING, SourceFile
from quantide.store.storage import Storage

LAID_OUT = ("csv", "json")  # formats whose files name their columns, or have them in some order
AT_ONCE = 16  # files that are opened together: an object store takes its time

Failure = tuple[str, str]
FolderKeys = Callable[[str], Iterable[tuple[str, object]]]


class Layouts:
    """The layouts of a stream's files."""

    def __init__(self, stream: StreamConfig, storage: Storage, selection: Selection) -> None:
        self._stream, self._storage, self._selection = stream, storage, selection
        self._first: dict[str, list[list[str]]] = {}

    def problems(self, files: Sequence[SourceFile], form: str, keys_of: FolderKeys) -> dict[str, Failure]:
        """Files that must not be read, by path: they lack a column, or their first line is a header that is not
        expected."""
        source = self._stream.source
        if form != source.format or not source.schema:
            return {}
        schema, text = parse_schema(source.schema), TextFormat.of(form, source.options)

        def problem(file: SourceFile) -> Failure | None:
            names = [*schema.names, *(name for name, _ in keys_of(file.path))]
            missing = self._selection.missing(names)
            if missing:
                return HELD, f"{CHANGED}: {column_missing(missing[0], names)}"
            try:
                reason = self._problem(file, text, schema)
            except (*UNREADABLE, LookupError, csv.Error) as error:
                return WAITING, str(error)
            return None if reason is None else (HELD, reason)

        if form not in LAID_OUT:
            return {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = zip(files, pool.map(problem, files), strict=True)
            return {file.path: failure for file, failure in found if failure is not None}

    def of_files(self, files: Sequence[SourceFile], form: str) -> dict[StructType | None, list[SourceFile]]:
        """Files by the schema that Spark is to read them with; None where it is the source's own."""
        source = self._stream.source
        if form != source.format or not source.schema or form not in LAID_OUT:
            return {None: list(files)}
        schema, text = parse_schema(source.schema), TextFormat.of(form, source.options)
        if not text.header:
            return {schema: list(files)}

        def layout(file: SourceFile) -> tuple[str | None, ...]:
            rows = self._rows(file, text)
            found = match_header(rows[0] if rows else [], schema.names, [])
            return () if isinstance(found, HeaderProblem) else found

        alike: dict[tuple[str | None, ...], list[SourceFile]] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for file, found in zip(files, pool.map(layout, files), strict=True):
                alike.setdefault(found, []).append(file)
        return {layout_schema(found, schema): same for found, same in alike.items() if found}

    def _problem(self, file: SourceFile, text: TextFormat, schema: StructType) -> str | None:
        needed = needed_columns(self._selection.required, schema.names)
        if text.kind == "json":
            reason = json_problem(self._storage, file.path, text, needed)
            return None if reason is None else f"{CHANGED}: {reason}"
        rows = self._rows(file, text)
        if text.header:
            found = match_header(rows[0], schema.names, needed) if rows else ()
            return f"{CHANGED}: {found.text}" if isinstance(found, HeaderProblem) else None
        if looks_like_header(rows, schema):
            return (
                f"{HEADER}: {', '.join(rows[0])}. Set {self._stream.key}.source.options = {{ header = true }}, or "
                "remove that line"
            )
        return None

    def _rows(self, file: SourceFile, text: TextFormat) -> list[list[str]]:
        if file.path not in self._first:
            self._first[file.path] = first_rows(self._storage, file.path, text)
        return self._first[file.path]


def parse_schema(ddl: str) -> StructType:
    """The columns of source.schema."""
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def check_schema(stream: StreamConfig, selection: Selection) -> None:
    """Refuse a source.schema that is none, or that lacks the columns of the value and the time."""
    if not stream.source.schema:
        return
    try:
        names = parse_schema(stream.source.schema).names
    except PySparkException as error:
        told = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{stream.key}.source.schema is {stream.source.schema!r}, which is not a list of columns: {told}. Write "
            '"ts TIMESTAMP, latency_ms DOUBLE"'
        ) from error
    folders = stream.keys if stream.source.is_files else ()  # names of folders may be keys
    missing = [name for name in selection.missing(names) if name not in folders]
    if missing:
        raise ConfigError(f"{stream.key}.source.schema: {column_missing(missing[0], names)}; correct one of the two")
