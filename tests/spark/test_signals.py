"""Ctrl-C while Spark starts is deferred, or ends Java: an interrupted start leaves a Java process behind."""

import logging
import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import java_gateway
from pyspark.core import context

from bench.processes import family
from quantide.spark import java_process
from quantide.spark.ingest import _run_streams
from quantide.spark.java_process import JavaProcess, ignore_lost_java
from quantide.spark.spark_session import defer_signals
from tests.browser.demo import runs
from tests.spark.process_groups import environment, finish, running, wait_until
from tests.spark.streams import Feed


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Signals that reach a handler of our own."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def usual() -> Iterator[None]:
    """The handler that Python begins with, whatever a Spark of other tests has left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual")
def test_ctrl_c_comes_when_spark_is_up() -> None:
    done = []

    def start() -> None:
        with defer_signals():
            signal.raise_signal(signal.SIGINT)
            done.append("up")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_existing_handler_stays(received: list[int]) -> None:
    ours = signal.getsignal(signal.SIGINT)
    with defer_signals():
        signal.raise_signal(signal.SIGINT)
        assert not received
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark does, with a handler of its own
    assert received == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is ours


@pytest.mark.usefixtures("usual")
def test_without_a_handler_that_of_spark_stays() -> None:
    with defer_signals():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("usual")
def test_the_handler_of_spark_is_set_when_spark_is_up() -> None:
    of_spark = signal.Handlers.SIG_IGN
    with defer_signals():
        ours = signal.getsignal(signal.SIGINT)
        vars(context)["signal"].signal(signal.SIGINT, of_spark)  # as a session does before it is ready
        assert signal.getsignal(signal.SIGINT) is ours
    assert signal.getsignal(signal.SIGINT) is of_spark
    assert vars(context)["signal"] is signal


def test_a_signal_is_reported_at_once(received: list[int]) -> None:
    calls: list[list[int]] = []
    with defer_signals(lambda: calls.append(list(received))):
        signal.raise_signal(signal.SIGINT)
        assert calls == [[]]
    assert received == [signal.SIGINT]


def test_failed_calls_after_a_signal_are_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    """Java may end during a call, after SIGHUP or SIGKILL; py4j logs such a call by the root logger."""
    root, java = logging.getLogger(), JavaProcess()
    handler, before = logging.StreamHandler(), root.filters[:]
    root.addHandler(handler)
    try:
        root.filters.clear()
        java.mark_started()
        logging.error("Exception while sending command.")
        java.end()
        logging.error("Exception while sending command.")
    finally:
        root.removeHandler(handler)
        root.filters[:] = before
    assert not java.ended
    assert capfd.readouterr().err.count("while sending command") == 1


def start_java(java: JavaProcess, first: str = "pass") -> subprocess.Popen[bytes]:
    """A process that waits, started as Spark starts Java."""
    code = f"import signal, time; {first}; print(flush=True); time.sleep(600)"
    with java.recorded():
        process: subprocess.Popen[bytes] = vars(java_gateway)["Popen"](
            [sys.executable, "-c", code], stdout=subprocess.PIPE
        )
    assert vars(java_gateway)["Popen"] is subprocess.Popen
    return process


def test_java_that_starts_is_ended() -> None:
    java = JavaProcess()
    with start_java(java) as process:
        java.end()
        java.close()
        assert process.poll() == -signal.SIGHUP
    with start_java(java) as process:  # the signal came before Java
        assert process.wait() == -signal.SIGHUP


def test_java_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_process, "PATIENCE", 0.01)
    java = JavaProcess()
    with start_java(java, "signal.signal(1, signal.SIG_IGN)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        java.close()
        assert process.poll() is None
        java.end()
        java.close()
        assert process.poll() == -signal.SIGKILL


def test_java_that_works_is_not_ended() -> None:
    """Neither by this process, nor by a signal to the process group, before the streams have stopped."""
    java = JavaProcess()
    with start_java(java) as process:
        java.mark_started()
        java.end()
        process.send_signal(signal.SIGINT)
        process.terminate()
        assert (java.ended, process.poll()) == (False, None)
        process.kill()


@pytest.mark.parametrize("error", [None, Py4JNetworkError("gone"), ConnectionRefusedError()])
def test_the_log_of_our_java_is_muted(error: Exception | None) -> None:
    levels: list[str] = []

    def set_level(level: str) -> None:
        levels.append(level)
        if error is not None:
            raise error

    java, session = JavaProcess(), SimpleNamespace(sparkContext=SimpleNamespace(setLogLevel=set_level))
    java.mute_log(cast(Any, session))
    assert levels == []  # Spark runs in a process of the program
    with start_java(java) as process:
        java.mute_log(cast(Any, session))
        process.kill()
    assert levels == ["OFF"]


@pytest.mark.parametrize("stopped", [False, True])
def test_the_log_is_muted_before_batches_are_refused(stopped: bool) -> None:
    calls: list[str] = []
    stop = threading.Event()
    if stopped:
        stop.set()
    stream = MagicMock(status=None, running=False, unfinished=False)
    stream.tick.return_value = stream.failure.return_value = None
    stream.finish_batch.side_effect = lambda: calls.append("finish")
    _run_streams([stream], MagicMock(), True, stop, lambda: calls.append("mute"))
    assert calls == (["mute", "finish"] if stopped else ["finish"])


@pytest.mark.parametrize(("error", "lines"), [(EOFError(), 0), (ConnectionResetError(), 0), (ValueError(), 1)])
def test_the_end_of_java_prints_no_stack_trace(error: Exception, lines: int, capfd: pytest.CaptureFixture[str]) -> None:
    address = ("127.0.0.1", 0)
    with socketserver.TCPServer(address, socketserver.BaseRequestHandler, bind_and_activate=False) as server:
        context: Any = SimpleNamespace(_accumulatorServer=server)
        ignore_lost_java(context)
        try:
            raise error
        except Exception:
            server.handle_error((b"", server.socket), address)
    assert capfd.readouterr().err.count("Traceback") == lines


@pytest.mark.slow
def test_ctrl_c_ends_ingestion_that_starts(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "quantide", "ingest", str(feed.config)]
    with running(command, log, environment()) as process:
        wait_until(lambda: len(family(process.pid)) > 1, [process], log)
        started = family(process.pid) - {process.pid}
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert "Traceback" not in finish(process, log)
        wait_until(lambda: not any(runs(pid) for pid in started), [], log)
