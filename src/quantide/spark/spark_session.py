"""The Spark session: the active one or a new one, and a check that its workers can run Quantide."""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.core import context
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from quantide.errors import SparkSetupError

_checked_sessions: WeakSet[SparkSession] = WeakSet()
_core_counts: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()

COUNTED_ROWS = 1 << 16  # rows of a range that Spark cuts into as many partitions as tasks run at once
# The cause in the errors of workers that do not start; the rest of the text are stack traces.
START_FAILURE = re.compile(r"(No module named|Cannot run program|\[PYTHON_VERSION_MISMATCH\]|Python worker exited).*")


def active_session() -> SparkSession:
    """Return the session of this thread, or the one that all threads share."""
    try:
        session = SparkSession.active()
    except PySparkRuntimeError as error:
        raise SparkSetupError(
            "there is no active Spark session; make one with SparkSession.builder.getOrCreate()"
        ) from error
    check_workers(session)
    return session


def start_session(builder: SparkSession.Builder, on_signal: Callable[[], None] | None = None) -> SparkSession:
    """Start a session that logs errors only; raise SparkSetupError if Java is missing or Spark does not start.

    `on_signal` is called at once when a signal arrives meanwhile; the signal itself is deferred.
    """
    try:
        with defer_signals(on_signal):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise SparkSetupError(f"Spark does not start: {reason[:300]} `quantide doctor` says what to do") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def defer_signals(on_signal: Callable[[], None] | None = None) -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM until Spark has started: an interrupted start leaves a Java process that never ends.

    `on_signal` can end that process, so that the start fails early.

    From then on Spark handles Ctrl-C, unless the program set its own handler before.
    """
    received: list[int] = []
    of_spark: dict[int, Any] = {}

    def record(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if on_signal is not None:
            on_signal()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, record) for number in (signal.SIGINT, signal.SIGTERM)}
    # Spark sets its handler before it is ready, and that one calls Java in the middle of another call.
    vars(context)["signal"] = SimpleNamespace(SIGINT=signal.SIGINT, signal=of_spark.__setitem__)
    try:
        yield
    finally:
        vars(context)["signal"] = signal
        for number, handler in of_spark.items():
            signal.signal(number, handler)
        for number, handler in before.items():
            if signal.getsignal(number) is record or handler is not signal.default_int_handler:
                signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def check_workers(session: SparkSession) -> None:
    """Start a worker and import quantide in it, once for each session."""
    if session in _checked_sessions:
        return
    probe = session.range(0, 1, 1, 1).mapInArrow(_make_probe(), "reason string")
    try:
        reason = probe.collect()[0]["reason"]
    except (PySparkException, Py4JJavaError) as error:  # no Python, or one without pyarrow: the probe did not run
        cause = START_FAILURE.search(str(error))
        if cause is None:
            raise
        raise _cannot_run(cause[0].strip()) from error
    if reason:
        raise _cannot_run(reason)
    _checked_sessions.add(session)


def count_cores(session: SparkSession) -> int:
    """Return how many tasks run at once. Spark Connect has no context: a small job counts, once for each session."""
    context = getattr(session, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    if session not in _core_counts:
        parts = session.range(COUNTED_ROWS).select(F.spark_partition_id().alias("part"))
        _core_counts[session] = int(parts.agg(F.max("part")).collect()[0][0]) + 1
    return _core_counts[session]


def _cannot_run(reason: str) -> SparkSetupError:
    return SparkSetupError(
        f"Spark's workers cannot run Quantide: {reason}. Install quantide where the workers run, and set "
        "PYSPARK_PYTHON (or spark.pyspark.python) to that Python before the session starts"
    )


def _make_probe() -> Any:
    """Return a function that is pickled by value, so that it runs where quantide is missing."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            try:
                import quantide.summary.summary

                reason = "" if quantide.__version__ else "no version"
            except ImportError as error:
                import sys

                reason = f"{sys.executable}: {error}"
            import pyarrow

            yield pyarrow.RecordBatch.from_pydict({"reason": [reason]})

    probe.__module__ = "__main__"
    return probe
