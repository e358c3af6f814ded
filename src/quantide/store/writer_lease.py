"""Lease and epoch: one writer at a time, and no stale one.

A file lock, which the system releases when its process ends, refuses a second writer at once. The epoch, a transaction
of the table that only grows, fences off a writer that lost its lock: a commit is refused if another one preceded it,
and the writer then finds an epoch that is not its own.
"""

import fcntl
import os
import socket
import weakref
from contextlib import suppress

from quantide.errors import StorageError, WriterConflictError
from quantide.store.file_names import DATA, LOCK, RECENT, data_epoch, recent_epoch
from quantide.store.storage import Storage

MAX_LOST = 1000  # epochs that can have been lost with the end of the log


class FolderLease:
    """Lock on a store, from the first write of a handle until it is released or garbage-collected."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, LOCK)
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
                f"{folder} is being written by {holder}; a store has one writer at a time: close the other one first. "
                "Reading needs no lease"
            ) from error
        with suppress(OSError):  # a full disk: the lock is valid whatever the file contains
            if os.fstat(file).st_nlink > 1:  # a hard link: its content belongs to another file, too
                return
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    is_lost = False  # the system keeps a lock until it is released

    def release(self) -> None:
        self._release()


def read_lease_holder(folder: str) -> str | None:
    """Return the holder of the lease from the system's list of locks, without trying to lock; None if it is free.

    The list has no writers in other containers or on other machines.
    """
    path = os.path.join(folder, LOCK)
    try:
        inode = str(os.stat(path).st_ino)
        with open("/proc/locks", encoding="ascii") as locks:
            is_locked = any(line.split()[1] == "FLOCK" and line.split()[5].split(":")[2] == inode for line in locks)
        if not is_locked:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(200) or "another process"
    except OSError:
        return None


def unused_epoch(storage: Storage, before: int) -> int:
    """Return the next epoch that no file of a store has: epochs may have been lost with the end of its log."""
    readers = {DATA: data_epoch, RECENT: recent_epoch}
    epochs = [read(file.name) for folder, read in readers.items() for file in storage.list_files(folder)]
    near = [epoch for epoch in epochs if epoch is not None and before < epoch <= before + MAX_LOST]
    return max(near, default=before) + 1
