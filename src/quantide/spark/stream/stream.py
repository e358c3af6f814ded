"""A stream that runs: its query, its history, and what goes on beside: files tried again, ends of steps, vacuum."""

import os
import shutil
import time
from threading import RLock

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quantide.config import StreamConfig
from quantide.errors import ConfigError, QuantideError, SettingsError, StorageError, StreamError, WriterConflictError
from quantide.history.history import History
from quantide.history.tasks import Executor
from quantide.spark.stream.batch import Batch, BatchWriter
from quantide.spark.stream.checkpoint import checkpoint_folder, choose_checkpoint, offsets_of
from quantide.spark.stream.retry import Retries
from quantide.spark.stream.source import SPARK_ERRORS, first_line, named_files, open_source
from quantide.spark.stream.status import Status
from quantide.spark.stream.steps import StepClock
from quantide.store.ledger import Ledger, Record
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
        self.history = open_history(stream, executor)
        try:
            self.ledger = Ledger(stream.folder, self.history.batch_seen, stream.durable)
            self.source = choose_checkpoint(stream, self.ledger, reset, allow_duplicates)
            self.ledger.forget(self.source)
            self.ledger.clean()
            shutil.rmtree(os.path.join(stream.folder, STAGING), ignore_errors=True)
            self.writer = BatchWriter(stream, self.history, self.ledger, session)
            self._retries = Retries(self.writer)
            self._clock = StepClock(stream.step, self.ledger.origin, self.history.step, time.time())
            self.writer.origin = self._clock.origin
            self._open_rows = int(self.history.stats()["stream_values"])
        except BaseException:
            self.history.close()
            raise
        self.status = Status(stream.name, self.ledger.rows, self.ledger.bad)
        self.query: StreamingQuery | None = None
        self.error: Exception | None = None
        self._lock, self._stopping = RLock(), False
        self._look_at = self._vacuumed = time.monotonic()

    def start(self) -> None:
        """Begin, or begin again, to read."""
        fresh = self.source not in self.ledger.last
        frame = open_source(self.session, self.config, self.ledger.offsets if fresh else "")
        self.error = None
        writing = frame.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", checkpoint_folder(self.config, self.source)
        )
        trigger = writing.trigger(availableNow=True) if self._once else writing.trigger(processingTime=POLL)
        self.query = trigger.start()

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
            began = time.monotonic()
            record = self._retries.run()
            self._took(record, time.monotonic() - began)
            self._end_steps()
            self._housekeeping()
        except (QuantideError, *SPARK_ERRORS) as error:
            named = self._named(error)
            self.status.problem = str(named)
            return named
        finally:
            self._lock.release()
        return None

    def look(self) -> None:
        """Bring what is shown up to date."""
        began = time.monotonic()
        self.status.stats = self.history.stats()
        self.status.waiting, self.status.held = self.waiting, len(self.ledger.quarantined)
        self.status.note = "expressions by Spark" if self.writer.shares.slower else ""
        self._look_at = time.monotonic() + max(LOOK, 20 * (time.monotonic() - began))

    def _named(self, error: Exception) -> QuantideError:
        if isinstance(error, QuantideError):
            return error
        return StreamError(f"{self.config.key} failed: {first_line(error)}")

    @property
    def waiting(self) -> int:
        """How many files are to be tried again."""
        return len(self.ledger.waiting)

    def stop(self) -> None:
        """Let the batch that runs finish, or abandon it when it takes long; then let go of everything."""
        self._stopping = True
        if self._lock.acquire(timeout=FINISH):
            self._lock.release()
        if self.query is not None:
            self.query.stop()
        self.history.close()

    def _take(self, frame: DataFrame, number: int) -> None:
        """A micro-batch. To return means that it is in the store."""
        with self._lock:
            if self._stopping:
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
        if not self.config.source.is_files:
            offsets = offsets_of(self.config, self.source, number)
            return self.writer.take_frame(Batch(self.source, number, offsets=offsets), frame)
        batch = Batch(self.source, number)
        if self.history.batch_seen(batch.id):
            return None
        found = named_files(frame)
        new = [f for f in found if f.path not in self.ledger.waiting and not self.ledger.known(f, self.source)]
        return self.writer.take_files(batch, new)

    def _took(self, record: Record | None, seconds: float) -> None:
        if record is not None:
            self._open_rows += record.rows
            self.status.took(record, seconds)

    def _end_steps(self) -> None:
        """End steps that are over. While merges of the last one go on, the open step goes on too."""
        if self.history.merging:
            return
        try:
            for _ in range(self._clock.due(self.history.step, self._open_rows, time.time())):
                self.history.end_step(wait=False)
                self._open_rows = 0
        except StorageError as error:
            self.status.problem = str(error)

    def _housekeeping(self) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self.look()
        if now - self._vacuumed >= VACUUM:
            self._vacuumed = now
            self.history.vacuum()


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
