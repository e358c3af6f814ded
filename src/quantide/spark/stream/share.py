"""Shares: what of a batch is to be read, and how. Parquet is read by the tasks themselves; anything else by Spark."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from quantide.config import StreamConfig
from quantide.errors import QuantideError
from quantide.spark.files import DataFile, Files
from quantide.spark.session import cores
from quantide.spark.splits import LEAST, Split, plan
from quantide.spark.stream.layouts import LAID_OUT, Layouts, parse_schema
from quantide.spark.stream.lines import BLOCK, ROW, Numbering, TextFormat, count_blocks
from quantide.spark.stream.missing import column_missing
from quantide.spark.stream.origin import CAME_FROM, CORRUPT, WITH_CORRUPT, origin_of_files
from quantide.spark.stream.selection import Selection
from quantide.spark.stream.source import SPARK_ERRORS, first_line
from quantide.spark.stream.work import CHANGED, CHANGING, UNREADABLE, look
from quantide.store.ledger import HELD, WAITING, SourceFile
from quantide.store.names import STAGING
from quantide.store.storage import Storage

TASK = 64 << 20  # bytes of files that a task reads, all of them before it sorts any
FEW = 100_000  # rows that Spark hands over at once, and does not write to files first

Failures = dict[str, tuple[str, str]]  # state and reason, by path
Problem = Callable[[pa.Schema, pa.Schema], str | None]  # of a file's schema, given the first one's


@dataclass(frozen=True)
class Share:
    """What is to be read: splits of Parquet files, or a table; and the files that cannot be."""

    splits: tuple[Split, ...] = ()
    table: pa.Table | None = None
    schema: pa.Schema | None = None
    failed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    staged: str | None = None
    numbering: Numbering | None = None

    @property
    def size(self) -> int:
        return sum(piece.size for split in self.splits for piece in split)

    @property
    def direct(self) -> bool:
        """Whether source files are read as they are."""
        return self.staged is None and self.table is None


class Shares:
    """Makes shares of a stream's files, or of the rows of a micro-batch."""

    def __init__(self, stream: StreamConfig, session: SparkSession, storage: Storage, selection: Selection) -> None:
        self._stream, self._session, self._storage, self._selection = stream, session, storage, selection
        self.slower = False  # whether Parquet goes through Spark, because only Spark can compute the expressions

    def of_files(self, files: Sequence[SourceFile], form: str, name: str, problem: Problem) -> Share:
        """`name` is for what has to be written on the way."""
        if form != "parquet":
            return self._by_spark(files, form, name)
        first = self._first_schema(files)
        if first is None or self._selection.is_plain(first):
            return self._direct(files, first)
        self.slower = True
        failed = self._other_schemas(files, first, problem)
        share = self._by_spark([file for file in files if file.path not in failed], form, name)
        added = [one for one in share.schema or () if one.name.startswith("=")]
        return replace(share, schema=pa.schema([*first, *added]), failed={**share.failed, **failed})

    def fits(self, file: SourceFile) -> bool:
        """Return True if a file has the columns that are needed."""
        form = self._stream.source.format
        try:
            if form == "parquet":
                return not self._selection.missing(self._schema(file).names)
            layouts = Layouts(self._stream, self._storage, self._selection)
            return form in LAID_OUT and not layouts.problems([file], form, self._keys_of)
        except UNREADABLE:
            return False

    def of_rows(self, frame: DataFrame, name: str) -> Share:
        """The rows of a source that is not files."""
        return self._staged(self._selection.computed(frame), name)

    def _direct(self, files: Sequence[SourceFile], schema: pa.Schema | None) -> Share:
        """Parquet that Arrow reads as it is: values never cross the JVM."""
        found = [DataFile(file.path, file.size, self._keys_of(file.path)) for file in files]
        needed = self._selection.needed(schema.names) if schema is not None else []
        failed: Failures = {}
        try:
            splits = self._plan(found, needed)
        except QuantideError:  # of a large file, which is looked into to be cut
            splits = []
            for file in found:
                try:
                    splits += self._plan([file], needed)
                except QuantideError as error:
                    failed[file.uri] = (WAITING, str(error))
        return Share(tuple(splits), None, schema, failed)

    def _plan(self, files: Sequence[DataFile], needed: Sequence[str]) -> list[Split]:
        """A task for each core, unless that would be too much for one: sorting takes less time than starting tasks."""
        all_files, tasks = Files(tuple(files), pa.schema([])), cores(self._session)
        size = min(TASK, max(LEAST, all_files.size * 11 // (10 * tasks)))  # row groups do not fit exactly
        return plan(all_files, needed, tasks, self._storage, size)

    def _by_spark(self, files: Sequence[SourceFile], form: str, name: str) -> Share:
        """Files that only Spark can read, or expressions that only Spark can compute."""
        layouts = Layouts(self._stream, self._storage, self._selection)
        failed = layouts.problems(files, form, self._keys_of)
        files = [file for file in files if file.path not in failed]
        while files:
            try:
                frame = self._computed(files, form, layouts)
                share = Share() if frame is None else self._numbered(self._staged(frame, name), form)
                bad = {file.path: (WAITING, CHANGING) for file in files if look(self._storage, file.path) != file}
                if not bad:
                    return replace(share, failed=failed)
            except SPARK_ERRORS:
                bad = {file.path: why for file in files if (why := self._unreadable(file, form, layouts))}
                if not bad:
                    raise
            failed |= bad
            files = [file for file in files if file.path not in failed]
        return Share(failed=failed)

    def _unreadable(self, file: SourceFile, form: str, layouts: Layouts) -> tuple[str, str] | None:
        """Why Spark cannot read a file; None when it can."""
        try:
            frame = self._read([file], form, None)
            missing = self._selection.missing(frame.columns)
            if missing:
                return HELD, f"{CHANGED}: {column_missing(missing[0], frame.columns)}"
            if (computed := self._computed([file], form, layouts)) is not None:
                computed.write.format("noop").mode("append").save()
        except SPARK_ERRORS as error:
            return WAITING, first_line(error)
        return None

    def _computed(self, files: Sequence[SourceFile], form: str, layouts: Layouts) -> DataFrame | None:
        """The rows of files, each read in the order of its own columns; None when all files are without a line."""
        options, frames = self._stream.source.options, []
        for schema, alike in layouts.of_files(files, form).items():
            frame = self._read(alike, form, schema)
            origin = origin_of_files(frame, TextFormat.of(form, options), schema, options)
            frames.append(self._selection.computed(self._with_all(frame, schema), origin))
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames) if frames else None

    def _with_all(self, frame: DataFrame, schema: StructType | None) -> DataFrame:
        """A column of the stream's schema that a CSV file lacks is null."""
        if schema is None:
            return frame
        wanted = parse_schema(self._stream.source.schema or "").fields
        return frame.withColumns(
            {one.name: F.lit(None).cast(one.dataType) for one in wanted if one.name not in frame.columns}
        )

    def _read(self, files: Sequence[SourceFile], form: str, schema: StructType | None) -> DataFrame:
        source = self._stream.source
        reader = self._session.read.format(form)
        if form == source.format:
            reader = reader.options(**source.options)
            if schema is not None or source.schema:
                reader = reader.schema(with_corrupt(schema or parse_schema(source.schema or ""), form))
        if form == "csv":  # or Spark counts no columns, and fills short lines with nulls
            reader = reader.option("columnPruning", "false").option("enforceSchema", "true")
        if any(self._keys_of(file.path) for file in files):
            reader = reader.option("basePath", source.path or "")
        return reader.option("__globPaths__", "false").load([file.path for file in files])

    def _staged(self, frame: DataFrame, name: str) -> Share:
        """A few rows as they are; many as Parquet that Spark writes, and tasks read."""
        table = frame.limit(FEW + 1).toArrow()
        if len(table) <= FEW:
            return Share(table=table, schema=table.schema)
        folder = os.path.join(self._stream.folder, STAGING, name)
        frame.write.mode("overwrite").parquet(folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
        found = [DataFile(path := os.path.join(folder, name), os.path.getsize(path)) for name in names]
        return Share(tuple(self._plan(found, frame.columns)), None, table.schema, staged=folder)

    def _numbered(self, share: Share, form: str) -> Share:
        """The share with all that is needed to tell the lines of its rows."""
        if share.schema is None or BLOCK not in share.schema.names:
            return share
        text = TextFormat.of(form, self._stream.source.options)
        if share.table is not None:
            counted = count_blocks(share.table, CAME_FROM)
        else:
            rows = self._session.read.parquet(share.staged or "").groupBy(CAME_FROM, BLOCK)
            counts = rows.agg(F.min(ROW).alias("first"), F.count("*").alias("rows"))
            counted = counts.withColumnsRenamed({CAME_FROM: "path", BLOCK: "block"}).toArrow().to_pylist()
        return replace(share, numbering=Numbering.of(text, self._storage, counted))

    def _first_schema(self, files: Sequence[SourceFile]) -> pa.Schema | None:
        """The schema of the first file that has the columns that are needed."""
        for file in files:
            try:
                schema = self._schema(file)
            except UNREADABLE:
                continue
            if not self._selection.missing(schema.names):
                return schema
        return None

    def _other_schemas(self, files: Sequence[SourceFile], first: pa.Schema, problem: Problem) -> Failures:
        """Files that have other columns than the stream can read; Spark would read what they have in common."""
        failed: Failures = {}
        for file in files:
            try:
                why = problem(first, self._schema(file))
                if why is not None:
                    failed[file.path] = (HELD, why)
            except UNREADABLE as error:
                failed[file.path] = (WAITING, str(error))
        return failed

    def _schema(self, file: SourceFile) -> pa.Schema:
        filesystem, path = self._storage.locate(file.path)
        schema = pq.read_schema(path, filesystem=filesystem).remove_metadata()
        keys = [pa.field(name, pa.string()) for name, _ in self._keys_of(file.path) if name not in schema.names]
        return pa.schema([*schema, *keys])

    def _keys_of(self, path: str) -> tuple[tuple[str, Any], ...]:
        """Columns that only the names of folders tell: day=2026-01-01/part.parquet."""
        base = (self._stream.source.path or "").rstrip("/")
        if not path.startswith(base + "/"):
            return ()
        parts = [part.partition("=") for part in path[len(base) + 1 :].split("/")[:-1]]
        return tuple((name, unquote(value)) for name, sign, value in parts if sign and name)


def with_corrupt(schema: StructType, form: str) -> StructType:
    """A schema that has a place for records that cannot be read."""
    if form not in WITH_CORRUPT or CORRUPT in schema.names:
        return schema
    return StructType([*schema.fields]).add(CORRUPT, "string")
