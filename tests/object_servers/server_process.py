"""Child process of a server that listens at a free port of loopback. It ends with this process, however that ends."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

LIMIT = 120.0  # seconds until a server must listen: many times what the slowest one takes
# PR_SET_PDEATHSIG: the kernel kills the server when the thread that started it ends.
LAUNCH = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"


@contextmanager
def listening(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[int]:
    """Run a server that was told to listen at port 0, in a folder; yield the port that it got."""
    process, port = launch(command, folder, env)
    try:
        yield port
    finally:
        kill(process)


def launch(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server in a folder; return it and its port once it listens."""
    log = folder / "server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCH, *command],
            cwd=folder,
            env=os.environ | dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the tests first
        )
    try:
        return process, _wait_for_port(process, log)
    except BaseException:
        kill(process)
        raise


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a server with SIGKILL."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def reserve_port() -> int:
    """Return a free port that no client gets for its own end: a server that is started again finds it free."""
    while True:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port


def _wait_for_port(process: subprocess.Popen[bytes], log: Path) -> int:
    last = time.monotonic() + LIMIT
    while (port := _listening_port(process.pid)) is None:
        if process.poll() is not None or time.monotonic() > last:
            raise RuntimeError(f"{process.args!r} does not listen: {log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.02)
    return port


def _listening_port(pid: int) -> int | None:
    """Return the first TCP port at which a process accepts connections."""
    sockets = set()
    with suppress(OSError):  # the process ended
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                sockets.add(os.readlink(handle))
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:  # LISTEN
            return int(fields[1].partition(":")[2], 16)
    return None
