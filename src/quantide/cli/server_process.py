"""Server as a child process: started, supervised, restarted, and stopped."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from quantide.summary.value_json import write_line

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a failed server is restarted
NICENESS = 10  # of this process, so that the server answers queries first when processors are busy
STOP_TIMEOUT = 20.0  # seconds for the server to end after SIGTERM


def print_line(line: str) -> None:
    with suppress(BrokenPipeError):  # ingestion notices the closed pipe too
        sys.stdout.write(line)
        sys.stdout.flush()


class ServerProcess:
    """`quantide serve` as a child process with the same output.

    It has its own session: Ctrl-C reaches only this process, which then stops the child. The child knows this
    process's id and ends when this process is killed. `print_output` receives the lines that it writes.
    """

    def __init__(self, arguments: Sequence[str], print_output: Callable[[str], None] = print_line) -> None:
        self._command = [sys.executable, "-m", "quantide", "serve", *arguments, "--parent", str(os.getpid())]
        self._json, self._print_output = "--json" in arguments, print_output
        self._child: subprocess.Popen[str] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._supervisor = threading.Thread(target=self._supervise, name="quantide-server", daemon=True)

    def start(self) -> int | None:
        """Start the server and wait for its first line, its address; return its exit code if it fails."""
        child = self._start_child()
        line = child.stdout.readline() if child.stdout else ""
        if not line:
            return child.wait() or 2
        self._print_output(line)
        self._supervisor.start()
        os.nice(NICENESS)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server: SIGTERM first, SIGKILL after a timeout."""
        with self._lock:
            self._stopping.set()
            child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if self._supervisor.is_alive():
            self._supervisor.join()
        if child.stdout is not None:
            child.stdout.close()

    def _start_child(self) -> subprocess.Popen[str]:
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        return self._child

    def _supervise(self) -> None:
        pause, started = FIRST_PAUSE, time.monotonic()
        while (child := self._child) is not None:
            for line in child.stdout or ():
                self._print_output(line)
            code = child.wait()
            if self._stopping.is_set():
                return
            if time.monotonic() - started > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._warn(code, pause)
            if self._stopping.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            started = time.monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                if child.stdout is not None:
                    child.stdout.close()
                self._start_child()

    def _warn(self, code: int, pause: float) -> None:
        cause = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        message = f"the server {cause}; it restarts in {pause:.0f} s, and ingestion continues"
        if self._json:
            write_line(sys.stderr, {"warning": {"code": "server_ended", "message": message}})
        else:
            print(f"quantide: {message}", file=sys.stderr, flush=True)
