"""Batches: some files, or the rows of a micro-batch, become chunks of a history and one commit."""

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from quantide.config import StreamConfig
from quantide.errors import QuantideError, StorageError, TypeMismatchError
from quantide.history.history import History
from quantide.history.keys import plain_type
from quantide.history.load import Loaded, Slot
from quantide.spark.executor import TEXT
from quantide.spark.files import DataFile, Files
from quantide.spark.rows import Batches
from quantide.spark.session import cores
from quantide.spark.splits import Split, plan
from quantide.spark.storage import Storage
from quantide.spark.stream.intake import Rules, clock_of
from quantide.spark.stream.selection import CORRUPT, TIME, Selection
from quantide.spark.stream.source import SPARK_ERRORS, first_line, our_errors
from quantide.spark.stream.text import find_name
from quantide.spark.stream.work import CHANGED, UNREADABLE, Done, Job, Output, schema_problem, work, work_table
from quantide.store import faults
from quantide.store.ledger import DONE, HELD, WAITING, Entry, Ledger, Record, SourceFile
from quantide.store.names import STAGING

TASK = 64 << 20  # bytes of files that a task reads, all of them before it sorts any
LITTLE = 4 << 20  # bytes of files that are read right here: tasks would take longer to start
FEW = 100_000  # rows that Spark hands over at once, and does not write to files first


@dataclass(frozen=True)
class Share:
    """What is to be read: splits of Parquet files, or a table; and the files that cannot be."""

    splits: tuple[Split, ...] = ()
    table: pa.Table | None = None
    schema: pa.Schema | None = None
    failed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    staged: str | None = None

    @property
    def size(self) -> int:
        return sum(piece.size for split in self.splits for piece in split)


@dataclass(frozen=True)
class Batch:
    """A batch to be taken in. With `last_try` what fails goes into quarantine instead of waiting."""

    source: str
    number: int
    last_try: bool = False
    offsets: str = ""
    settled: tuple[str, ...] = ()
    keep_late: bool = False

    @property
    def id(self) -> tuple[str, int]:
        return self.source, self.number


