"""A stream that runs: its query, its history, and what goes on beside: files tried again, ends of steps, vacuum."""

import os
import shutil
import time
from contextlib import suppress
from threading import RLock

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from quantide.config import StreamConfig
from quantide.errors import ConfigError, QuantideError, SettingsError, StorageError, StreamError, WriterConflictError
from quantide.history.history import History
from quantide.history.tasks import Executor
from quantide.spark.stream.batch import Batch, BatchWriter
from quantide.spark.stream.checkpoint import checkpoint_folder, choose_checkpoint, offsets_of
from quantide.spark.stream.layouts import check_schema
from quantide.spark.stream.retry import Retries
from quantide.spark.stream.rollover import Rollover
from quantide.spark.stream.selection import Selection
from quantide.spark.stream.source import SPARK_ERRORS, first_line, named_files, open_source
from quantide.spark.stream.source_log import planned_files
from quantide.spark.stream.status import Status
from quantide.spark.stream.steps import grace_hours
from quantide.spark.stream.stream_clock import StreamClock
from quantide.spark.stream.work import look
from quantide.store.ingest_status import publish_status
from quantide.store.ledger import Ledger, Record, SourceFile
from quantide.store.names import STAGING

POLL = "100 milliseconds"
LOOK = 1.0  # seconds between looks at the store; more where they take long
VACUUM = 600.0  # seconds between vacuums
FINISH = 20.0  # seconds that a batch has to finish when the stream is stopped


class Stopping(Exception):
    """Raised within a batch that is not begun any more: Spark must not think that it was done."""


