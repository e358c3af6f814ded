"""A running stream: its Spark query and its history, and beside them file retries, ends of steps and vacuum."""

import logging
import time
from contextlib import suppress
from threading import RLock

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from quantide.config import StreamConfig
from quantide.config.stream_config import tail_settings
from quantide.errors import ConfigError, QuantideError, SettingsError, StorageError, StreamError, WriterConflictError
from quantide.history.compaction_tasks import Executor
from quantide.history.history import History
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.file_layouts import check_schema
from quantide.spark.stream.file_lister import is_position
from quantide.spark.stream.file_retries import FileRetries
from quantide.spark.stream.frame_tasks import prepare_workers
from quantide.spark.stream.kafka_batches import KafkaBatches
from quantide.spark.stream.kafka_records import check_decode
from quantide.spark.stream.listed_batches import FileRemoval, ListedBatches
from quantide.spark.stream.listing_loop import ListingLoop
from quantide.spark.stream.micro_batch import BatchWriter, MicroBatch
from quantide.spark.stream.read_plan import MAX_TABLE_ROWS
from quantide.spark.stream.spark_checkpoint import (
    CheckpointRollover,
    begins,
    check_reset,
    checkpoint_folder,
    choose_checkpoint,
    choose_listed_source,
    planned_files,
    read_offsets,
    remove_checkpoints,
)
from quantide.spark.stream.staged_rows import clear_staging
from quantide.spark.stream.step_clock import StreamClock, grace_hours
from quantide.spark.stream.stream_source import (
    SPARK_ERRORS,
    collect_batch_files,
    first_line,
    hide_secrets,
    open_source,
    stat_file,
)
from quantide.spark.stream.stream_status import StreamStatus
from quantide.store.ingest_log import BatchRecord, IngestedFile, IngestLog, list_log_files, source_of
from quantide.store.ingest_status import publish_status

LOG = logging.getLogger(__name__)
TRIGGER = "100 milliseconds"
STATUS_INTERVAL = 1.0  # seconds between two updates of the status; more if they take long
VACUUM_INTERVAL = 600.0  # seconds between two vacuums
STOP_TIMEOUT = 20.0  # seconds that a batch has to finish when the stream is stopped


class StreamStopping(Exception):
    """Ends a batch that does not begin any more, so that Spark does not consider it done."""