class BatchWriter:
    """Takes batches into the history of a stream; the ledger says what it took."""

    def __init__(self, stream: StreamConfig, history: History, ledger: Ledger, session: SparkSession) -> None:
        self.stream, self.history, self.ledger, self.session = stream, history, ledger, session
        self.storage = Storage()
        self.selection = Selection.of(stream, str(session.conf.get("spark.sql.session.timeZone")))
        self.origin: tuple[int, int, str] | None = None

    def take_files(self, batch: Batch, files: Sequence[SourceFile], form: str | None = None) -> Record | None:
        """Files that are not in the store yet, in one commit; None when there was nothing to do."""
        if self.history.batch_seen(batch.id):
            return None
        form = form or self.stream.source.format
        unsettled = [] if batch.last_try or form == "parquet" else [file for file in files if not self._is_old(file)]
        whole = [file for file in files if file not in unsettled]
        if not files:
            return None
        share = self._share(batch, whole, form) if whole else Share()
        entries = [Entry(file, WAITING, "it may still be written to") for file in unsettled]
        return self._commit(batch, share, whole, entries)

    def take_rows(self, batch: Batch, files: Sequence[SourceFile], held: tuple[str, ...]) -> Record | None:
        """Rows out of the quarantine's own files, in one commit, after which those files are not needed."""
        share = self._share(batch, files, "parquet")
        return self._commit(replace(batch, settled=held), share, [], [])

    def take_frame(self, batch: Batch, frame: DataFrame) -> Record | None:
        """The rows of a micro-batch, in one commit."""
        if self.history.batch_seen(batch.id):
            return None
        share = self._staged(batch, self.selection.computed(frame, False))
        if share.table is not None and not len(share.table):
            return None
        return self._commit(batch, share, [], [])

    # What is to be read

    def _share(self, batch: Batch, files: Sequence[SourceFile], form: str) -> Share:
        if form != "parquet":
            return self._by_spark(batch, files, form)
        schema = self._first_schema(files)
        if schema is None or self.selection.is_plain(schema):
            return self._direct(files, schema)
        problems = {file.path: problem for file in files if (problem := self._schema_problem(file, schema))}
        share = self._by_spark(batch, [file for file in files if file.path not in problems], form)
        added = [field for field in share.schema or () if field.name.startswith("=")]
        return replace(share, schema=pa.schema([*schema, *added]), failed={**share.failed, **problems})

    def _schema_problem(self, file: SourceFile, first: pa.Schema) -> tuple[str, str] | None:
        try:
            schema = self._schema(file)
        except UNREADABLE as error:
            return WAITING, str(error)
        types = self._types(Share(schema=first))
        problem = schema_problem(self.selection, schema, types, self.stream.schema_change)
        return (HELD, problem) if problem else None

    def _first_schema(self, files: Sequence[SourceFile]) -> pa.Schema | None:
        """The schema of the first file that has the columns that are needed."""
        for file in files:
            try:
                schema = self._schema(file)
            except UNREADABLE:
                continue
            if not self.selection.missing(schema.names):
                return schema
        return None

    def _schema(self, file: SourceFile) -> pa.Schema:
        filesystem, path = self.storage.locate(file.path)
        schema = pq.read_schema(path, filesystem=filesystem).remove_metadata()
        keys = [pa.field(name, pa.string()) for name, _ in self._keys_of(file.path) if name not in schema.names]
        return pa.schema([*schema, *keys])

    def _direct(self, files: Sequence[SourceFile], schema: pa.Schema | None) -> Share:
        """Parquet that Arrow reads as it is: values never cross the JVM."""
        found = [DataFile(file.path, file.size, self._keys_of(file.path)) for file in files]
        needed = self.selection.needed(schema.names) if schema is not None else []
        failed = {}
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
        return plan(Files(tuple(files), pa.schema([])), needed, cores(self.session), self.storage, TASK)

    def _by_spark(self, batch: Batch, files: Sequence[SourceFile], form: str) -> Share:
        """Files that only Spark can read, or expressions that only Spark can compute."""
        failed: dict[str, tuple[str, str]] = {}
        while files:
            try:
                share = self._staged(batch, self.selection.computed(self._read(files, form), True))
                return replace(share, failed=failed)
            except SPARK_ERRORS:
                bad = {file.path: (WAITING, problem) for file in files if (problem := self._problem(file, form))}
                if not bad:
                    raise
                failed |= bad
                files = [file for file in files if file.path not in failed]
        return Share(failed=failed)

    def _problem(self, file: SourceFile, form: str) -> str:
        """Why Spark cannot read a file; empty when it can."""
        try:
            self.selection.computed(self._read([file], form), True).write.format("noop").mode("append").save()
        except SPARK_ERRORS as error:
            return first_line(error)
        return ""

    def _read(self, files: Sequence[SourceFile], form: str) -> DataFrame:
        source = self.stream.source
        reader = self.session.read.format(form)
        if form == source.format:
            reader = reader.options(**source.options)
            if source.schema:
                reader = reader.schema(with_corrupt(source.schema, form))
        return reader.option("__globPaths__", "false").load([file.path for file in files])

    def _staged(self, batch: Batch, frame: DataFrame) -> Share:
        """A few rows as they are; many as Parquet that Spark writes, and tasks read."""
        table = frame.limit(FEW + 1).toArrow()
        if len(table) <= FEW:
            return Share(table=table, schema=table.schema)
        folder = os.path.join(self.stream.folder, STAGING, f"{batch.source}-{batch.number}")
        frame.write.mode("overwrite").parquet(folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
        found = [DataFile(path := os.path.join(folder, name), os.path.getsize(path)) for name in names]
        return Share(tuple(self._plan(found, frame.columns)), None, table.schema, staged=folder)

    # Tasks and commit

    def _commit(
        self, batch: Batch, share: Share, files: Sequence[SourceFile], entries: Sequence[Entry]
    ) -> Record | None:
        types = self._types(share)
        rules = self._rules(batch, share)
        known = {file.path: file for file in files}
        written: list[Record] = []

        def write(slot: Slot) -> Iterator[Loaded]:
            name = f"{batch.source}-{batch.number}"
            direct = share.staged is None and share.table is None
            job = Job(
                slot,
                rules,
                name,
                self.storage,
                known if direct else {},
                types if direct else {},
                self.stream.schema_change,
            )
            found = self._run(job, share)
            record = self._record(batch, share, found, files, entries, types)
            failed = {entry.file.path for entry in record.entries if entry.state != DONE}
            yield from (one for output in _good(found, failed) for one in output.loaded)
            written.append(self.ledger.write(record))
            faults.point("ingest.recorded")

        try:
            self.history.load(max(1, len(share.splits)), write, rules.key_types, batch.id)
            faults.point("ingest.committed")
            self.ledger.committed(written[0])
            return written[0]
        finally:
            if share.staged is not None:
                shutil.rmtree(share.staged, ignore_errors=True)

    def _run(self, job: Job, share: Share) -> list[Done]:
        if share.table is not None:
            return [work_table(job, share.table)]
        splits = share.splits
        if share.size <= LITTLE:
            return [work(job, number, split) for number, split in enumerate(splits)]

        def run(batches: Batches) -> Batches:
            for found in batches:
                for number in found.column(0).to_pylist():
                    done = work(job, number, splits[number])
                    yield pa.RecordBatch.from_pydict({"text": [json.dumps(done.to_dict())]})

        frame = self.session.range(0, len(splits), 1, len(splits)).mapInArrow(run, TEXT)
        with our_errors():
            rows = frame.collect()
        return [Done.from_dict(json.loads(row["text"])) for row in rows]

    def _record(
        self,
        batch: Batch,
        share: Share,
        found: Sequence[Done],
        files: Sequence[SourceFile],
        entries: Sequence[Entry],
        types: dict[str, str],
    ) -> Record:
        failed = dict(share.failed)
        for done in found:
            failed |= done.failed
        settled = tuple(name for name in batch.settled if not any(path.endswith("/" + name) for path in failed))
        self._check_staged(failed, {file.path for file in files}, batch)
        states = []
        for file in files:
            state, reason = failed.get(file.path, (DONE, ""))
            if state == WAITING and batch.last_try:
                state = HELD
            bad = sum(done.bad.get(file.path, 0) for done in found)
            states.append(Entry(file, state, reason, bad))
        good = _good(found, {entry.file.path for entry in states if entry.state != DONE})
        self._check_policies(found, states, sum(output.bad for output in good))
        newest = [done.newest for done in found if done.newest is not None]
        return Record(
            batch.source,
            batch.number,
            at=time.time(),
            rows=sum(output.rows for output in good),
            bad=sum(output.bad for output in good),
            newest=max(newest, default=None),
            origin=self.origin,
            offsets=batch.offsets,
            types=types,
            held=tuple(name for output in good for name in output.held),
            settled=settled,
            entries=(*entries, *states),
        )

    def _check_staged(self, failed: Mapping[str, tuple[str, str]], files: set[str], batch: Batch) -> None:
        """Files of our own that cannot be read: nothing of the batch is taken then."""
        for path, (_, reason) in failed.items():
            if path not in files and os.path.basename(path) not in batch.settled:
                raise StorageError(f"{self.stream.key}: {path} cannot be read, the batch is tried again: {reason}")

    def _check_policies(self, found: Sequence[Done], states: Sequence[Entry], bad: int) -> None:
        """What a stream is configured to stop at."""
        if bad and self.stream.bad_records == "fail":
            reasons = {reason for done in found for reason in done.reasons}
            raise TypeMismatchError(
                f"{self.stream.key}: {bad:,} bad records ({'; '.join(sorted(reasons))}); correct the source, or set "
                f'{self.stream.key}.bad_records = "quarantine" to go on without them'
            )
        changed = [entry for entry in states if entry.state == HELD and entry.reason.startswith(CHANGED)]
        if changed and self.stream.schema_change == "fail":
            raise TypeMismatchError(
                f"{self.stream.key}: {changed[0].file.path}: {changed[0].reason}. Correct the file, or set "
                f'{self.stream.key}.schema_change = "quarantine", or "adapt"'
            )

    def _rules(self, batch: Batch, share: Share) -> Rules:
        stream, newest = self.stream, self.ledger.newest
        late = stream.late == "quarantine" and not batch.keep_late
        before = newest - float(stream.late_after or stream.window) if late and newest is not None else None
        clock = self._types(share).get(TIME, "timestamp")
        return Rules(
            self.selection,
            stream.keys,
            self._key_types(share),
            self.history.settings.value_type,
            stream.nan,
            clock,
            late,
            before,
        )

    def _key_types(self, share: Share) -> tuple[pa.DataType, ...]:
        known = self.history.key_types if self.stream.keys else []
        if known is not None:
            return tuple(known)
        if share.schema is None:
            return ()
        found = [(find_name(name, share.schema.names) or name, name) for name in self.stream.keys]
        return tuple(plain_type(_decoded(share.schema.field(there).type), name) for there, name in found)

    def _types(self, share: Share) -> dict[str, str]:
        """The types of the columns in use, as the stream's first files had them."""
        if self.ledger.types or share.schema is None:
            return self.ledger.types
        needed = self.selection.needed(share.schema.names)
        types = {name: str(share.schema.field(name).type) for name in needed if name != CORRUPT}
        time = self.selection.time_type(share.schema)
        return types if time is None else {**types, TIME: clock_of(time)}

    def _is_old(self, file: SourceFile) -> bool:
        return time.time() - file.modified / 1000 >= self.stream.source.settle

    def _keys_of(self, path: str) -> tuple[tuple[str, Any], ...]:
        """Columns that only the names of folders tell: day=2026-01-01/part.parquet."""
        base = (self.stream.source.path or "").rstrip("/")
        if not path.startswith(base + "/"):
            return ()
        parts = [part.partition("=") for part in path[len(base) + 1 :].split("/")[:-1]]
        return tuple((name, unquote(value)) for name, sign, value in parts if sign and name)


def with_corrupt(schema: str, form: str) -> str:
    """A schema that has a place for lines that cannot be read."""
    return f"{schema}, {CORRUPT} STRING" if form in ("json", "csv") and CORRUPT not in schema else schema


def _good(found: Iterable[Done], failed: set[str]) -> list[Output]:
    """What was written of files that are in order."""
    return [output for done in found for output in done.outputs if output.file not in failed]


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