class Stream:
    """One stream of a configuration. It holds the lease of its store from the start."""

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
        _check_expressions(session, stream)
        check_schema(stream, Selection.of(stream, "UTC"))
        self.history = open_history(stream, executor)
        try:
            self.ledger = Ledger(stream.folder, self.history.batch_seen, stream.durable)
            self.source = choose_checkpoint(stream, self.ledger, reset, allow_duplicates)
            if reset and stream.source.is_files and self.ledger.last:
                self.ledger.rebase(self.source)  # then one batch passes by all files that the store knows
            self.ledger.forget(self.source)
            self.ledger.clean()
            self._rollover = Rollover(stream, self.ledger, session, self.source)
            shutil.rmtree(os.path.join(stream.folder, STAGING), ignore_errors=True)
            self.writer = BatchWriter(stream, self.history, self.ledger, session)
            self._retries = Retries(self.writer)
            self._clock = StreamClock(stream, self.ledger, self.history)
            self.writer.origin = self._clock.origin
            self._grace = grace_hours(stream.step, self.history.settings.retention)
            self._open_rows = int(self.history.stats()["stream_values"])
        except BaseException:
            self.history.close()
            raise
        self.status = Status(stream.name, self.ledger.rows, self.ledger.bad, self.ledger.ahead)
        self.query: StreamingQuery | None = None
        self.error: Exception | None = None
        self._lock, self._stopping, self._pausing = RLock(), False, False
        self._settled = False  # whether files were looked for after the query ended
        self._look_at = self._vacuumed = time.monotonic()

    def start(self) -> None:
        """Begin, or begin again, to read."""
        self.error, self._pausing, self._settled = None, False, False
        self._catch_up()
        self._roll_over()
        if self._rollover.passes_by() and not self._pass_by():
            return
        fresh = self.source not in self.ledger.last
        frame = open_source(self.session, self.config, self.ledger.offsets if fresh else "")
        writing = self._writing(frame)
        trigger = writing.trigger(availableNow=True) if self._once else writing.trigger(processingTime=POLL)
        self.query = trigger.start()

    def _roll_over(self) -> None:
        """Begin a new checkpoint where the old one has grown; where that fails, go on with the old one."""
        if self._rollover.is_due:
            try:
                self.source = self._rollover.begin()
            except (StorageError, *SPARK_ERRORS) as error:
                self._rollover.postpone()
                self.status.problem = f"no new checkpoint could be begun: {first_line(error)}"

    def _pass_by(self) -> bool:
        """Let a new checkpoint see all files that are in the store, in one batch; return True if it did."""
        frame = open_source(self.session, self.config, "", limited=False)
        self.query = self._writing(frame).trigger(availableNow=True).start()
        with suppress(*SPARK_ERRORS):  # problem() tells
            self.query.awaitTermination()
        return self.query.exception() is None

    def _writing(self, frame: DataFrame) -> DataStreamWriter:
        folder = checkpoint_folder(self.config, self.source)
        return frame.writeStream.foreachBatch(self._take).option("checkpointLocation", folder)

    @property
    def running(self) -> bool:
        return self.query is not None and self.query.isActive

    def problem(self) -> QuantideError | None:
        """Why the query ended, if it failed."""
        found = self.query.exception() if self.query is not None and not self.query.isActive else None
        return None if found is None else self._named(self.error or found)

    def tick(self) -> QuantideError | None:
        """What goes on beside the batches; left for later while one runs. An error is returned, and shown."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            began, ended = time.monotonic(), not self.running
            self._took(self.writer.settle(), 0.0)
            record = self._retries.run(ended and not self._settled)
            self._settled = ended
            self._took(record, time.monotonic() - began)
            self._end_steps()
            self._housekeeping()
            self._pausing = self._rollover.is_due and self.running and not self._once
        except (QuantideError, *SPARK_ERRORS) as error:
            named = self._named(error)
            self.status.problem = str(named)
            return named
        finally:
            self._lock.release()
        return self._restart() if self._pausing else None

    def _restart(self) -> QuantideError | None:
        """Begin again with a new checkpoint; until then no batch begins."""
        assert self.query is not None
        try:
            self.query.stop()
            self.start()
        except (QuantideError, *SPARK_ERRORS) as error:
            return self._named(error)
        return None

    def look(self) -> None:
        """Bring what is shown up to date."""
        began = time.monotonic()
        self.status.stats = self.history.stats()
        self.status.waiting, self.status.held = self.waiting, len(self.ledger.quarantined)
        self.status.changed = len(self._retries.changed)
        slower = "expressions by Spark" if self.writer.shares.slower else ""
        self.status.note = "  ".join(note for note in (slower, self._retries.note) if note)
        self._publish(running=True)
        self._look_at = time.monotonic() + max(LOOK, 20 * (time.monotonic() - began))

    def _publish(self, running: bool) -> None:
        """Let readers of the store see how ingestion is doing."""
        try:
            publish_status(self.config.folder, self.status.published(running))
        except StorageError as error:
            self.status.problem = str(error)

    def _named(self, error: Exception) -> QuantideError:
        if isinstance(error, QuantideError):
            return error
        return StreamError(f"{self.config.key} failed: {first_line(error)}")

    @property
    def waiting(self) -> int:
        """How many files are to be tried again."""
        return len(self.ledger.waiting)

    @property
    def unfinished(self) -> bool:
        """Return True while there is something to take in; a file that stays empty is left to wait."""
        return self.running or not self._settled or self._retries.pending > 0

    def check_found(self) -> None:
        """Raise when every file is held for what the configuration says of its columns."""
        self.writer.check_found(self.ledger.quarantined.values())

    def stop(self) -> None:
        """Let the batch that runs finish, or abandon it when it takes long; then let go of everything."""
        self._stopping = True
        if self._lock.acquire(timeout=FINISH):
            self._lock.release()
        if self.query is not None:
            self.query.stop()
        self._publish(running=False)
        self.history.close()

    def _take(self, frame: DataFrame, number: int) -> None:
        """A micro-batch. To return means that it is in the store."""
        with self._lock:
            if self._stopping or self._pausing:
                raise Stopping
            began = time.monotonic()
            frame.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", self.config.name)
            try:
                record = self._batch(frame, number)
                self._took(record, time.monotonic() - began)
                self._end_steps()
            except Exception as error:
                self.error = error
                raise

    def _batch(self, frame: DataFrame, number: int) -> Record | None:
        self._took(self.writer.settle(), 0.0)
        if not self.config.source.is_files:
            offsets = offsets_of(self.config, self.source, number)
            return self.writer.take_frame(Batch(self.source, number, offsets=offsets), frame)
        batch = Batch(self.source, number)
        if self.history.batch_seen(batch.id):
            return None
        found = named_files(frame)
        self._rollover.count(len(found))
        planned = planned_files(checkpoint_folder(self.config, self.source), number)
        passed_by = sorted(set(planned) - {file.path for file in found})  # by Spark: they are empty, or gone
        now = {path: look(self.writer.storage, path) for path in passed_by}
        new = [file for file in (*found, *now.values()) if file is not None and self._is_new(file)]
        gone = [path for path, file in now.items() if file is None and path not in self.ledger.taken]
        return self.writer.take_files(batch, new, gone)

    def _is_new(self, file: SourceFile) -> bool:
        """Return True unless a file is in the store, as it is or as it was, or is tried by the retries."""
        ledger = self.ledger
        known = ledger.known(file, self.source) or file.path in ledger.taken
        return not known and file.path not in ledger.waiting

    def _took(self, record: Record | None, seconds: float) -> None:
        if record is not None:
            self._open_rows += record.rows
            self.status.took(record, seconds)

    def _end_steps(self) -> None:
        """End steps that are over. While merges of the last one go on, the open step goes on too."""
        if self.history.merging:
            return
        try:
            self._end_due()
        except StorageError as error:
            self.status.problem = str(error)

    def _catch_up(self) -> None:
        """End all steps that are over: rows that come after a pause are not of the step that was open before it."""
        try:
            with self._lock:
                while not self._stopping and self._end_due():
                    pass
        except QuantideError as error:
            self.status.problem = str(error)

    def _end_due(self) -> int:
        """End the steps that are over by now, a bounded number of them; how many."""
        due = self._clock.due(self._open_rows)
        self.writer.origin, self.status.clock_problem = self._clock.origin, self._clock.problem
        for _ in range(due):
            self.history.end_step(wait=False)
            self._open_rows = 0
        return due

    def _housekeeping(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self.look()
        if now - self._vacuumed >= VACUUM:
            self._vacuumed = now
            self.history.vacuum(grace_hours=self._grace)


def open_history(stream: StreamConfig, executor: Executor | None = None) -> History:
    """The store of a stream, ready to be written to; errors name the stream."""
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
    """SQL that Spark cannot even read is better known before anything starts."""
    texts = {"value": stream.value, "time": stream.time or "1"}
    parser = session._jsparkSession.sessionState().sqlParser()
    texts |= {f"filters.{name}": text for name, text in stream.filters.items()}
    for name, text in texts.items():
        try:
            parser.parseExpression(text)
        except ParseException as error:
            told = str(error).strip().splitlines()[0]
            raise ConfigError(
                f"{stream.key}.{name} is {text!r}, which is not SQL: {told}. Write a column or a Spark SQL expression"
            ) from error
