"""Java process of Spark: recorded as soon as it starts, so that a signal can end it before Spark is ready."""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen, TimeoutExpired
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

PATIENCE = 1.0  # seconds for Java to end


class JavaProcess:
    """The Java process that a session starts. `end` ends it while it only starts, and has no work yet.

    Spark returns the process after some seconds, when Java is ready; waiting for that would delay Ctrl-C as long.

    Java ignores SIGTERM, as it ignores SIGINT: a service manager sends it to all processes at once, and this one stops
    the streams before it ends Java. SIGHUP ends Java, and so does the end of this process.
    """

    def __init__(self) -> None:
        self.ended = False
        self._process: Popen[bytes] | None = None
        self._starting = True

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the process that Spark starts in this context; one that starts after `end` is ended, too."""

        def start(*args: Any, **kwargs: Any) -> Popen[bytes]:
            kwargs["preexec_fn"] = _ignore_signals
            self._process = process = Popen(*args, **kwargs)
            if self.ended:
                process.send_signal(signal.SIGHUP)
            return process

        vars(java_gateway)["Popen"] = start
        try:
            yield
        finally:
            vars(java_gateway)["Popen"] = Popen

    def end(self) -> None:
        """End the process, if a session is being started. Spark's calls then fail; safe in a signal handler."""
        logging.getLogger().addFilter(_is_no_failed_call)
        if not self._starting:
            return
        self.ended = True
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        """Wait until an ended process has removed its temporary files, but not long; then kill it."""
        if not self.ended or self._process is None:
            return
        try:
            self._process.wait(PATIENCE)
        except TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def mark_started(self) -> None:
        """From now on the session is in use, and `end` does nothing."""
        self._starting = False

    def mute_log(self, session: SparkSession) -> None:
        """Let Spark log nothing more, if this is its process: batches that begin while streams stop fail."""
        if self._process is not None:
            with suppress(Py4JError, ConnectionError):  # the signal to stop may have ended Java, too
                session.sparkContext.setLogLevel("OFF")


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _is_no_failed_call(record: logging.LogRecord) -> bool:
    """Return False for the stack traces that py4j logs when Java ends during a call."""
    return not str(record.msg).endswith("while sending command.")


def ignore_lost_java(context: SparkContext) -> None:
    """Let Spark's server of accumulators ignore the end of Java, instead of printing a stack trace.

    Spark's calls fail then, too, and their errors are reported.
    """
    server: Any = vars(context)["_accumulatorServer"]
    print_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            print_error(request, address)

    server.handle_error = handle_error