class RunningStream:
    """One stream of a configuration. It takes the lease of its store at once."""

    def __init__(
        self,
        session: SparkSession,
        stream: StreamConfig,
        executor: Executor | None = None,
        once: bool = False,
        reset: bool = False,
        allow_duplicates: bool = False,
    ) -> None:
        self.config, self.session, self._once = stream, session, once
        self._is_local = executor is None
        _check_expressions(session, stream)
        check_schema(stream, ColumnSelection.of(stream, "UTC"))
        check_decode(stream, ColumnSelection.of(stream, "UTC"))
        listed = list_log_files(stream.open_storage())
        self.history = open_history(stream, executor)
        self.storage = self.history.table.storage
        try:
            self.ingest_log = IngestLog(self.storage, self.history.batch_seen, self.history.table.check_writer)
            self.source = self._choose_source(reset, allow_duplicates)
            self.ingest_log.forget_source(self.source)
            repeated = self.source if self.storage.loses_local_files else None  # its last batch is written again
            self.ingest_log.clean(name for name in listed if source_of(name) != repeated)
            self._rollover = CheckpointRollover(stream, self.storage, self.ingest_log, session, self.source)
            clear_staging(self.storage)
            self.writer = BatchWriter(stream, self.history, self.ingest_log, session)
            self._listed = ListedBatches(self.writer, self.source, reset) if stream.source.is_listed else None
            self._removal = FileRemoval(self.writer)
            if self.writer.landing is not None:
                self.writer.landing.remove_remains(self.ingest_log)
            self._retries = FileRetries(self.writer)
            if self._listed is not None:
                self._retries = FileRetries(self.writer, self._listed.lister.list_present, self._listed.trim_log)
            self._clock = StreamClock(stream, self.ingest_log, self.history)
            self.writer.origin = self._clock.origin
            self._grace = grace_hours(stream.step, self.history.settings.retention)
            stats = self.history.stats()
            self._open_rows = int(stats["stream_values"])
        except BaseException:
            self.history.close()
            raise
        counts = (self.ingest_log.rows, self.ingest_log.bad, self.ingest_log.ahead, self.ingest_log.lost)
        self.status = StreamStatus(stream.name, *counts, unit=stream.unit)
        self.status.stats = stats
        self._kafka = KafkaBatches(session, stream, self.storage, self.ingest_log) if stream.source.is_kafka else None
        self.query: StreamingQuery | ListingLoop | None = None
        self.error: Exception | None = None
        self._lock, self._stopping, self._pausing = RLock(), False, False
        self._settled = False  # True if files were retried after the query ended
        self._next_status = self._last_vacuum = time.monotonic()

    def _choose_source(self, reset: bool, allow_duplicates: bool) -> str:
        """Return the name of the checkpoint or listing that the stream continues; prepare the log if it begins one."""
        stream, log, table = self.config, self.ingest_log, self.history.table.identity
        if stream.source.is_listed:
            check_reset(stream, log, reset, allow_duplicates)
            source = choose_listed_source(self.storage, log, reset, table)
        else:
            source = choose_checkpoint(stream, self.storage, log, reset, allow_duplicates, table)
        if log.last and begins(self.storage, log, source):
            LOG.warning("%s: a new checkpoint begins, %s", stream.key, source)
            if stream.source.is_files:
                log.rebase(source)  # then one batch skips all files that are in the store
            if stream.source.is_listed:
                remove_checkpoints(self.storage)
        return source

    def start(self) -> None:
        """Start, or restart, the query."""
        self.error, self._pausing, self._settled = None, False, False
        self._add_record(self.writer.settle(), 0.0)  # or a new checkpoint would repeat the batch
        self._catch_up()
        if self._listed is not None:
            self.query = ListingLoop(self._list_and_ingest, self.config.name).start()
            return
        self._roll_over()
        if self._rollover.skips_most() and not self._skip_stored():
            return
        frame = open_source(self.session, self.config, self._start_offsets())
        writer = self._stream_writer(frame)
        writer = writer.trigger(availableNow=True) if self._once else writer.trigger(processingTime=TRIGGER)
        self.query = writer.start()

    def _start_offsets(self) -> str:
        """Return the offsets at which the query continues if its checkpoint is new; empty for a source without any."""
        if self._kafka is not None:
            self.source, offsets = self._kafka.start(self.source)
            if self._is_local and self._kafka.backlog > MAX_TABLE_ROWS:
                prepare_workers(self.session)
            return offsets
        is_new = self.source not in self.ingest_log.last and not is_position(self.ingest_log.offsets)
        return self.ingest_log.offsets if is_new else ""

    def _roll_over(self) -> None:
        """Begin a new checkpoint if the old one has grown; if that fails, continue with the old one."""
        if self._rollover.is_due:
            try:
                self.source = self._rollover.begin()
            except (StorageError, *SPARK_ERRORS) as error:
                self._rollover.postpone()
                self.status.last_error = f"no new checkpoint could be begun: {first_line(error)}"

    def _skip_stored(self) -> bool:
        """Let a new checkpoint skip all files that are in the store, in one batch; return True if that worked."""
        frame = open_source(self.session, self.config, "", limited=False)
        self.query = query = self._stream_writer(frame).trigger(availableNow=True).start()
        with suppress(*SPARK_ERRORS):  # failure() returns it
            query.awaitTermination()
        return query.exception() is None

    def _stream_writer(self, frame: DataFrame) -> DataStreamWriter:
        folder = checkpoint_folder(self.storage, self.source)
        writer = frame.writeStream.foreachBatch(self._process_batch)
        return writer.option("checkpointLocation", f"file:{folder}")  # whatever file system is Spark's default

    @property
    def running(self) -> bool:
        return self.query is not None and self.query.isActive

    def failure(self) -> QuantideError | None:
        """Return the error that ended the query, if it failed."""
        error = self.query.exception() if self.query is not None and not self.query.isActive else None
        return None if error is None else self._to_stream_error(self.error or error)

    def tick(self) -> QuantideError | None:
        """Retry files, end steps and clean up, unless a batch runs; return an error, which the status shows, too."""
        ended = not self.running
        self._retries.list_files(ended and not self._settled)
        if not self._lock.acquire(blocking=False):
            return None
        try:
            began, ended = time.monotonic(), not self.running
            self._add_record(self.writer.settle(), 0.0)
            record = self._retries.run(ended and not self._settled)
            self._settled = ended
            self._add_record(record, time.monotonic() - began)
            self._end_steps()
            self._maintain()
            self._pausing = self._rollover.is_due and self.running and not self._once
        except (QuantideError, *SPARK_ERRORS) as error:
            stream_error = self._to_stream_error(error)
            self.status.last_error = str(stream_error)
            return stream_error
        finally:
            self._lock.release()
        return self._restart() if self._pausing else None

    def _restart(self) -> QuantideError | None:
        """Restart with a new checkpoint; until then no batch begins."""
        assert self.query is not None
        try:
            self.query.stop()
            self.start()
        except (QuantideError, *SPARK_ERRORS) as error:
            return self._to_stream_error(error)
        return None

    def refresh_status(self) -> None:
        """Update the status and publish it."""
        began = time.monotonic()
        self.status.stats = self.history.stats()
        self.status.waiting_files, self.status.quarantined_files = self.waiting, len(self.ingest_log.quarantined_files)
        self.status.changed_files = len(self._retries.changed)
        by_spark = "expressions by Spark" if self.writer.planner.uses_spark else ""
        notes = (by_spark, self._retries.note, self._removal.last_error)
        self.status.note = "  ".join(note for note in notes if note)
        self._publish(running=True)
        self._next_status = time.monotonic() + max(STATUS_INTERVAL, 20 * (time.monotonic() - began))

    def _publish(self, running: bool) -> None:
        """Publish the status for readers of the store."""
        try:
            publish_status(self.storage, self.status.to_ingest_status(running))
        except StorageError as error:
            self.status.last_error = str(error)

    def _to_stream_error(self, error: Exception) -> QuantideError:
        if isinstance(error, QuantideError):
            return error
        return StreamError(f"{self.config.key} failed: {hide_secrets(first_line(error), self.config.source)}")

    @property
    def waiting(self) -> int:
        """Number of files that wait for a retry."""
        return len(self.ingest_log.waiting)

    @property
    def unfinished(self) -> bool:
        """Return True while there is something to ingest; a file that stays empty does not count."""
        return self.running or not self._settled or self._retries.pending > 0

    def check_columns(self) -> None:
        """Raise if nothing was ingested because the configuration does not match the columns of the files."""
        self.writer.check_any_readable(self.ingest_log.quarantined_files.values())

    def finish_batch(self) -> None:
        """Wait once for the running batch, unless it takes too long; no other one begins."""
        if self._stopping:
            return
        self._stopping, self.status.running = True, False
        if self._lock.acquire(timeout=STOP_TIMEOUT):
            self._lock.release()

    def stop(self) -> None:
        """Let the running batch finish, or abandon it if it takes too long; then close everything."""
        self.finish_batch()
        try:
            if self.query is not None:
                self.query.stop()
        finally:
            if self._kafka is not None:
                self._kafka.close()
            self._publish(running=False)
            self.history.close()

    def _process_batch(self, frame: DataFrame, number: int) -> None:
        """Ingest a micro-batch. When this returns, it is in the store."""
        with self._lock:
            if self._stopping or self._pausing:
                raise StreamStopping
            began = time.monotonic()
            frame.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", self.config.name)
            try:
                record = self._ingest_batch(frame, number)
                self._add_record(record, time.monotonic() - began)
                self._end_steps()
            except Exception as error:
                self.error = error
                raise

    def _list_and_ingest(self) -> float | None:
        """List the source and ingest one batch; return the pause until the next round, None after the last."""
        assert self._listed is not None
        self._listed.list()
        if self._removal.is_due:
            self._removal.remove_remaining(self._listed.lister.list_present().values())
        with self._lock:
            if self._stopping:
                return None
            began = time.monotonic()
            self.session.sparkContext.setLocalProperty("spark.scheduler.pool", self.config.name)
            self._add_record(self.writer.settle(), 0.0)
            record = self._listed.ingest(save=self._once)
            self._add_record(record, time.monotonic() - began)
            self._end_steps()
        return None if self._once and self._listed.is_done else self._listed.pause

    def _ingest_batch(self, frame: DataFrame, number: int) -> BatchRecord | None:
        self._add_record(self.writer.settle(), 0.0)
        if self._kafka is not None:
            return self.writer.ingest_frame(self._kafka.plan(self.source, number), frame, self._kafka.check_topics)
        if not self.config.source.is_files:
            offsets = read_offsets(checkpoint_folder(self.storage, self.source), number)
            return self.writer.ingest_frame(MicroBatch(self.source, number, offsets=offsets), frame)
        batch = MicroBatch(self.source, number)
        if self.history.batch_seen(batch.id):
            return None
        files = collect_batch_files(frame)
        self._rollover.add_files(len(files))
        planned = planned_files(checkpoint_folder(self.storage, self.source), number)
        paths = sorted(set(planned) - {file.path for file in files})  # Spark skipped them: they are empty, or removed
        skipped = {path: stat_file(self.writer.source, path) for path in paths}
        new = [file for file in (*files, *skipped.values()) if file is not None and self._is_new(file)]
        removed = [path for path, file in skipped.items() if file is None and path not in self.ingest_log.ingested]
        return self.writer.ingest_files(batch, new, removed)

    def _is_new(self, file: IngestedFile) -> bool:
        """Return True unless a file is in the store, changed or not, or waits for a retry."""
        ingest_log = self.ingest_log
        is_stored = ingest_log.has_file(file, self.source) or file.path in ingest_log.ingested
        return not is_stored and file.path not in ingest_log.waiting

    def _add_record(self, record: BatchRecord | None, seconds: float) -> None:
        if record is not None:
            self._open_rows += record.rows
            self.status.add_batch(record, seconds)
            self._removal.remove_ingested(record)

    def _end_steps(self) -> None:
        """End steps that are over. While merges of the last one run, the open step continues."""
        if self.history.merging:
            return
        try:
            self._end_due()
        except StorageError as error:
            self.status.last_error = str(error)

    def _catch_up(self) -> None:
        """End all steps that are over: rows after a pause do not belong to the step that was open before it."""
        try:
            with self._lock:
                while not self._stopping and self._end_due():
                    pass
        except QuantideError as error:
            self.status.last_error = str(error)

    def _end_due(self) -> int:
        """End a bounded number of steps that are over; return how many ended."""
        due = self._clock.due(self._open_rows)
        self.writer.origin, self.status.clock_problem = self._clock.origin, self._clock.problem
        for _ in range(due):
            self.history.end_step(wait=False)
            self._open_rows = 0
        return due

    def _maintain(self) -> None:
        """Update the status and vacuum, when they are due."""
        now = time.monotonic()
        if now >= self._next_status:
            self.refresh_status()
        if now - self._last_vacuum >= VACUUM_INTERVAL:
            self._last_vacuum = now
            self.history.vacuum(grace_hours=self._grace)


