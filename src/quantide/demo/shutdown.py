"""Shutdown of a running command: on SIGTERM as on Ctrl-C, after some seconds, and without Spark's output."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, so that the terminal is restored and child processes end."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def ignorable_signals() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and Ctrl-C end the demo; yield a function that makes both ignored once shutdown has started."""
    previous = signal.getsignal(signal.SIGINT)

    def ignore_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    with sigterm_as_interrupt():
        try:
            yield ignore_signals
        finally:
            signal.signal(signal.SIGINT, previous)


@contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Send SIGTERM to this process after some seconds; a background job of a script ignores SIGINT."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def redirect_stderr(path: Path) -> Iterator[None]:
    """Redirect standard error, which Spark writes to, into a file; Python's own errors stay visible."""
    sys.stderr.flush()
    original, python_stderr = os.dup(2), sys.stderr
    with path.open("ab") as log, os.fdopen(original, "w", encoding="utf-8") as visible:
        os.dup2(log.fileno(), 2)
        sys.stderr = visible
        try:
            yield
        finally:
            sys.stderr = python_stderr
            os.dup2(original, 2)
