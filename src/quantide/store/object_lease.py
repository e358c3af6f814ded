"""Lease of a store in an object store: an object that its holder renews, and that others watch.

The lease keeps writers apart; `delta_log.py` fences off a stale one.

No clock is compared with another. A writer that wants the lease watches the object for LEASE_SECONDS by its own running
time. If it changes, the holder lives, and the writer is refused. If it does not, the holder is
dead or cut off, and the writer replaces the object, on the condition that it is still unchanged. A holder on the same
machine whose process has ended is dead for certain, and is replaced at once.

The lease keeps two writers from disturbing each other; it does not protect the data. That is done by the epoch, which
the new writer commits before anything else: an entry of the log is put on the condition that it does not exist, so a
commit of the old writer, however late it wakes up, is refused. Proof: docs/guarantees/lease.md.
"""

import json
import os
import socket
import time
import weakref
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from quantide.errors import StorageError, WriterConflictError
from quantide.store.file_clock import running_time

if TYPE_CHECKING:
    from quantide.store.object_storage import ObjectStorage

LEASE = "_quantide/writer.lease"
LEASE_SECONDS = 15.0  # without a renewal, after which the lease may be taken
RENEW_SECONDS = 4.0
WATCH_SECONDS = 0.5  # between two looks at a lease
FREE = ""
FREE_ATTEMPTS = 3
_abandoned: set[str] = set()  # leases of this process that it could neither take for certain nor free


class ObjectLease:
    """Lease that a thread renews until it is released, lost, or garbage-collected."""

    def __init__(self, storage: "ObjectStorage") -> None:
        self._state = state = _LeaseState(storage)
        state.take(_watch(storage))
        thread = Thread(target=state.keep_renewing, name="quantide-lease", daemon=True)
        self._finalizer = weakref.finalize(self, state.stop)
        self._finalizer.atexit = False
        thread.start()

    @property
    def is_lost(self) -> bool:
        """True if another writer has taken the lease, or it could not be renewed in time."""
        return self._state.is_lost

    def release(self) -> None:
        """Free the lease, unless another writer has it."""
        if self._finalizer.detach() is not None:
            self._state.stop()
            self._state.free()


class _LeaseState:
    """State of a lease that the renewing thread shares; it must not refer to the ObjectLease, which may be dropped."""

    def __init__(self, storage: "ObjectStorage") -> None:
        self._storage, self._id, self._renewals = storage, uuid4().hex, 0
        self._version: dict[str, str] | None = None
        self._renewed = 0.0
        self._stop = Event()
        self.is_taken = False

    @property
    def is_lost(self) -> bool:
        return self.is_taken or running_time() - self._renewed > LEASE_SECONDS

    def take(self, version: dict[str, str] | None) -> None:
        """Put the lease if it is still of this version; None if there is none."""
        try:
            self._put(_holder(), version)
        except FileExistsError as error:
            raise _conflict(self._storage, _read(self._storage)[0]) from error
        except StorageError:
            _abandoned.add(self._id)
            raise

    def keep_renewing(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            version = self._version  # before the test of `_stop`: what free() puts after it is not renewed
            if self._stop.is_set():
                return
            try:
                self.is_taken = not self._renew(version)
            except StorageError:  # it is tried again, until others may take it
                continue
            if self.is_taken:
                return

    def _renew(self, version: dict[str, str] | None) -> bool:
        """Renew the lease; return False if another writer has it."""
        try:
            self._put(_holder(), version)
        except FileExistsError:
            return self._find_own()
        return True

    def stop(self) -> None:
        self._stop.set()

    def free(self) -> None:
        """Free the lease; if that fails, it expires."""
        with suppress(StorageError):
            for _ in range(FREE_ATTEMPTS):  # a renewal may be under way
                try:
                    self._put({"holder": FREE}, self._version)
                    return
                except FileExistsError:
                    if not self._find_own():
                        return
        _abandoned.add(self._id)

    def _find_own(self) -> bool:
        """Find the version of the last renewal, of which no answer arrived; return False if another writer has it."""
        content, version = _read(self._storage)
        if content.get("lease") != self._id:
            return False
        self._version = version
        return True

    def _put(self, holder: dict[str, Any], version: dict[str, str] | None) -> None:
        began = running_time()
        self._renewals += 1
        content = {**holder, "lease": self._id, "renewals": self._renewals}
        self._version = self._storage.update(LEASE, json.dumps(content).encode(), version)
        self._renewed = began


def describe_holder(storage: "ObjectStorage") -> str | None:
    """Return the name of the holder of a lease; None if it is free, or its process has ended."""
    content, _ = _read(storage)
    return None if _is_free(content) else str(content["holder"])


def _watch(storage: "ObjectStorage") -> dict[str, str] | None:
    """Return the version of a lease that may be taken, None if there is none; raise if its holder renews it."""
    content, version = _read(storage)
    began = running_time()
    while not _is_free(content) and running_time() - began < LEASE_SECONDS:
        time.sleep(WATCH_SECONDS)
        content, now = _read(storage)
        if now != version:
            if _is_free(content):
                return now
            raise _conflict(storage, content)
    return version


def _read(storage: "ObjectStorage") -> tuple[dict[str, Any], dict[str, str] | None]:
    try:
        data, version = storage.read_version(LEASE)
    except FileNotFoundError:
        return {}, None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {"holder": "an unknown writer"}, version


def _is_free(content: dict[str, Any]) -> bool:
    """Return True if a lease is free: released, abandoned by this process, or of an ended process of this machine."""
    if not content.get("holder") or str(content.get("lease")) in _abandoned:
        return True
    machine, process = content.get("machine"), content.get("process")
    if machine != _machine() or not isinstance(process, list) or len(process) != 2:
        return False
    return isinstance(process[0], int) and _started(process[0]) != process[1]


def _holder() -> dict[str, Any]:
    process = os.getpid()
    name = f"process {process} on {socket.gethostname()}"
    return {"holder": name, "machine": _machine(), "process": [process, _started(process)]}


def _machine() -> str | None:
    """Return the identity of this boot of this machine and of the namespace of its process numbers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _started(process: int) -> str | None:
    """Return the start time of a process of this machine; None if there is none. A number is used again later."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _conflict(storage: "ObjectStorage", content: dict[str, Any] | None = None) -> WriterConflictError:
    holder = (content or {}).get("holder") or "another process"
    return WriterConflictError(
        f"{storage.path} is being written by {holder}; a store has one writer at a time: close the other one first. "
        "Reading needs no lease"
    )
