"""The writer's lease: one writer at a time, and none that came back from the dead.

A lock on a file, which the system drops with the process that holds it, refuses a second writer at once. The epoch,
a transaction of the table that only grows, fences off a writer whose lock was lost: every commit of a writer is refused
when any other commit came in between, and it then finds an epoch that is not its own.
"""

import fcntl
import os
import socket
import weakref
from contextlib import suppress

from quantide.errors import StorageError, WriterConflictError
from quantide.store.confine import check_confined
from quantide.store.names import LOCK


class Lease:
    """Held from the first write of a handle until it is released or forgotten."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, LOCK)
        check_confined(folder)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise StorageError(f"{folder} cannot be written to: {error}") from error
        self._release = weakref.finalize(self, os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 200).decode(errors="replace") or "another process"
            self._release()
            raise WriterConflictError(
                f"{folder} is being written by {holder}; a store has one writer at a time: close that one first. "
                "Reading needs no lease"
            ) from error
        with suppress(OSError):  # a full disk: the lock holds, whatever the file says
            if os.fstat(file).st_nlink > 1:  # it is some other file, too, which is not ours to write to
                return
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        self._release()


def writer_of(folder: str) -> str | None:
    """Who holds the lease, as the system lists its locks: nobody is disturbed, and no lock is tried.

    A writer in another container, or on another machine, is not in that list.
    """
    path = os.path.join(folder, LOCK)
    try:
        inode = str(os.stat(path).st_ino)
        with open("/proc/locks", encoding="ascii") as locks:
            held = any(line.split()[1] == "FLOCK" and line.split()[5].split(":")[2] == inode for line in locks)
        if not held:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(200) or "another process"
    except OSError:
        return None
