"""The server as a child process: started, watched, started again, and ended."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from quantide.summary.shown import write_line

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a server that died is started again
BEHIND = 10  # how much whoever asks goes before what is taken in, where processors are short
PATIENCE = 20.0  # seconds for a server to end by itself


def print_line(line: str) -> None:
    with suppress(BrokenPipeError):  # whoever read it has gone: ingestion finds that out too
        sys.stdout.write(line)
        sys.stdout.flush()


class Server:
    """`quantide serve` beside this process, with the same output.

    It is in a session of its own: Ctrl-C reaches this process alone, and this one ends the other. Should this process
    be killed, the server sees that by itself: it is told whose child it is. `tell` gets the lines that it writes.
    """

    def __init__(self, words: Sequence[str], tell: Callable[[str], None] = print_line) -> None:
        self._command = [sys.executable, "-m", "quantide", "serve", *words, "--parent", str(os.getpid())]
        self._json, self._tell = "--json" in words, tell
        self._child: subprocess.Popen[str] | None = None
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._watcher = threading.Thread(target=self._watch, name="quantide-server", daemon=True)

    def begin(self) -> int | None:
        """Start it, and wait until it serves, which its first line says; its exit code when it cannot."""
        child = self._start()
        line = child.stdout.readline() if child.stdout else ""
        if not line:
            return child.wait() or 2
        self._tell(line)
        self._watcher.start()
        os.nice(BEHIND)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it: first politely."""
        with self._lock:
            self._ends.set()
            child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if self._watcher.is_alive():
            self._watcher.join()
        if child.stdout is not None:
            child.stdout.close()

    def _start(self) -> subprocess.Popen[str]:
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        return self._child

    def _watch(self) -> None:
        pause, began = FIRST_PAUSE, time.monotonic()
        while (child := self._child) is not None:
            for line in child.stdout or ():
                self._tell(line)
            code = child.wait()
            if self._ends.is_set():
                return
            if time.monotonic() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._say(code, pause)
            if self._ends.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            began = time.monotonic()
            with self._lock:
                if self._ends.is_set():
                    return
                if child.stdout is not None:
                    child.stdout.close()
                self._start()

    def _say(self, code: int, pause: float) -> None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        said = f"the server {how}; it is started again in {pause:.0f} s, and ingestion goes on"
        if self._json:
            write_line(sys.stderr, {"warning": {"code": "server_ended", "message": said}})
        else:
            print(f"quantide: {said}", file=sys.stderr, flush=True)
