"""The writer's lease: one writer at a time, and none that came back from the dead.

A lock on a file, which the system drops with the process that holds it, refuses a second writer at once. The epoch,
a transaction of the table that only grows, fences off a writer whose lock was lost: every commit of a writer is refused
when any other commit came in between, and it then finds an epoch that is not its own.
"""

import fcntl
import os
import socket
from typing import IO

from quantide.errors import WriterConflictError


class Lease:
    """Held from the first write of a handle until it is closed or forgotten."""

    def __init__(self, folder: str) -> None:
        place = os.path.join(folder, "_quantide")
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, "writer.lock")
        self._file: IO[str] = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (it stays open as long as the lease)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise WriterConflictError(
                f"{folder} is being written by {holder}; a store has one writer at a time: close that one first. "
                "Reading needs no lease"
            ) from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        self._file.close()
