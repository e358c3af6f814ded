"""Group commit: requests that arrive within a few milliseconds share one landing file, and one wait for the disk."""

import asyncio
import errno
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread

import pyarrow as pa

from quantide.errors import DiskFullError, NotReadyError, QuantideError, StorageError
from quantide.store.landing_file import PushedRequest, prepare_landing, write_landing_file
from quantide.store.storage import Storage

LOG = logging.getLogger("quantide.server")
LINGER = 0.004  # seconds that the first request waits for others
MAX_GROUP = 64 << 20  # bytes of rows in one landing file
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class PendingRows:
    """Checked rows of one request that wait to be written; `done` receives the name of their landing file."""

    table: pa.Table
    digest: bytes | None
    done: asyncio.Future[str]

    def resolve(self, name: str | None, error: BaseException | None) -> None:
        """Set the result, from any thread."""

        def finish() -> None:
            if not self.done.done():
                self.done.set_exception(error) if error is not None else self.done.set_result(name or "")

        with suppress(RuntimeError):  # the event loop has ended
            self.done.get_loop().call_soon_threadsafe(finish)


class GroupCommit:
    """Writes the rows of one stream, in one thread; a request is acknowledged when its file is durable."""

    def __init__(self, storage: Storage, on_write: Callable[[int], None], shares_files: bool) -> None:
        self._storage, self._on_write, self._shares_files = storage, on_write, shares_files
        self._pending: deque[PendingRows] = deque()
        self._condition = Condition()
        self._thread: Thread | None = None
        self._closing = self._is_prepared = False

    async def write(self, table: pa.Table, digest: bytes | None) -> str:
        """Return the name of the landing file when the rows are in it."""
        rows = PendingRows(table, digest, asyncio.get_running_loop().create_future())
        with self._condition:
            if self._closing:
                raise NotReadyError("the server shuts down; repeat the request")
            if self._thread is None:
                self._thread = Thread(target=self._run, name="quantide-push", daemon=True)
                self._thread.start()
            self._pending.append(rows)
            self._condition.notify()
        return await rows.done

    def close(self) -> None:
        """Write what is pending, then end."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._pending and not self._closing:
                    self._condition.wait()
                if not self._pending:
                    return
            if not self._closing:
                time.sleep(LINGER)
            for group in _group_rows(self._take(), self._shares_files):
                self._write_group(group)

    def _take(self) -> list[PendingRows]:
        """Return pending requests, up to the largest size of a file."""
        taken, size = list[PendingRows](), 0
        with self._condition:
            while self._pending and (not taken or size + self._pending[0].table.nbytes <= MAX_GROUP):
                rows = self._pending.popleft()
                taken.append(rows)
                size += rows.table.nbytes
        return taken

    def _write_group(self, group: Sequence[PendingRows]) -> None:
        try:
            name = self._write_file(group)
        except BaseException as error:
            failure = error if isinstance(error, QuantideError) else StorageError(f"rows cannot be written: {error}")
            if not isinstance(error, QuantideError):
                LOG.error("rows that were pushed cannot be written", exc_info=error)
            for rows in group:
                rows.resolve(None, failure)
        else:
            for rows in group:
                rows.resolve(name, None)

    def _write_file(self, group: Sequence[PendingRows]) -> str:
        table = pa.concat_tables([rows.table for rows in group])
        try:
            if not self._is_prepared:
                prepare_landing(self._storage)
                self._is_prepared = True
            name = write_landing_file(
                self._storage, table, [PushedRequest(rows.digest, len(rows.table)) for rows in group]
            )
        except OSError as error:
            self._is_prepared = False  # the folder may have been removed
            cause = error if error.errno in FULL else error.__cause__
            if isinstance(cause, OSError) and cause.errno in FULL:
                raise DiskFullError(
                    f"the disk of the store is full: {cause.strerror}. Nothing was added; free some space, then repeat"
                ) from error
            raise
        self._on_write(table.nbytes)
        return name


def _group_rows(pending: Sequence[PendingRows], shares_files: bool) -> Iterator[list[PendingRows]]:
    """Yield the requests of each landing file: of one schema, and with a key alone unless it may share a file."""
    groups: dict[object, list[PendingRows]] = {}
    for number, rows in enumerate(pending):
        alone = rows.digest is not None and not shares_files
        groups.setdefault(number if alone else rows.table.schema, []).append(rows)
    yield from groups.values()
