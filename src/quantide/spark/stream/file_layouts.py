"""File layouts: the columns of a batch's text files and their order, read from the files themselves."""

import csv
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from quantide.config import StreamConfig
from quantide.errors import ConfigError
from quantide.spark.stream.batch_task import READ_ERRORS, SCHEMA_CHANGED
from quantide.spark.stream.column_matching import (
    HEADER,
    HeaderProblem,
    Layout,
    as_sentence,
    column_missing,
    first_rows,
    layout_schema,
    looks_like_header,
    match_header,
    missing_json_column,
    resolve_names,
)
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.row_origin import TextFormat
from quantide.store.ingest_log import QUARANTINED, WAITING, IngestedFile
from quantide.store.location import StorageOptions

NAMED_FORMATS = ("csv", "json")  # formats whose files name their columns, or have them in some order
THREADS = 16  # files that are opened at once: an object store is slow

Failure = tuple[str, str]  # state and reason
FolderKeys = Callable[[str], Iterable[tuple[str, object]]]


class FileLayouts:
    """Layouts of a stream's files."""

    def __init__(self, stream: StreamConfig, storage: StorageOptions, selection: ColumnSelection) -> None:
        self._stream, self._storage, self._selection = stream, storage, selection
        self._first_rows: dict[str, list[list[str]]] = {}

    def find_failures(self, files: Sequence[IngestedFile], form: str, folder_keys: FolderKeys) -> dict[str, Failure]:
        """Return, by path, files that must not be read: they lack a column, or begin with an unexpected header."""
        source = self._stream.source
        if form != source.format or not source.schema:
            return {}
        schema, text = parse_schema(source.schema), TextFormat.of(form, source.options)

        def check(file: IngestedFile) -> Failure | None:
            names = [*schema.names, *(name for name, _ in folder_keys(file.path))]
            missing = self._selection.missing_columns(names)
            if missing:
                return QUARANTINED, f"{SCHEMA_CHANGED}: {column_missing(missing[0], names)}"
            try:
                reason = self._find_mismatch(file, text, schema)
            except (*READ_ERRORS, LookupError, csv.Error) as error:
                return WAITING, str(error)
            return None if reason is None else (QUARANTINED, reason)

        if form not in NAMED_FORMATS:
            return {}
        with ThreadPoolExecutor(THREADS) as pool:
            checked = zip(files, pool.map(check, files), strict=True)
            return {file.path: failure for file, failure in checked if failure is not None}

    def group_files(self, files: Sequence[IngestedFile], form: str) -> dict[StructType | None, list[IngestedFile]]:
        """Group files by the schema that Spark reads them with; None is the source's own."""
        source = self._stream.source
        if form != source.format or not source.schema or form not in NAMED_FORMATS:
            return {None: list(files)}
        schema, text = parse_schema(source.schema), TextFormat.of(form, source.options)
        if not text.header:
            return {schema: list(files)}

        def find_layout(file: IngestedFile) -> Layout:
            rows = self._read_first_rows(file, text)
            layout = match_header(rows[0] if rows else [], schema.names, [])
            return () if isinstance(layout, HeaderProblem) else layout

        by_layout: dict[Layout, list[IngestedFile]] = {}
        with ThreadPoolExecutor(THREADS) as pool:
            for file, layout in zip(files, pool.map(find_layout, files), strict=True):
                by_layout.setdefault(layout, []).append(file)
        return {layout_schema(layout, schema): same for layout, same in by_layout.items() if layout}

    def _find_mismatch(self, file: IngestedFile, text: TextFormat, schema: StructType) -> str | None:
        """Return the reason why a file does not match the schema; None if it does."""
        required = resolve_names(self._selection.required_columns, schema.names)
        if text.kind == "json":
            reason = missing_json_column(self._storage, file.path, text, required)
            return None if reason is None else f"{SCHEMA_CHANGED}: {reason}"
        rows = self._read_first_rows(file, text)
        if text.header:
            layout = match_header(rows[0], schema.names, required) if rows else ()
            return f"{SCHEMA_CHANGED}: {layout.text}" if isinstance(layout, HeaderProblem) else None
        if looks_like_header(rows, schema):
            return (
                f"{HEADER}: {', '.join(rows[0])}. Set {self._stream.key}.source.options = {{ header = true }}, or "
                "remove that line"
            )
        return None

    def _read_first_rows(self, file: IngestedFile, text: TextFormat) -> list[list[str]]:
        if file.path not in self._first_rows:
            self._first_rows[file.path] = first_rows(self._storage, file.path, text)
        return self._first_rows[file.path]


def parse_schema(ddl: str) -> StructType:
    """Parse the columns of source.schema."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def check_schema(stream: StreamConfig, selection: ColumnSelection) -> None:
    """Raise ConfigError if source.schema cannot be parsed, or lacks the columns of the value or the time."""
    if not stream.source.schema:
        return
    try:
        names = parse_schema(stream.source.schema).names
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{stream.key}.source.schema is {stream.source.schema!r}, which is not a list of columns: {reason}. Write "
            '"ts TIMESTAMP, latency_ms DOUBLE"'
        ) from error
    folders = stream.keys if stream.source.is_files else ()  # names of folders may be keys
    missing = [name for name in selection.missing_columns(names) if name not in folders]
    if missing:
        reason = as_sentence(column_missing(missing[0], names))
        raise ConfigError(f"{stream.key}.source.schema: {reason} Correct the schema or the name of the column")
