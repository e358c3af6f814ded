"""Ingestion: runs all streams of a configuration until it is stopped, or until nothing is left to read."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import TextIO

from pyspark.sql import SparkSession

from quantide.config import Config, StreamConfig
from quantide.errors import (
    CheckpointError,
    ConfigError,
    ConnectorError,
    DataLossError,
    SettingsError,
    SourceTableError,
    SparkSetupError,
    StorageError,
    StreamError,
    TypeMismatchError,
    WriterConflictError,
)
from quantide.spark.java_process import JavaProcess, ignore_lost_java
from quantide.spark.kafka_connector import connector_conf, connector_error
from quantide.spark.spark_executor import SparkExecutor
from quantide.spark.spark_session import check_workers, start_session
from quantide.spark.stream.frame_tasks import prepare_workers
from quantide.spark.stream.micro_batch import LOCAL_BYTES
from quantide.spark.stream.running_stream import RunningStream
from quantide.spark.stream.stream_source import SPARK_ERRORS, first_line
from quantide.spark.stream.stream_status import StatusBoard

FATAL_ERRORS = (
    CheckpointError,
    ConfigError,
    ConnectorError,
    DataLossError,
    SettingsError,
    SourceTableError,
    TypeMismatchError,
    WriterConflictError,
)
TICK = 0.1  # seconds between two rounds over all streams
LATE_SIGNAL = 1.0  # seconds to wait for a signal that has already ended Java
LISTED_FILES = 100  # files of a folder whose sizes are added up
MAX_PAUSE = 60.0  # seconds before a failed stream restarts
LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
AVRO_LIMITS = " ".join(  # or a few bytes that announce text of 2 GB end the JVM, at every start
    f"-Dorg.apache.avro.limits.{kind}.maxLength={1 << 26}" for kind in ("string", "bytes", "collectionItems")
)
START_CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # a large batch of one stream, or a merge, does not delay the others
    "spark.driver.extraJavaOptions": f"-Xss16m {AVRO_LIMITS}",  # -Xss16m: or stopping prints a stack overflow
    "spark.executor.extraJavaOptions": AVRO_LIMITS,
}
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
STREAM_CONF = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",  # every tenth one has the names of all files
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
    "spark.sql.files.ignoreMissingFiles": "true",  # or a file that is removed too early stops the stream for ever
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # as text, like Arrow
    "spark.sql.optimizer.enableCsvExpressionOptimization": "false",  # or from_csv fails at a bad line
    "spark.sql.session.timeZone": "UTC",  # for times without a zone, whatever the machine's zone is
}


@dataclass
class PendingRestart:
    """Restart of a stream that failed: when it is due, if it is, and the last pause."""

    due: float | None = None
    pause: float = 0.5  # doubles before each restart


def ingest(
    config: Config,
    out: TextIO,
    master: str = "local[*]",
    once: bool = False,
    reset: bool = False,
    allow_duplicates: bool = False,
    json: bool = False,
    announce: bool = False,
) -> None:
    """Run all streams; with `once`, until all data that exists now is in the store.

    With `announce`, `out` first gets a line while Spark starts, which takes seconds.
    """
    stop, java = threading.Event(), JavaProcess()
    for stream in config.streams.values():
        stream.open_storage().list_top()  # raises before Spark starts if the store cannot be reached
    if announce and not json and SparkSession.getActiveSession() is None:
        out.write("Starting Spark, which ingests the data ...\n")
        out.flush()
    with (
        stop_on_signals(stop, java.end),
        _allow_early_spark_stop(stop),
        closing(java),
        session_for(config, master, java) as session,
    ):
        executor = None if master.startswith("local") else SparkExecutor(session)
        if executor is None and any(map(_has_large_files, config.streams.values())):
            prepare_workers(session)
        streams: list[RunningStream] = []
        try:
            for stream in config.streams.values():  # one by one: if a stream fails, those before it are closed
                streams += [RunningStream(session, stream, executor, once, reset, allow_duplicates)]
            java.mark_started()
            _run_streams(streams, StatusBoard(out, json), once, stop, lambda: java.mute_log(session))
        except SPARK_ERRORS as error:
            raise StreamError(f"Spark failed: {first_line(error)}. Nothing is lost; start again") from error
        finally:
            if stop.is_set():
                _silence(session)
            _stop_streams(streams)


def _has_large_files(stream: StreamConfig) -> bool:
    """Return True if the first files of a folder are too large for the driver, so that workers will read them."""
    try:
        with os.scandir(stream.source.path or os.devnull) as files:
            return sum(file.stat().st_size for file in islice(files, LISTED_FILES)) > LOCAL_BYTES
    except OSError:  # another file system, or a source that is not files
        return False


@contextmanager
def session_for(config: Config, master: str, java: JavaProcess | None = None) -> Iterator[SparkSession]:
    """Open a child of the active session, or of a new one (bound to loopback if local), whose process is `java`."""
    java = java or JavaProcess()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it prints errors that we raise
    running = SparkSession.getActiveSession()
    if running is None:
        builder = SparkSession.builder.master(master).appName("quantide ingest")
        local = LOCAL_CONF if master.startswith("local") else {}
        settings = START_CONF | local | combine_java_options(config.spark) | connector_conf(config)
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            with java.recorded():
                running = start_session(builder, java.end)
        except SparkSetupError as error:
            raise connector_error(config, str(error)) or error from error
        own = running
        ignore_lost_java(own.sparkContext)
    else:
        own = None
    session = running.newSession()
    for name, value in STREAM_CONF.items():
        session.conf.set(name, value)
    try:
        check_workers(running)
        yield session
    finally:
        if own is not None and not java.ended:
            own.stop()


def combine_java_options(spark: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Spark whose Java options are added to those of Quantide; where both set one, theirs counts."""
    return {name: f"{START_CONF[name]} {value}" if name in JAVA_OPTIONS else value for name, value in spark.items()}


