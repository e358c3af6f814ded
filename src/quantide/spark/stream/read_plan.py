"""Read plans: how the data of a batch is read. Tasks read Parquet themselves; Spark reads any other format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.config import StreamConfig
from quantide.errors import QuantideError
from quantide.spark.source_files import (
    MIN_SPLIT,
    FileAccess,
    SourceDataFile,
    SourceFiles,
    Split,
    open_file,
    plan_splits,
)
from quantide.spark.spark_session import count_cores
from quantide.spark.stream.batch_task import FILE_CHANGED, READ_ERRORS, SCHEMA_CHANGED
from quantide.spark.stream.column_matching import column_missing
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.file_layouts import NAMED_FORMATS, FileLayouts, parse_schema
from quantide.spark.stream.frame_tasks import frame_schema
from quantide.spark.stream.kafka_reader import choose_reader, select_raw
from quantide.spark.stream.kafka_records import decode_records, record_origin, unpack_records
from quantide.spark.stream.local_copies import LocalCopies, copy_objects
from quantide.spark.stream.record_reader import RecordReader
from quantide.spark.stream.row_origin import (
    BLOCK,
    CORRUPT,
    CORRUPT_FORMATS,
    NO_ORIGIN,
    RAW_RECORD,
    SOURCE_FILE,
    LineNumbers,
    TextFormat,
    count_blocks,
    origin_of_files,
)
from quantide.spark.stream.source_access import source_access
from quantide.spark.stream.staged_rows import read_stored_files, stage_rows
from quantide.spark.stream.stream_source import SPARK_ERRORS, first_line, stat_file
from quantide.store.ingest_log import QUARANTINED, WAITING, IngestedFile
from quantide.store.location import StorageOptions
from quantide.store.storage import Storage

MAX_TASK_BYTES = 64 << 20  # bytes of files that a task reads, all of them before it sorts any
MAX_TABLE_ROWS = 100_000  # rows that Spark sends to the driver; more are staged as files
SPARK_BATCHES = 100  # batches that Spark decodes after one with too many records that the reader refuses
OTHER_TYPES = "its columns have other types than those of other files; it is read in a later batch"

Failures = dict[str, tuple[str, str]]  # state and reason, by path
SchemaCheck = Callable[[pa.Schema, pa.Schema], str | None]  # of the first file's schema and another file's; a reason


@dataclass(frozen=True)
class ReadPlan:
    """Splits of Parquet files, or a table, to read; and the files that cannot be read."""

    splits: tuple[Split, ...] = ()
    files: FileAccess = field(default_factory=StorageOptions)
    table: pa.Table | None = None
    schema: pa.Schema | None = None
    failed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    staged: bool = False
    frame: DataFrame | None = None  # rows that Spark tasks ingest as they read them
    partitions: int = 0  # of the frame
    reader: RecordReader | None = None  # decodes the rows, which are raw records of Kafka
    records: DataFrame | None = None  # those records, if Spark must decode them after all
    line_numbers: LineNumbers | None = None

    @property
    def size(self) -> int:
        return sum(piece.size for split in self.splits for piece in split)

    @property
    def tasks(self) -> int:
        return self.partitions or len(self.splits)

    @property
    def is_direct(self) -> bool:
        """Return True if tasks read the source files themselves."""
        return not self.staged and self.table is None and self.frame is None


class ReadPlanner:
    """Makes read plans for files of a stream, or of its store (`files`), or for the rows of a micro-batch."""

    def __init__(
        self,
        stream: StreamConfig,
        session: SparkSession,
        files: FileAccess,
        store: Storage,
        selection: ColumnSelection,
    ) -> None:
        self._stream, self._session, self._files, self._store = stream, session, files, store
        self._selection, self._source = selection, source_access(stream.source)
        self._copies = LocalCopies()
        self._reader, self._spark_batches = choose_reader(stream, selection), 0
        self.uses_spark = False  # True if Spark reads Parquet, because only Spark can compute the expressions

    def plan_files(self, files: Sequence[IngestedFile], form: str, name: str, check: SchemaCheck) -> ReadPlan:
        """Plan how to read files; `name` is that of their batch."""
        if form != "parquet":
            return self._plan_by_spark(files, form, name)
        first = self._first_schema(files)
        if first is None or self._selection.is_plain(first):
            return self._plan_parquet(files, first)
        self.uses_spark = True
        failed = self._check_schemas(files, first, check)
        plan = self._plan_by_spark([file for file in files if file.path not in failed], form, name)
        added = [column for column in plan.schema or () if column.name.startswith("=")]
        return replace(plan, schema=pa.schema([*first, *added]), failed={**plan.failed, **failed})

    def has_columns(self, file: IngestedFile) -> bool:
        """Return True if a file has the required columns."""
        form = self._stream.source.file_format
        try:
            if form == "parquet":
                return not self._selection.missing_columns(self._read_schema(file).names)
            layouts = FileLayouts(self._stream, self._source, self._selection)
            return form in NAMED_FORMATS and not layouts.find_failures([file], form, self._folder_keys)
        except READ_ERRORS:
            return False

    def plan_rows(self, frame: DataFrame, name: str, rows: int | None = None) -> ReadPlan:
        """Plan how to read the rows of a source that is not files; `rows` is their number, if it is known."""
        reader = self._choose_reader() if rows is not None else None
        if reader is None:
            return self._plan_decoded(frame, name, rows)
        raw = select_raw(frame, self._stream, reader)
        plan = self._plan_frame(raw, name, rows)
        return replace(plan, schema=reader.row_schema(frame_schema(raw)), reader=reader, records=frame)

    def _choose_reader(self) -> RecordReader | None:
        """Return the reader of Kafka records; None for some batches after one that Spark had to decode."""
        self._spark_batches = max(0, self._spark_batches - 1)
        return None if self._spark_batches else self._reader

    def plan_by_spark(self, plan: ReadPlan, name: str, rows: int | None) -> ReadPlan:
        """Plan that Spark decodes the records of a plan, and those of the next batches."""
        assert plan.records is not None
        self._spark_batches = SPARK_BATCHES
        return self._plan_decoded(plan.records, name, rows)

    def decode_refused(self, refused: Sequence[str]) -> pa.Table:
        """Let Spark decode records that the reader refused."""
        records = self._session.createDataFrame(pa.table({RAW_RECORD: pa.array(refused, pa.string())}))
        return self._decode_frame(unpack_records(records)).toArrow()

    def _plan_decoded(self, frame: DataFrame, name: str, rows: int | None) -> ReadPlan:
        return self._plan_frame(self._decode_frame(frame), name, rows)

    def _decode_frame(self, frame: DataFrame) -> DataFrame:
        """Return the columns that the stream uses, decoded by Spark."""
        origin = record_origin() if self._stream.source.is_kafka else NO_ORIGIN
        if self._stream.source.decode is not None:
            frame, origin = decode_records(frame, self._stream)
        return self._selection.compute(frame, origin)

    def _plan_frame(self, frame: DataFrame, name: str, rows: int | None) -> ReadPlan:
        if rows is None:
            return self._stage(frame, name)
        if rows <= MAX_TABLE_ROWS:
            table = frame.toArrow()
            return ReadPlan(table=table, schema=table.schema)
        partitions = int(frame._jdf.queryExecution().toRdd().getNumPartitions())
        return ReadPlan(frame=frame, partitions=partitions, schema=frame_schema(frame))

    def plan_records(self, names: Sequence[str], batch: str) -> ReadPlan:
        """Plan how to decode Kafka records of the quarantine again; `names` are files of the store."""
        frames = map(unpack_records, read_stored_files(self._session, self._store, names))
        return self.plan_rows(reduce(DataFrame.unionByName, frames), batch)

    def _plan_parquet(self, files: Sequence[IngestedFile], schema: pa.Schema | None) -> ReadPlan:
        """Plan Parquet files that Arrow reads: values never cross the JVM."""
        data_files = [SourceDataFile(file.path, file.size, self._keys(file)) for file in files]
        used = self._selection.used_columns(schema.names) if schema is not None else []
        failed: Failures = {}
        try:
            splits = self._plan_splits(data_files, used, self._files)
        except QuantideError:  # of a large file, whose footer is read to cut it
            splits = []
            for file in data_files:
                try:
                    splits += self._plan_splits([file], used, self._files)
                except QuantideError as error:
                    failed[file.uri] = (WAITING, str(error))
        return ReadPlan(tuple(splits), self._files, None, schema, failed)

    def _plan_splits(self, files: Sequence[SourceDataFile], columns: Sequence[str], storage: FileAccess) -> list[Split]:
        """Plan a task for each core, or more if that is too much for one: starting tasks takes longer than sorting."""
        all_files, tasks = SourceFiles(tuple(files), pa.schema([])), count_cores(self._session)
        size = min(MAX_TASK_BYTES, max(MIN_SPLIT, all_files.size * 11 // (10 * tasks)))  # row groups do not fit exactly
        return plan_splits(all_files, columns, tasks, storage, size)

    def _plan_by_spark(self, files: Sequence[IngestedFile], form: str, name: str) -> ReadPlan:
        """Plan files that only Spark can read, or expressions that only Spark can compute."""
        layouts = FileLayouts(self._stream, self._source, self._selection)
        failed = layouts.find_failures(files, form, self._folder_keys)
        files = [file for file in files if file.path not in failed]
        with copy_objects(files, self._files, self._session, self._stream.key) as self._copies:
            return self._plan_copied(files, form, name, layouts, failed)

    def _plan_copied(
        self, files: Sequence[IngestedFile], form: str, name: str, layouts: FileLayouts, failed: Failures
    ) -> ReadPlan:
        """Plan files that Spark can open; those that fail are left out."""
        while files:
            try:
                frame = self._compute_rows(files, form, layouts)
                plan = ReadPlan() if frame is None else self._stage(frame, name, form)
                changed = [file for file in files if self._has_changed(file)]
                failures = {file.path: (WAITING, FILE_CHANGED) for file in changed}
                if not failures:
                    return replace(plan, failed=failed)
            except SPARK_ERRORS:
                failures = {file.path: reason for file in files if (reason := self._try_file(file, form, layouts))}
                failures = failures or self._find_other_types(files, form)
                if not failures:
                    raise
            failed |= failures
            files = [file for file in files if file.path not in failed]
        return ReadPlan(failed=failed)

    def _try_file(self, file: IngestedFile, form: str, layouts: FileLayouts) -> tuple[str, str] | None:
        """Let Spark read one file; return the failure, or None."""
        try:
            (frame,) = self._read([file], form, None)
            missing = self._selection.missing_columns(frame.columns)
            if missing:
                return QUARANTINED, f"{SCHEMA_CHANGED}: {column_missing(missing[0], frame.columns)}"
            if (rows := self._compute_rows([file], form, layouts)) is not None:
                rows.write.format("noop").mode("append").save()
        except SPARK_ERRORS as error:
            return WAITING, first_line(error)
        return None

    def _find_other_types(self, files: Sequence[IngestedFile], form: str) -> Failures:
        """Return Parquet files whose used columns have other types than those of the first one: Spark can read each
        alone, and not all at once. They are read in a later batch.
        """
        if form != "parquet":
            return {}
        schemas = [self._read_schema(file) for file in files]
        used = [self._selection.used_columns(schema.names) for schema in schemas]
        types = [{name: schema.field(name).type for name in names} for schema, names in zip(schemas, used, strict=True)]
        return {file.path: (WAITING, OTHER_TYPES) for file, own in zip(files, types, strict=True) if own != types[0]}

    def _compute_rows(self, files: Sequence[IngestedFile], form: str, layouts: FileLayouts) -> DataFrame | None:
        """Read files, each in the order of its own columns; None if no file has a line."""
        options, frames = self._stream.source.options, []
        for schema, alike in layouts.group_files(files, form).items():
            for frame in self._read(alike, form, schema):
                origin = origin_of_files(frame, TextFormat.of(form, options), schema, options, self._copies.prefix)
                frames.append(self._selection.compute(self._add_missing(frame, schema), origin))
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames) if frames else None

    def _add_missing(self, frame: DataFrame, schema: StructType | None) -> DataFrame:
        """Add columns of the stream's schema that a CSV file lacks, as nulls."""
        if schema is None:
            return frame
        columns = parse_schema(self._stream.source.schema or "").fields
        return frame.withColumns(
            {column.name: F.lit(None).cast(column.dataType) for column in columns if column.name not in frame.columns}
        )

    def _has_changed(self, file: IngestedFile) -> bool:
        """Return True if a file changed since it was listed; files of the store never change."""
        if isinstance(self._files, Storage) or self._files.immutable:
            return False
        return stat_file(self._files, file.path) != file

    def _read(self, files: Sequence[IngestedFile], form: str, schema: StructType | None) -> list[DataFrame]:
        if isinstance(self._files, Storage):
            return read_stored_files(self._session, self._files, [file.path for file in files])
        source = self._stream.source
        reader = self._session.read.format(form)
        if form == source.format:
            reader = reader.options(**source.options)
            if schema is not None or source.schema:
                reader = reader.schema(add_corrupt_column(schema or parse_schema(source.schema or ""), form))
        if form == "csv":  # or Spark does not count columns, and fills short lines with nulls
            reader = reader.option("columnPruning", "false").option("enforceSchema", "true")
        if source.is_table:
            return self._read_by_keys(files, reader)
        if any(self._folder_keys(file.path) for file in files):
            reader = reader.option("basePath", self._copies.local_path(source.path or ""))
        paths = [self._copies.local_path(file.path) for file in files]
        return [reader.option("__globPaths__", "false").load(paths)]

    def _read_by_keys(self, files: Sequence[IngestedFile], reader: DataFrameReader) -> list[DataFrame]:
        """Read files of a table, with the partition columns that its log has."""
        by_keys: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
        for file in files:
            by_keys.setdefault(file.keys, []).append(self._copies.local_path(file.path))
        return [
            reader.option("recursiveFileLookup", "true")  # or names of folders become columns, too
            .option("__globPaths__", "false")
            .load(paths)
            .withColumns({name: F.lit(value).cast("string") for name, value in keys})
            for keys, paths in by_keys.items()
        ]

    def _stage(self, frame: DataFrame, name: str, form: str = "") -> ReadPlan:
        """Collect a few rows as a table; stage many as files that tasks read."""
        table = frame.limit(MAX_TABLE_ROWS + 1).toArrow()
        if len(table) <= MAX_TABLE_ROWS:
            blocks = count_blocks(table, SOURCE_FILE) if BLOCK in table.column_names else []
            return self._number_lines(ReadPlan(table=table, schema=table.schema), blocks, form)
        staged = stage_rows(frame, self._store, name)
        splits = self._plan_splits(staged.files, frame.columns, self._store)
        plan = ReadPlan(tuple(splits), self._store, schema=table.schema, staged=True)
        return self._number_lines(plan, staged.blocks, form)

    def _number_lines(self, plan: ReadPlan, blocks: Sequence[Mapping[str, Any]], form: str) -> ReadPlan:
        """Return the plan with the row counts that give the lines of its rows."""
        if plan.schema is None or BLOCK not in plan.schema.names:
            return plan
        text = TextFormat.of(form, self._stream.source.options)
        return replace(plan, line_numbers=LineNumbers.of(text, self._source, blocks))

    def _first_schema(self, files: Sequence[IngestedFile]) -> pa.Schema | None:
        """Return the schema of the first file that has the required columns."""
        for file in files:
            try:
                schema = self._read_schema(file)
            except READ_ERRORS:
                continue
            if not self._selection.missing_columns(schema.names):
                return schema
        return None

    def _check_schemas(self, files: Sequence[IngestedFile], first: pa.Schema, check: SchemaCheck) -> Failures:
        """Return files whose columns the stream cannot read; Spark would read the columns that all files share."""
        failed: Failures = {}
        for file in files:
            try:
                reason = check(first, self._read_schema(file))
                if reason is not None:
                    failed[file.path] = (QUARANTINED, reason)
            except READ_ERRORS as error:
                failed[file.path] = (WAITING, str(error))
        return failed

    def _read_schema(self, file: IngestedFile) -> pa.Schema:
        with open_file(self._files, file.path) as opened:
            schema = pq.read_schema(opened).remove_metadata()
        keys = [pa.field(name, pa.string()) for name, _ in self._keys(file) if name not in schema.names]
        return pa.schema([*schema, *keys])

    def _keys(self, file: IngestedFile) -> tuple[tuple[str, Any], ...]:
        """Return the columns that the file itself does not have: from its table's log, or from names of folders."""
        return file.keys if self._stream.source.is_table else self._folder_keys(file.path)

    def _folder_keys(self, path: str) -> tuple[tuple[str, Any], ...]:
        """Return the columns that only the names of folders have: day=2026-01-01/part.parquet."""
        base = (self._stream.source.path or "").rstrip("/")
        if not path.startswith(base + "/"):
            return ()
        parts = [part.partition("=") for part in path[len(base) + 1 :].split("/")[:-1]]
        return tuple((name, unquote(value)) for name, sign, value in parts if sign and name)


def add_corrupt_column(schema: StructType, form: str) -> StructType:
    """Return a schema with a column for records that Spark cannot read."""
    if form not in CORRUPT_FORMATS or CORRUPT in schema.names:
        return schema
    return StructType([*schema.fields]).add(CORRUPT, "string")
