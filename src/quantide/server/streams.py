"""The streams that are served: one live reader each, opened as soon as there is something to read."""

import logging
import time
from collections.abc import Callable
from threading import Event, RLock, Thread

from quantide.config import Config
from quantide.errors import NotReadyError, UnknownStreamError
from quantide.live.stream import LiveStream

LOG = logging.getLogger("quantide.server")
LOOK = 0.02  # seconds between two looks for a new version
AGAIN = 1.0  # seconds before a stream that cannot be opened is tried again

Follower = Callable[[str, LiveStream], None]


class Streams:
    """Readers by the name of their stream. One thread opens them, and tells followers when one has moved on.

    A follower is called with the name and the reader after one commit or several, once when a stream is opened, and
    when it cannot be followed any more, or can be again; never two at a time. What it raises is counted in `failures`
    and harms nobody.
    """

    def __init__(self, config: Config) -> None:
        self._folders = {name: stream.folder for name, stream in config.streams.items()}
        self._memory = config.server.memory // len(self._folders)
        self._open: dict[str, LiveStream] = {}
        self._waiting: dict[str, str] = {}
        self._followers: list[Follower] = []
        self.failures = 0
        self._lock, self._end = RLock(), Event()
        self._thread: Thread | None = None
        self._open_all()

    @property
    def names(self) -> list[str]:
        return list(self._folders)

    def live(self, name: str) -> LiveStream:
        """The reader of a stream."""
        found = self._open.get(name)
        if found is not None:
            return found
        self.check(name)
        raise NotReadyError(f"the stream {name} cannot be read yet: {self._waiting.get(name, 'it is being opened')}")

    def check(self, name: str) -> None:
        """Refuse a stream that there will never be."""
        if name not in self._folders:
            raise UnknownStreamError(f"there is no stream {name[:100]!r}; there are {', '.join(self._folders)}")

    @property
    def versions(self) -> dict[str, int]:
        """The commit as of which each stream that can be read is answered."""
        return {name: live.version for name, live in list(self._open.items())}

    @property
    def waiting(self) -> dict[str, str]:
        """Streams that cannot be read yet, and why."""
        return dict(self._waiting)

    def wrong(self, name: str) -> str | None:
        """Why a stream cannot be asked just now."""
        if name in self._waiting:
            return self._waiting.get(name)
        trouble = self.live(name).trouble
        return None if trouble is None else _brief(trouble, self._folders[name])

    def follow(self, follower: Follower) -> None:
        """Let a function be called whenever a stream has moved on."""
        self._followers.append(follower)

    def start(self) -> None:
        """Begin to tell followers."""
        self._thread = Thread(target=self._run, name="quantide-streams", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        for live in self._open.values():
            live.close()

    def _open_all(self) -> None:
        for name, folder in self._folders.items():
            if name not in self._open:
                try:
                    self._open[name] = LiveStream(folder, self._memory)
                    self._waiting.pop(name, None)
                except Exception as error:  # whatever it is, other streams are served
                    self._waiting[name] = _brief(error, folder)

    def _run(self) -> None:
        seen: dict[str, tuple[int, str]] = {}
        again = time.monotonic() + AGAIN
        while not self._end.wait(LOOK):
            if self._waiting and time.monotonic() >= again:
                self._open_all()
                again = time.monotonic() + AGAIN
            for name, live in list(self._open.items()):
                state = live.version, str(live.trouble or "")
                if seen.get(name) != state:
                    seen[name] = state
                    self._tell(name, live)

    def _tell(self, name: str, live: LiveStream) -> None:
        for follower in self._followers:
            try:
                follower(name, live)
            except Exception:
                self.failures += 1
                LOG.exception("a follower of the stream %s failed", name)


def _brief(error: Exception, folder: str) -> str:
    """Why a store cannot be opened or followed, without where it lies: anyone may ask whether a server is ready."""
    said = str(error).replace(folder, "its folder").splitlines()
    return said[0][:300] if said else type(error).__name__