def _run_streams(
    streams: list[RunningStream], board: StatusBoard, once: bool, stop: threading.Event, mute_log: Callable[[], None]
) -> None:
    for stream in streams:
        if not stop.is_set():
            stream.start()
    restarts: dict[RunningStream, PendingRestart] = {}
    while not stop.is_set():
        for stream in streams:
            error = stream.tick() or stream.failure()
            if error is not None and (once or isinstance(error, FATAL_ERRORS)):
                raise error
            if error is not None and not stream.running:
                _restart(stream, error, restarts.setdefault(stream, PendingRestart()))
        board.show([stream.status for stream in streams])
        if once and not any(stream.unfinished for stream in streams):
            break
        stop.wait(TICK)
    if stop.is_set():
        mute_log()
    for stream in streams:
        stream.finish_batch()
        stream.refresh_status()
    board.show([stream.status for stream in streams], last=True)
    for stream in streams if once and not stop.is_set() else ():
        stream.check_columns()


def _restart(stream: RunningStream, error: Exception, restart: PendingRestart) -> None:
    """Restart a failed stream after a pause that doubles each time: a full disk or a lost network may recover."""
    now = time.monotonic()
    stream.status.last_error = first_line(error)
    if restart.due is None:
        restart.pause = min(2 * restart.pause, MAX_PAUSE)
        restart.due = now + restart.pause
    elif now >= restart.due:
        restart.due = None
        try:
            stream.start()
        except (StorageError, StreamError) as again:  # such as brokers that do not answer yet
            stream.status.last_error = first_line(again)


def _silence(session: SparkSession) -> None:
    """Let Spark log nothing more: what it still computes is abandoned, and would be logged as failures."""
    with suppress(ConnectionError, *SPARK_ERRORS):  # the signal may have reached Java, too
        session.sparkContext.setLogLevel("OFF")


def _stop_streams(streams: list[RunningStream]) -> None:
    """Stop all streams, then raise the first error."""
    errors = []
    for stream in streams:
        try:
            stream.stop()
        except Exception as error:
            errors.append(error)
    if errors and sys.exc_info()[1] is None:
        raise errors[0]


@contextmanager
def _allow_early_spark_stop(stop: threading.Event) -> Iterator[None]:
    """Suppress errors of Spark if the signal to stop has also ended Java, before the streams were stopped.

    A signal to the process group does that. The next start ingests the interrupted batch, as after a kill.
    """
    logger = logging.getLogger("py4j")
    level = logger.level
    try:
        yield
    except (StreamError, SparkSetupError, ConnectionError, *SPARK_ERRORS):
        if not stop.wait(LATE_SIGNAL):
            raise
    finally:
        logger.setLevel(level)


@contextmanager
def stop_on_signals(stop: threading.Event, on_signal: Callable[[], None]) -> Iterator[None]:
    """Set an event at SIGTERM and Ctrl-C, and call `on_signal`."""

    def set_event(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # the signal may have reached Java, too
        on_signal()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, set_event) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
