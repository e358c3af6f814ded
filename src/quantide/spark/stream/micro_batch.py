"""Micro-batches: files, or the rows of a Spark micro-batch, become chunks of a history in one commit."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quantide.config import StreamConfig
from quantide.errors import CommitUncertainError, ConfigError, StorageError, TypeMismatchError
from quantide.history.history import History
from quantide.history.key_columns import plain_type
from quantide.spark.spark_executor import run_tasks
from quantide.spark.sql_expressions import find_name
from quantide.spark.stream.batch_task import (
    SCHEMA_CHANGED,
    BatchTask,
    TaskOutput,
    TaskResult,
    run_split_task,
    run_table_task,
    schema_mismatch,
)
from quantide.spark.stream.column_matching import as_sentence, is_column_mismatch
from quantide.spark.stream.column_selection import TIME, ColumnSelection
from quantide.spark.stream.frame_tasks import run_frame_tasks
from quantide.spark.stream.landing_folder import LandingBatch, LandingFolder
from quantide.spark.stream.read_plan import ReadPlan, ReadPlanner
from quantide.spark.stream.row_origin import CORRUPT
from quantide.spark.stream.row_reader import THEN_RETRY, TIME_AHEAD, WRONG_UNIT, RowRules, clock_of
from quantide.spark.stream.source_access import source_access
from quantide.spark.stream.staged_rows import remove_staged
from quantide.spark.stream.step_clock import Origin, reference_time
from quantide.spark.stream.stream_source import list_files, raise_task_errors, stat_file
from quantide.store import fault_points
from quantide.store.ingest_log import DONE, QUARANTINED, WAITING, BatchRecord, FileRecord, IngestedFile, IngestLog
from quantide.windows.time_clock import TimeHorizon
from quantide.windows.wall_clock import wall_clock

EMPTY_FILE = "it is empty; it is ingested after something is written to it"
UNSETTLED_FILE = "it may still be written to"
REMOVED_FILE = "it was removed before it was read"
MAX_PROBED = 20  # other files that are opened before a mismatch with all files is reported
LOCAL_BYTES = 4 << 20  # bytes of files that the driver reads itself: tasks would take longer to start


@dataclass(frozen=True)
class MicroBatch:
    """A batch to ingest. With `last_try`, files that fail go into quarantine instead of waiting."""

    source: str
    number: int
    last_try: bool = False
    offsets: str = ""
    settled: tuple[str, ...] = ()
    keep_late: bool = False
    rows: int | None = None  # number of rows, if it is known before they are read
    lost: int = 0
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, int]:
        return self.source, self.number

    @property
    def name(self) -> str:
        return f"{self.source}-{self.number}"


class BatchWriter:
    """Writes batches into the history of a stream, and records them in the ingest log."""

    def __init__(self, stream: StreamConfig, history: History, ingest_log: IngestLog, session: SparkSession) -> None:
        self.stream, self.history, self.ingest_log, self.session = stream, history, ingest_log, session
        self.source, self.store = source_access(stream.source), history.table.storage
        self.landing = LandingFolder(history) if stream.source.push is not None else None
        self.selection = ColumnSelection.of(stream, str(session.conf.get("spark.sql.session.timeZone")))
        self.planner = ReadPlanner(stream, session, self.source, self.store, self.selection)
        self.origin: Origin | None = None
        self._uncertain: BatchRecord | None = None  # of a batch that may be in the table

    def settle(self) -> BatchRecord | None:
        """Apply the record of a batch that is in the table although its commit raised CommitUncertainError."""
        record = self._uncertain
        if record is None:
            return None
        in_table = self.history.batch_seen((record.source, record.number))
        self._uncertain = None
        if in_table:
            self._mark_committed(record)
        return record if in_table else None

    def _mark_committed(self, record: BatchRecord) -> None:
        self.ingest_log.mark_committed(record)
        if self.landing is not None:
            self.landing.mark_committed(record)

    def ingest_files(
        self, batch: MicroBatch, files: Sequence[IngestedFile], removed: Sequence[str] = ()
    ) -> BatchRecord | None:
        """Ingest new files in one commit, and record those that were `removed`; None if there is nothing to do."""
        form = self.stream.source.file_format
        if not (files or removed) or self.history.batch_seen(batch.id):
            return None
        entries = [FileRecord(IngestedFile(path, 0, 0), QUARANTINED, REMOVED_FILE) for path in removed]
        entries += [FileRecord(file, WAITING, EMPTY_FILE) for file in files if not file.size]
        files = [file for file in files if file.size]
        always = batch.last_try or form == "parquet" or self.stream.source.is_remote  # an object is complete
        unsettled = [] if always else [file for file in files if not self._is_settled(file)]
        settled = [file for file in files if file not in unsettled]
        landing = None
        if self.landing is not None:
            landing = self.landing.plan(settled, self.source)
            settled = landing.files
            entries += [FileRecord(file, DONE, "") for file in landing.repeats]
            state = QUARANTINED if batch.last_try else WAITING
            entries += [FileRecord(file, state, reason) for file, reason in landing.unreadable.items()]
        plan = self.planner.plan_files(settled, form, batch.name, self._schema_mismatch) if settled else ReadPlan()
        entries += [FileRecord(file, WAITING, UNSETTLED_FILE) for file in unsettled]
        return self._write(batch, plan, settled, entries, landing)

    def save_position(self, batch: MicroBatch) -> BatchRecord | None:
        """Commit a batch without files, whose record has the position of a lister."""
        return None if self.history.batch_seen(batch.id) else self._write(batch, ReadPlan(), [], [])

    def retry_files(self, batch: MicroBatch, paths: Iterable[str]) -> BatchRecord | None:
        """Ingest files by their paths, in their present state, in one commit."""
        by_path = {path: stat_file(self.source, path) for path in paths}
        known = {**self.ingest_log.waiting, **self.ingest_log.quarantined_files}
        keys = {path: entry.file.keys for path, entry in known.items()}
        files = [replace(file, keys=keys.get(path, ())) for path, file in by_path.items() if file is not None]
        return self.ingest_files(batch, files, [path for path, file in by_path.items() if file is None])

    def retry_rows(
        self, batch: MicroBatch, files: Sequence[IngestedFile], quarantined: tuple[str, ...]
    ) -> BatchRecord | None:
        """Ingest rows from files of the quarantine in one commit, after which those files are not needed."""
        planner = ReadPlanner(self.stream, self.session, self.store, self.store, self.selection)
        plan = planner.plan_files(files, "parquet", batch.name, self._schema_mismatch)
        return self._write(replace(batch, settled=quarantined), plan, [], [])

    def retry_records(
        self, batch: MicroBatch, names: Sequence[str], quarantined: tuple[str, ...]
    ) -> BatchRecord | None:
        """Decode Kafka records from files of the quarantine again, and ingest them in one commit."""
        if not self.stream.source.is_kafka:
            raise ConfigError(
                f"{self.stream.key}: the quarantine has Kafka records that could not be decoded, and the source is not "
                "Kafka any more; write the former source, with a decode that fits them, and retry"
            )
        plan = self.planner.plan_records(names, batch.name)
        return self._write(replace(batch, settled=quarantined), plan, [], [])

    def ingest_frame(
        self, batch: MicroBatch, frame: DataFrame, check: Callable[[], dict[str, str]] | None = None
    ) -> BatchRecord | None:
        """Ingest the rows of a Spark micro-batch in one commit.

        `check` is called after they are read; it raises if they are not those of the batch, and returns ids of topics.
        """
        if self.history.batch_seen(batch.id):
            return None
        plan = self.planner.plan_rows(frame, batch.name, batch.rows)
        if plan.table is not None and not len(plan.table) and not batch.offsets:
            return None
        return self._write(batch, plan, [], [], check=check)

    def _write(
        self,
        batch: MicroBatch,
        plan: ReadPlan,
        files: Sequence[IngestedFile],
        entries: Sequence[FileRecord],
        landing: LandingBatch | None = None,
        check: Callable[[], dict[str, str]] | None = None,
    ) -> BatchRecord | None:
        """Reserve names, run the tasks, write the record, then commit; None if the batch is in the table already."""
        skipped = {} if landing is None else landing.skipped
        if skipped and not plan.is_direct:
            raise StorageError(
                f"{self.stream.key}: a landing file repeats a request, and Spark computes the filters; remove the "
                "filters that Arrow cannot compute until the landing folder is empty"
            )
        types, rules = self._types(plan.schema), self._rules(batch, plan)
        expected = ({file.path: file for file in files}, types) if plan.is_direct else ({}, {})
        try:
            with self.history.bulk_load(rules.key_types, batch.id) as load:
                if load.is_repeat:
                    return None
                names = load.reserve(max(1, plan.tasks) + 1)  # one more for records that the others refuse
                task = BatchTask(
                    names,
                    rules,
                    batch.name,
                    plan.files,
                    *expected,
                    self.stream.schema_change,
                    plan.line_numbers,
                    skipped,
                    plan.reader,
                )
                results = self._run_tasks(task, plan)
                if plan.reader is not None:
                    results = self._decode_refused(batch, task, plan, results)
                if check is not None:
                    batch = replace(batch, topics=check())
                record = self._make_record(batch, plan, results, files, entries, types)
                failed = {entry.file.path for entry in record.entries if entry.state != DONE}
                written = [file for output in _complete_outputs(results, failed) for file in output.written]
                record = self.ingest_log.write(record)
                if self.landing is not None and landing is not None:
                    self.landing.write_keys(record, landing)
                fault_points.point("ingest.recorded")
                try:
                    load.commit(names, written)
                except CommitUncertainError:
                    self._uncertain = record
                    raise
            fault_points.point("ingest.committed")
            self._mark_committed(record)
            return record
        finally:
            if plan.staged:
                remove_staged(self.store, batch.source)

    def _run_tasks(self, task: BatchTask, plan: ReadPlan) -> list[TaskResult]:
        if plan.table is not None:
            return [run_table_task(task, plan.table)]
        if plan.frame is not None:
            return run_frame_tasks(task, plan.frame)
        splits = plan.splits
        if plan.size <= LOCAL_BYTES:
            return [run_split_task(task, number, split) for number, split in enumerate(splits)]
        with raise_task_errors():
            results = run_tasks(
                self.session, len(splits), lambda number: run_split_task(task, number, splits[number]).to_dict()
            )
        return [TaskResult.from_dict(result) for result in results]

    def _decode_refused(
        self, batch: MicroBatch, task: BatchTask, plan: ReadPlan, results: list[TaskResult]
    ) -> list[TaskResult]:
        """Let Spark decode the records that tasks refused; all records of the batch if those are many.

        Then the tasks run again, and write files of the same names.
        """
        task = replace(task, reader=None)
        if any(result.gives_up for result in results):
            return self._run_tasks(task, self.planner.plan_by_spark(plan, batch.name, batch.rows))
        refused = [text for result in results for text in result.refused]
        if not refused:
            return results
        return [*results, run_table_task(task, self.planner.decode_refused(refused), max(1, plan.tasks))]

    def _make_record(
        self,
        batch: MicroBatch,
        plan: ReadPlan,
        results: Sequence[TaskResult],
        files: Sequence[IngestedFile],
        entries: Sequence[FileRecord],
        types: dict[str, str],
    ) -> BatchRecord:
        """Make the record of a batch; raise if its files or rows violate a policy of the stream."""
        failed = dict(plan.failed)
        for result in results:
            failed |= result.failed
        settled = tuple(name for name in batch.settled if not any(path.endswith("/" + name) for path in failed))
        self._check_own_files(failed, {file.path for file in files}, batch)
        states = []
        for file in files:
            state, reason = failed.get(file.path, (DONE, ""))
            if state == WAITING and batch.last_try:
                state = QUARANTINED
            bad = sum(result.bad.get(file.path, 0) for result in results)
            states.append(FileRecord(file, state, reason, bad))
        outputs = _complete_outputs(results, {entry.file.path for entry in states if entry.state != DONE})
        rows, bad_rows = sum(output.rows for output in outputs), sum(output.bad for output in outputs)
        self._check_columns(states)
        self._check_units(results, rows)
        self._check_policies(results, states, bad_rows)
        newest = [result.newest for result in results if result.newest is not None]
        counts = [item for result in results for item in result.reasons.items()]
        return BatchRecord(
            batch.source,
            batch.number,
            at=wall_clock(),
            rows=rows,
            bad=bad_rows,
            newest=max(newest, default=None),
            origin=self.origin,
            offsets=batch.offsets,
            types=types,
            held=tuple(name for output in outputs for name in output.quarantined),
            settled=settled,
            ahead=sum(count for reason, count in counts if reason.startswith(TIME_AHEAD)),
            lost=batch.lost,
            topics=dict(batch.topics),
            config=self.stream.fingerprint,
            entries=(*entries, *states),
        )

    def _check_own_files(self, failed: Mapping[str, tuple[str, str]], files: set[str], batch: MicroBatch) -> None:
        """Raise if a file that is not the source's, such as a staged one, cannot be read."""
        for path, (_, reason) in failed.items():
            if path not in files and os.path.basename(path) not in batch.settled:
                raise StorageError(f"{self.stream.key}: {path} cannot be read, the batch is tried again: {reason}")

    def _check_columns(self, states: Sequence[FileRecord]) -> None:
        """Raise if no file has the configured columns: then none goes into quarantine, and all are read later."""
        mismatched = [entry for entry in states if entry.state == QUARANTINED and is_column_mismatch(entry.reason)]
        if mismatched and len(mismatched) == len(states) and not self.ingest_log.types and not self._others_fit(states):
            self.check_any_readable(mismatched)

    def _others_fit(self, states: Sequence[FileRecord]) -> bool:
        """Return True if some other file of the source has the columns."""
        own = {entry.file.path for entry in states}
        others = [file for path, file in list_files(self.stream.source, self.source).items() if path not in own]
        return any(self.planner.has_columns(file) for file in others[:MAX_PROBED])

    def check_any_readable(self, quarantined: Iterable[FileRecord]) -> None:
        """Raise if nothing was ever ingested, and the configuration does not match the columns of some file."""
        mismatched = [entry for entry in quarantined if is_column_mismatch(entry.reason)]
        if mismatched and not self.ingest_log.types:
            reason = mismatched[0].reason.removeprefix(f"{SCHEMA_CHANGED}: ")
            raise ConfigError(
                f"{self.stream.key}: no file can be read by this configuration. {mismatched[0].file.path}: "
                f"{as_sentence(reason)} Correct {self.stream.key} and start again: the files are read then"
            )

    def _check_units(self, results: Sequence[TaskResult], rows: int) -> None:
        """Raise if no row was ever good, and times look like another unit."""
        reasons = {reason for result in results for reason in result.reasons}
        if not (rows or self.ingest_log.rows) and any(reason.startswith(WRONG_UNIT) for reason in reasons):
            advice = sorted(reason.removesuffix(THEN_RETRY) for reason in reasons)
            raise ConfigError(f"{self.stream.key}.time: {'; '.join(advice)}. Then start again")

    def _check_policies(self, results: Sequence[TaskResult], states: Sequence[FileRecord], bad: int) -> None:
        """Raise for bad records or a changed schema if the stream is configured to fail."""
        if bad and self.stream.bad_records == "fail":
            reasons = {reason for result in results for reason in result.reasons}
            raise TypeMismatchError(
                f"{self.stream.key}: {bad:,} bad records ({'; '.join(sorted(reasons))}); correct the source, or set "
                f'{self.stream.key}.bad_records = "quarantine" to go on without them'
            )
        changed = [entry for entry in states if entry.state == QUARANTINED and entry.reason.startswith(SCHEMA_CHANGED)]
        if changed and self.stream.schema_change == "fail":
            raise TypeMismatchError(
                f"{self.stream.key}: {changed[0].file.path}: {as_sentence(changed[0].reason)} Correct the file, or set "
                f'{self.stream.key}.schema_change = "quarantine", or "adapt"'
            )

    def _rules(self, batch: MicroBatch, plan: ReadPlan) -> RowRules:
        stream, max_ahead = self.stream, self.history.settings.ahead
        newest = reference_time(self.ingest_log, max_ahead, wall_clock())
        reject_late = stream.late == "quarantine" and not batch.keep_late
        late_before = newest - float(stream.late_after or stream.window) if reject_late and newest is not None else None
        clock = self._types(plan.schema).get(TIME)
        if stream.time_unit is not None and clock == "timestamp":
            raise ConfigError(
                f'{stream.key}.time_unit is "{stream.time_unit}", and the times are timestamps; leave it out'
            )
        return RowRules(
            self.selection,
            stream.keys,
            self._key_types(plan),
            self.history.settings.value_type,
            stream.nan,
            clock or "timestamp",
            reject_late,
            late_before,
            time_unit=stream.time_unit,
            horizon=None if max_ahead is None else TimeHorizon.of(max_ahead),
        )

    def _key_types(self, plan: ReadPlan) -> tuple[pa.DataType, ...]:
        """Return the key types of the store, or of the files if the store has none yet."""
        stored = self.history.key_types if self.stream.keys else []
        if stored is not None:
            return tuple(stored)
        if plan.schema is None:
            return ()
        resolved = [(find_name(name, plan.schema.names) or name, name) for name in self.stream.keys]
        return tuple(plain_type(_decoded(plan.schema.field(column).type), name) for column, name in resolved)

    def _types(self, schema: pa.Schema | None) -> dict[str, str]:
        """Return the types of the used columns, as the stream's first files had them."""
        if schema is None:
            return self.ingest_log.types
        used = self.selection.used_columns(schema.names)
        types = {name: str(schema.field(name).type) for name in used if name != CORRUPT}
        time = self.selection.time_type(schema)
        if time is not None:
            types[TIME] = clock_of(time)
        return {name: self.ingest_log.types.get(name, kind) for name, kind in types.items()}

    def _schema_mismatch(self, first: pa.Schema, schema: pa.Schema) -> str | None:
        return schema_mismatch(self.selection, schema, self._types(first), self.stream.schema_change)

    def _is_settled(self, file: IngestedFile) -> bool:
        """Return True if a file has not changed for a while; a clock that jumps ahead makes no file older."""
        return self.history.table.file_time() - file.modified / 1000 >= self.stream.source.settle


def _complete_outputs(results: Iterable[TaskResult], failed: set[str]) -> list[TaskOutput]:
    """Return the outputs of files that did not fail in any task."""
    return [output for result in results for output in result.outputs if output.source not in failed]


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
