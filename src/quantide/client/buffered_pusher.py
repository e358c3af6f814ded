"""Buffered pusher: collects rows, and sends them in batches from a thread of its own."""

import atexit
import concurrent.futures.thread  # noqa: F401 (Arrow imports it when it is used, which fails when the process ends)
import logging
import os
import random
import time
from collections import deque
from contextlib import ContextDecorator
from threading import Condition, Event, Thread
from typing import Any, Protocol, Self
from uuid import uuid4
from weakref import WeakSet

import pyarrow as pa

from quantide.client.row_encoding import ARROW, encode_table
from quantide.errors import (
    BacklogError,
    ForbiddenError,
    InvalidArgumentError,
    LimitError,
    NotReadyError,
    QuantideError,
    ServerError,
    StorageError,
    TokenError,
)

LOG = logging.getLogger("quantide.client")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0  # seconds before a batch is sent again
EXIT_TIMEOUT = 5.0  # seconds to send what is buffered when the process ends
WHEN_FULL = ("drop", "block")
Row = tuple[Any, float, dict[str, Any]]  # value, seconds since 1970, other columns


class RowSender(Protocol):
    """Client that sends encoded rows."""

    def push_encoded(self, stream: str, content_type: str, content: bytes, idempotency_key: str) -> object: ...

    def reconnect(self) -> None: ...


class BufferedPusher:
    """Buffer of rows for one stream: `add` returns at once, and a thread sends a batch when it is full or due.

    Parameters: `batch`, the rows of a request; `seconds` after which an incomplete batch is sent; `max_rows`, the
    size of the buffer; `when_full`, "drop" (new rows are dropped and counted) or "block" (add() waits); `value` and
    `time`, the names of the columns.

    A batch has one idempotency key and is sent again, after a pause that doubles, until the server has it: so each row
    arrives once. Rows that the server refuses are dropped, counted and logged; the others of their batch are sent.

    Threads may share a pusher. After a fork the child begins with an empty buffer, and the parent sends its rows. What
    is buffered is sent when the process ends, in up to 5 seconds; kill -9 loses it.
    """

    def __init__(
        self,
        client: RowSender,
        stream: str,
        batch: int = 1_000,
        seconds: float = 0.5,
        max_rows: int = 100_000,
        when_full: str = "drop",
        value: str = "value",
        time: str = "time",
    ) -> None:
        if when_full not in WHEN_FULL:
            raise InvalidArgumentError(f"when_full is {when_full!r}; write one of {', '.join(WHEN_FULL)}")
        if not 1 <= batch <= max_rows or not 0 < seconds < float("inf"):
            raise InvalidArgumentError("batch is at least 1 and at most max_rows, and seconds is a number above 0")
        self._client, self.stream = client, stream
        self._batch, self._seconds, self._max_rows, self._blocks = batch, seconds, max_rows, when_full == "block"
        self._value, self._time = value, time
        self.sent = self.dropped = self.refused = 0
        self.last_error: QuantideError | None = None
        self._begin()
        _PUSHERS.add(self)

    def _begin(self) -> None:
        self._rows: deque[Row] = deque()
        self._wakeup, self._closing, self._abandoned = Event(), Event(), Event()
        self._done = Condition()
        self._sending = 0  # rows that were taken from the buffer and not sent yet
        self._flushing = False
        self._thread: Thread | None = None

    def add(self, value: Any, at: float | None = None, /, **columns: Any) -> bool:
        """Add a row; `at` is its time in seconds since 1970 (now). Return False if the buffer is full and it is
        dropped."""
        rows = self._rows
        if (self._thread is None and not self._start()) or (len(rows) >= self._max_rows and not self._make_room()):
            self.dropped += 1
            return False
        rows.append((value, time.time() if at is None else at, columns))
        if len(rows) >= self._batch and not self._wakeup.is_set():
            self._wakeup.set()
        return True

    def timed(self, **columns: Any) -> "TimedBlock":
        """Return a context manager, or a decorator, that adds how many milliseconds its block takes."""
        return TimedBlock(self, columns)

    def __len__(self) -> int:
        """Rows that are not sent yet."""
        return len(self._rows) + self._sending

    def flush(self, timeout: float | None = None) -> bool:
        """Send all rows; return False if that takes longer than `timeout` seconds."""
        if self._thread is None:
            return True
        with self._done:
            self._flushing = True
            self._wakeup.set()
            return self._done.wait_for(lambda: not len(self), timeout)

    def close(self, timeout: float | None = EXIT_TIMEOUT) -> bool:
        """Send all rows, then end; after the timeout, rows that are left are dropped and counted. Return True if none
        were."""
        self._closing.set()
        all_sent = self.flush(timeout)
        self._abandoned.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(EXIT_TIMEOUT)
            self._thread = None
        lost = len(self)
        if lost:
            self.dropped += lost
            self._rows.clear()
            LOG.warning("%d rows for the stream %s were not sent: %s", lost, self.stream, self.last_error)
        _PUSHERS.discard(self)
        return all_sent and not lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Sending

    def _make_room(self) -> bool:
        """Wait until there is room, if the pusher blocks; return True if there is."""
        self._wakeup.set()
        if not self._blocks or self._closing.is_set():
            return False
        with self._done:
            return self._done.wait_for(lambda: len(self._rows) < self._max_rows or self._closing.is_set())

    def _start(self) -> bool:
        """Start the thread; return False if the pusher is closed."""
        with self._done:
            if self._thread is None and not self._closing.is_set():
                self._thread = Thread(target=self._run, name="quantide-pusher", daemon=True)
                self._thread.start()
        return self._thread is not None

    def _run(self) -> None:
        while not self._abandoned.is_set():
            if len(self._rows) < self._batch and not self._flushing:
                self._wakeup.wait(self._seconds)
            self._wakeup.clear()
            while self._rows and not self._abandoned.is_set():
                batch = self._take()
                self._send(batch, str(uuid4()))
                with self._done:
                    self._sending = 0 if not self._abandoned.is_set() else self._sending
                    self._done.notify_all()
                if len(self._rows) < self._batch and not self._flushing:
                    break
            if not self._rows:
                with self._done:
                    self._flushing = False
                    self._done.notify_all()
                if self._closing.is_set():
                    return

    def _take(self) -> list[Row]:
        with self._done:
            count = min(self._batch, len(self._rows))
            batch = [self._rows.popleft() for _ in range(count)]
            self._sending = count
            self._done.notify_all()  # there is room
        return batch

    def _send(self, batch: list[Row], key: str) -> None:
        """Send rows until they have arrived; if they are refused, find those that are."""
        try:
            content = encode_table(self._encode(batch))
            self._send_until_accepted(content, key)
        except (TokenError, ForbiddenError) as error:
            self._refuse(batch, error)
        except Exception as error:  # refused by the server, or by Arrow
            if len(batch) == 1:
                self._refuse(batch, error)
                return
            middle = len(batch) // 2
            self._send(batch[:middle], f"{key}-0")
            self._send(batch[middle:], f"{key}-1")
        else:
            self.sent += 0 if self._abandoned.is_set() else len(batch)

    def _send_until_accepted(self, content: bytes, key: str) -> None:
        pause = FIRST_PAUSE
        while not self._abandoned.is_set():
            try:
                self._client.push_encoded(self.stream, ARROW, content, key)
                return
            except (ServerError, LimitError, NotReadyError, StorageError) as error:
                if not is_temporary(error):
                    raise
                self.last_error = error
                wait = max(pause, error.retry_after) if isinstance(error, BacklogError) else pause
                self._abandoned.wait(wait * random.uniform(0.5, 1.0))
                pause = min(2 * pause, LONGEST_PAUSE)

    def _encode(self, batch: list[Row]) -> pa.Table:
        columns: dict[str, Any] = {self._value: pa.array([row[0] for row in batch])}
        microseconds = [round(row[1] * 10**6) for row in batch]
        columns[self._time] = pa.array(microseconds, pa.timestamp("us", "UTC"))
        for name in dict.fromkeys(name for row in batch for name in row[2]):
            columns[name] = pa.array([row[2].get(name) for row in batch])
        return pa.table(columns)

    def _refuse(self, batch: list[Row], error: Exception) -> None:
        self.refused += len(batch)
        self.last_error = error if isinstance(error, QuantideError) else InvalidArgumentError(str(error))
        LOG.warning("%d rows for the stream %s were refused: %s", len(batch), self.stream, error)

    def _after_fork(self) -> None:
        """Begin anew in a child process: the parent sends the rows, and has the thread and the connections."""
        self._begin()
        self._client.reconnect()


