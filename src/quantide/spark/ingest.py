"""Ingest: all streams of a configuration, until they are told to stop, or until nothing is left to read."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from pyspark.sql import SparkSession

from quantide.config import Config
from quantide.errors import (
    CheckpointError,
    ConfigError,
    SettingsError,
    StreamError,
    TypeMismatchError,
    WriterConflictError,
)
from quantide.spark.executor import SparkExecutor
from quantide.spark.session import check_workers, start_session
from quantide.spark.stream.source import SPARK_ERRORS, first_line
from quantide.spark.stream.status import Board
from quantide.spark.stream.stream import Stream

FATAL = (CheckpointError, ConfigError, SettingsError, TypeMismatchError, WriterConflictError)
TICK = 0.1
LONGEST_PAUSE = 60.0  # seconds before a stream that failed is tried again
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
START = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # a large batch of one stream, or a merge, does not hold up the others
    "spark.driver.extraJavaOptions": "-Xss16m",  # or stopping within a batch prints a stack overflow
}
OF_STREAMS = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",  # each tenth one has the names of all files: rollover.py
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
    "spark.sql.files.ignoreMissingFiles": "true",  # or a file that is removed too early stops the stream for good
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # text, as Arrow has it
    "spark.sql.optimizer.enableCsvExpressionOptimization": "false",  # or from_csv fails where it finds a bad line
    "spark.sql.session.timeZone": "UTC",  # of times without a zone, whatever the machine's is
}


def ingest(
    config: Config,
    out: TextIO,
    master: str = "local[*]",
    once: bool = False,
    reset: bool = False,
    allow_duplicates: bool = False,
    json: bool = False,
) -> None:
    """Run all streams; with `once` until everything that is there now is in the store."""
    stop = threading.Event()
    with stopped_by_signals(stop), session_for(config, master) as session:
        executor = None if master.startswith("local") else SparkExecutor(session)
        streams: list[Stream] = []
        try:
            for stream in config.streams.values():  # those that are open are closed when the next one fails
                streams += [Stream(session, stream, executor, once, reset, allow_duplicates)]
            _run(streams, Board(out, json), once, stop)
        except SPARK_ERRORS as error:
            raise StreamError(f"Spark is gone, or fails: {first_line(error)}. Nothing is lost; start again") from error
        finally:
            _stop(streams)


@contextmanager
def session_for(config: Config, master: str) -> Iterator[SparkSession]:
    """A session of its own, bound to loopback when it is local; or a child of the one that runs already."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it prints what we raise
    running = SparkSession.getActiveSession()
    if running is None:
        builder = SparkSession.builder.master(master).appName("quantide ingest")
        for name, value in (START | (LOCAL if master.startswith("local") else {}) | dict(config.spark)).items():
            builder = builder.config(name, value)
        running = start_session(builder)
        own = running
    else:
        own = None
    session = running.newSession()
    for name, value in OF_STREAMS.items():
        session.conf.set(name, value)
    try:
        check_workers(running)
        yield session
    finally:
        if own is not None:
            own.stop()


def _run(streams: list[Stream], board: Board, once: bool, stop: threading.Event) -> None:
    for stream in streams:
        if not stop.is_set():
            stream.start()
    again: dict[Stream, tuple[float, float]] = {}  # when a stream that failed is started again, and the pause before
    while not stop.is_set():
        for stream in streams:
            error = stream.tick() or stream.problem()
            if error is not None and (once or isinstance(error, FATAL)):
                raise error
            if error is not None and not stream.running:
                _start_again(stream, error, again)
        board.show([stream.status for stream in streams])
        if once and not any(stream.unfinished for stream in streams):
            break
        stop.wait(TICK)
    for stream in streams:
        stream.look()
    board.show([stream.status for stream in streams], last=True)
    for stream in streams if once and not stop.is_set() else ():
        stream.check_found()


def _start_again(stream: Stream, error: Exception, again: dict[Stream, tuple[float, float]]) -> None:
    """After a pause that gets longer: a full disk may be emptied, a network come back."""
    now = time.monotonic()
    when, pause = again.get(stream, (0.0, 0.5))
    stream.status.problem = first_line(error)
    if when == 0.0:
        pause = min(2 * pause, LONGEST_PAUSE)
        again[stream] = (now + pause, pause)
    elif now >= when:
        again[stream] = (0.0, pause)
        stream.start()


def _stop(streams: list[Stream]) -> None:
    """Stop all, and raise the first error only when all are stopped."""
    errors = []
    for stream in streams:
        try:
            stream.stop()
        except Exception as error:
            errors.append(error)
    if errors and sys.exc_info()[1] is None:
        raise errors[0]


@contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask to stop."""

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
