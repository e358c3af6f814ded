"""Served streams: one live reader for each configured stream, opened as soon as its store exists."""

import logging
import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread

from quantide.config import Config
from quantide.config.stream_metrics import StreamMetrics
from quantide.errors import (
    AccessRefusedError,
    NoStoreError,
    NotReadyError,
    QuantideError,
    StorageError,
    UnknownStreamError,
)
from quantide.live.live_stream import LiveStream

LOG = logging.getLogger("quantide.server")
MIN_INTERVAL = 0.02  # seconds between two rounds of callbacks: other threads get the interpreter
REOPEN = 1.0  # seconds between two attempts to open a stream

OnCommit = Callable[[str, LiveStream], None]


class ServedStreams:
    """Readers by stream name. One thread opens them, and calls subscribers after commits.

    Readers notify this class of commits. A subscriber is called with the name and the reader after one commit or
    several, once when a stream is opened, and when the reader begins or ceases to fail; never two at a time.
    Exceptions of subscribers are counted in `failures` and logged.
    """

    def __init__(self, config: Config) -> None:
        self._streams = dict(config.streams)
        self._memory = config.server.memory // len(self._streams)
        self._readers: dict[str, LiveStream] = {}
        self._open_errors: dict[str, str] = {}
        self._subscribers: list[OnCommit] = []
        self.failures = 0
        self._pending: set[str] = set()  # streams to call subscribers about
        self._wakeup, self._closing = Event(), Event()
        self._thread: Thread | None = None
        self._open_all()

    @property
    def names(self) -> list[str]:
        return list(self._streams)

    def metrics(self, name: str) -> StreamMetrics:
        """Return the quantiles and windows of a stream for Prometheus."""
        return self._streams[name].metrics

    def live(self, name: str) -> LiveStream:
        """Return the reader of a stream; raise if it is unknown or not open yet."""
        reader = self._readers.get(name)
        if reader is not None:
            return reader
        self.check_name(name)
        reason = self._open_errors.get(name, "it is being opened")
        raise NotReadyError(f"the stream {name} cannot be read yet: {reason}")

    def unit(self, name: str) -> str | None:
        """Return the unit of a stream's values, if it is configured."""
        return self._streams[name].unit

    def check_name(self, name: str) -> None:
        """Raise if no stream of this name is configured."""
        if name not in self._streams:
            raise UnknownStreamError(f"there is no stream {name[:100]!r}; there are {', '.join(self._streams)}")

    @property
    def versions(self) -> dict[str, int]:
        """Versions of the open streams: the commits that answers are computed from."""
        return {name: live.version for name, live in list(self._readers.items())}

    @property
    def open_errors(self) -> dict[str, str]:
        """Reasons why streams cannot be opened yet, by name."""
        return dict(self._open_errors)

    def failure_reason(self, name: str) -> str | None:
        """Return the reason why a stream cannot be queried now; None if it can be."""
        if name in self._open_errors:
            return self._open_errors.get(name)
        error = self.live(name).last_error
        return None if error is None else _public_reason(error, self._streams[name].folder)

    def subscribe(self, on_commit: OnCommit) -> None:
        """Call a function after every commit."""
        self._subscribers.append(on_commit)

    def start(self) -> None:
        """Start to call subscribers."""
        self._thread = Thread(target=self._run, name="quantide-streams", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join()
        for live in self._readers.values():
            live.close()

    def _open_all(self) -> None:
        for name, stream in self._streams.items():
            if name not in self._readers:
                try:
                    live = LiveStream(stream.folder, self._memory, storage_options=stream.storage_options or None)
                except Exception as error:  # any error: other streams are served
                    reason = _public_reason(error, stream.folder)
                    if self._open_errors.get(name) != reason:
                        _log_open_error(name, error, stream.folder)
                    self._open_errors[name] = reason
                else:
                    self._readers[name] = live
                    self._open_errors.pop(name, None)
                    live.subscribe(partial(self._notify, name))
                    self._notify(name)

    def _notify(self, name: str) -> None:
        self._pending.add(name)
        self._wakeup.set()

    def _run(self) -> None:
        reopen = time.monotonic() + REOPEN
        while not self._closing.wait(MIN_INTERVAL):
            self._wakeup.wait(REOPEN if self._open_errors else None)
            self._wakeup.clear()
            if self._open_errors and time.monotonic() >= reopen:
                self._open_all()
                reopen = time.monotonic() + REOPEN
            pending = {self._pending.pop() for _ in range(len(self._pending))}
            for name, live in self._readers.items():
                if name in pending and not self._closing.is_set():
                    self._call_subscribers(name, live)

    def _call_subscribers(self, name: str, live: LiveStream) -> None:
        for on_commit in self._subscribers:
            try:
                on_commit(name, live)
            except Exception:
                self.failures += 1
                LOG.exception("a subscriber to the stream %s failed", name)


def _log_open_error(name: str, error: Exception, folder: str) -> None:
    """Log why a stream cannot be opened: unexpected errors with their traceback; others are part of its state."""
    if not isinstance(error, QuantideError):
        LOG.error("the stream %s cannot be opened: %s", name, error, exc_info=error)
    elif _is_unreachable(error, folder):
        LOG.warning("the stream %s cannot be opened yet: %s", name, error)


def _is_unreachable(error: Exception, folder: str) -> bool:
    """Return True if an object store cannot be reached, or refuses access."""
    return "://" in folder and isinstance(error, StorageError) and not isinstance(error, NoStoreError)


def _public_reason(error: Exception, folder: str) -> str:
    """Return the reason of a failure without the location of the store: every client may request /readyz."""
    if _is_unreachable(error, folder):
        is_refused = isinstance(error, AccessRefusedError)
        return "its object store refused the credentials" if is_refused else "its object store cannot be reached"
    if isinstance(error, NoStoreError):
        return "nothing was ingested yet"
    lines = str(error).replace(folder, "its folder").splitlines()
    return lines[0][:300] if lines else type(error).__name__
