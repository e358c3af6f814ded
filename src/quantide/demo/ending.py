"""How a command that goes on ends: by SIGTERM as by Ctrl-C, after some seconds, and without the noise of others."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end what runs the way Ctrl-C does, so that it tidies up: restores the terminal, ends a child."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def deaf_at_the_end() -> Iterator[Callable[[], None]]:
    """SIGTERM and Ctrl-C end the demo. Once its end has begun they change nothing any more: it is on its way."""
    before = signal.getsignal(signal.SIGINT)

    def deaf() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    with ended_by_sigterm():
        try:
            yield deaf
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """As if somebody pressed Ctrl-C then."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Let Spark, which writes to the standard error of this process, write to a file. Our own errors stay visible."""
    sys.stderr.flush()
    own, python = os.dup(2), sys.stderr
    with path.open("ab") as log, os.fdopen(own, "w", encoding="utf-8") as ours:
        os.dup2(log.fileno(), 2)
        sys.stderr = ours
        try:
            yield
        finally:
            sys.stderr = python
            os.dup2(own, 2)