def open_history(stream: StreamConfig, executor: Executor | None = None) -> History:
    """Open the store of a stream for writing; errors name the stream."""
    try:
        history = History(
            stream.folder,
            eps=stream.eps,
            kappa=stream.kappa,
            memory=stream.memory,
            keys=stream.keys or None,
            value_type=stream.value_type,
            retention=stream.retention,
            window=stream.window,
            max_ahead=stream.max_ahead,
            filters=list(stream.filters),
            durable=stream.durable,
            executor=executor,
            storage_options=stream.storage_options or None,
            **tail_settings(stream.tail),
        )
        if history.settings.keys != stream.keys:
            raise SettingsError(f"this store was made with the keys {list(history.settings.keys)}; write them as keys")
        history.open()
    except (WriterConflictError, StorageError):
        raise
    except QuantideError as error:
        raise type(error)(f"{stream.key}: {error}") from error
    return history


def _check_expressions(session: SparkSession, stream: StreamConfig) -> None:
    """Raise ConfigError for SQL that Spark cannot parse, before anything starts."""
    texts = {"value": stream.value, "time": stream.time or "1", "weight": stream.weight or "1"}
    parser = session._jsparkSession.sessionState().sqlParser()
    texts |= {f"filters.{name}": text for name, text in stream.filters.items()}
    for name, text in texts.items():
        try:
            parser.parseExpression(text)
        except ParseException as error:
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"{stream.key}.{name} is {text!r}, which is not SQL: {reason}. Write a column or a Spark SQL expression"
            ) from error