class TimedBlock(ContextDecorator):
    """Measures a block, or each call of a function, and adds its milliseconds to a pusher."""

    __slots__ = ("_began", "_columns", "_pusher")

    def __init__(self, pusher: BufferedPusher, columns: dict[str, Any]) -> None:
        self._pusher, self._columns, self._began = pusher, columns, 0

    def _recreate_cm(self) -> "TimedBlock":
        """Return a block for one call of a decorated function: calls may overlap."""
        return TimedBlock(self._pusher, self._columns)

    def __enter__(self) -> Self:
        self._began = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self._pusher.add((time.perf_counter_ns() - self._began) / 1e6, **self._columns)


class PushHandler(logging.Handler):
    """Handler for `logging` that pushes an attribute of each record that has it, with the logger and the level."""

    def __init__(self, pusher: BufferedPusher, attribute: str = "value", level: int = 0) -> None:
        super().__init__(level)
        self._pusher, self._attribute = pusher, attribute

    def emit(self, record: logging.LogRecord) -> None:
        value = getattr(record, self._attribute, None)
        if value is not None:
            self._pusher.add(value, record.created, logger=record.name, level=record.levelname)

    def flush(self) -> None:
        self._pusher.flush(EXIT_TIMEOUT)


def is_temporary(error: QuantideError) -> bool:
    """Return True if the same request may succeed later."""
    status = error.status if isinstance(error, ServerError) else None
    return status is None or status in (408, 429) or status >= 500


_PUSHERS: "WeakSet[BufferedPusher]" = WeakSet()


def _flush_at_exit() -> None:
    for pusher in list(_PUSHERS):
        pusher.close()


def _reset_after_fork() -> None:
    for pusher in list(_PUSHERS):
        pusher._after_fork()


atexit.register(_flush_at_exit)
os.register_at_fork(after_in_child=_reset_after_fork)
