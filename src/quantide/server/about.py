"""What a standing query is about: a window of a stream, or of a key of it. Queries about the same share a monitor."""

import json
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple

import orjson

from quantide.errors import InvalidArgumentError
from quantide.live.asked import Asked
from quantide.live.stream import LiveStream
from quantide.queries.monitor import Monitor
from quantide.server import words


class Name(NamedTuple):
    """A window by the words it was asked for, its key as JSON: 1 and "1" and true are different keys."""

    stream: str
    key: str
    window: str
    filter: str | None

    @classmethod
    def of(cls, stream: str, key: Any, window: str, filter: str | None) -> "Name":
        return cls(stream, orjson.dumps(key).decode(), window, filter)

    def read_key(self) -> Any:
        return json.loads(self.key)

    def asked(self) -> Asked:
        """As the words of LiveStream.answer()."""
        key = self.read_key()
        return words.asked(tuple(key) if isinstance(key, list) else key, self.window, self.filter)

    def check(self, live: LiveStream) -> Asked:
        """These words, if the stream can be asked about them; it need not have such a key yet."""
        asked, settings = self.asked(), live.settings
        count = len(asked.key) if isinstance(asked.key, tuple) else 1
        if asked.key is not None and count != len(settings.keys):
            names = ", ".join(settings.keys) or "none"
            raise InvalidArgumentError(
                f"key: it has {count} columns; the keys of {self.stream} have {len(settings.keys)}: {names}"
            )
        return asked


@dataclass(eq=False)
class Window:
    """What queries are about, looked at as of the version `looked`. Whoever uses `monitor` holds `lock`."""

    number: int
    name: Name
    monitor: Monitor | None = None
    looked: int | None = None
    added: int = 0  # how often queries came
    lock: RLock = field(default_factory=RLock)

    def told(self, queries: int, listened: bool) -> dict[str, Any]:
        """It, and what its monitor has done since it was made."""
        name, monitor = self.name, self.monitor
        about = {"stream": name.stream, "key": name.read_key(), "window": name.window, "filter": name.filter}
        about |= {"queries": queries, "listened": listened}
        if monitor is None:
            return about
        stats = monitor.stats()
        counted = {word: stats[word] for word in ("n", "clusters", "evaluations", "saved", "deadline")}
        return about | counted | {"looks": stats["summaries"]}
