"""The Spark session in use, and whether its workers can run Quantide."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from quantide.errors import QuantideError

_checked: WeakSet[SparkSession] = WeakSet()
_counted: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()

MANY = 1 << 16  # rows of a range that Spark cuts into as many partitions as tasks run at once
# What names the cause in the errors of workers that do not even start; the rest are traces of Python and of Java.
CAUSE = re.compile(r"(No module named|Cannot run program|\[PYTHON_VERSION_MISMATCH\]|Python worker exited).*")


class SparkSetupError(QuantideError, RuntimeError):
    """No session, or workers whose Python cannot import quantide."""


def active_session() -> SparkSession:
    """The session of this thread, or the one that all threads share."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError as error:
        raise SparkSetupError(
            "there is no active Spark session; make one with SparkSession.builder.getOrCreate()"
        ) from error
    check_workers(session)
    return session


def start_session(builder: SparkSession.Builder) -> SparkSession:
    """A session that says little; where there is no Java, or Spark does not start, an error that says so."""
    try:
        with signals_wait():
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        told = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise SparkSetupError(f"Spark does not start: {told[:300]} `quantide doctor` says what to do") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def signals_wait() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until Spark is up: one that is interrupted while it starts leaves a Java that never
    ends. Spark handles Ctrl-C in a way of its own from then on, unless somebody did before."""
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is note or handler is not signal.default_int_handler:
                signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def check_workers(session: SparkSession) -> None:
    """Once a session: start a worker and let it import quantide."""
    if session in _checked:
        return
    probe = session.range(0, 1, 1, 1).mapInArrow(_probe(), "problem string")
    try:
        problem = probe.collect()[0]["problem"]
    except (PySparkException, Py4JJavaError) as error:  # no Python, or one without pyarrow: nothing of ours ran
        cause = CAUSE.search(str(error))
        if cause is None:
            raise
        raise _cannot_run(cause[0].strip()) from error
    if problem:
        raise _cannot_run(problem)
    _checked.add(session)


def cores(session: SparkSession) -> int:
    """How many tasks run at once. Spark Connect has no context to ask: there a small job tells, once a session."""
    context = getattr(session, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    if session not in _counted:
        parts = session.range(MANY).select(F.spark_partition_id().alias("part"))
        _counted[session] = int(parts.agg(F.max("part")).collect()[0][0]) + 1
    return _counted[session]


def _cannot_run(problem: str) -> SparkSetupError:
    return SparkSetupError(
        f"Spark's workers cannot run Quantide: {problem}. Install quantide where the workers run, and set "
        "PYSPARK_PYTHON (or spark.pyspark.python) to that Python before the session starts"
    )


def _probe() -> Any:
    """A function that is sent by value: it must run where quantide is missing."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            try:
                import quantide.summary.summary

                problem = "" if quantide.__version__ else "no version"
            except ImportError as error:
                import sys

                problem = f"{sys.executable}: {error}"
            import pyarrow

            yield pyarrow.RecordBatch.from_pydict({"problem": [problem]})

    probe.__module__ = "__main__"
    return probe
