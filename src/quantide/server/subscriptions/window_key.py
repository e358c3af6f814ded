"""Windows of continuous queries: the key that identifies one, and the window with its monitor."""

import json
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple

import orjson

from quantide.errors import InvalidArgumentError
from quantide.live.live_stream import LiveStream
from quantide.live.scope import QueryScope
from quantide.queries.monitor import Monitor
from quantide.server.http.query_parameters import query_scope


class WindowKey(NamedTuple):
    """Stream, key, window and filter of a query; the key is JSON, because 1, "1" and true are different keys."""

    stream: str
    key: str
    window: str
    filter: str | None

    @classmethod
    def of(cls, stream: str, key: Any, window: str, filter: str | None) -> "WindowKey":
        return cls(stream, orjson.dumps(key).decode(), window, filter)

    def read_key(self) -> Any:
        return json.loads(self.key)

    def scope(self) -> QueryScope:
        key = self.read_key()
        return query_scope(tuple(key) if isinstance(key, list) else key, self.window, self.filter)

    def check(self, live: LiveStream) -> QueryScope:
        """Return the scope; raise if the stream cannot have such a key. The key need not exist yet."""
        scope, settings = self.scope(), live.settings
        count = len(scope.key) if isinstance(scope.key, tuple) else 1
        if scope.key is not None and count != len(settings.keys):
            names = ", ".join(settings.keys) or "none"
            raise InvalidArgumentError(
                f"key: it has {count} columns; the keys of {self.stream} have {len(settings.keys)}: {names}"
            )
        return scope


@dataclass(eq=False)
class MonitoredWindow:
    """Window whose queries share one monitor. Hold `lock` to use `monitor`.

    `evaluated` is the version of the last evaluation; `additions` counts how often queries were added.
    """

    number: int
    key: WindowKey
    monitor: Monitor | None = None
    evaluated: int | None = None
    additions: int = 0
    lock: RLock = field(default_factory=RLock)

    def to_json(self, queries: int, subscribed: bool) -> dict[str, Any]:
        """Return the window and the counters of its monitor."""
        key, monitor = self.key, self.monitor
        fields = {"stream": key.stream, "key": key.read_key(), "window": key.window, "filter": key.filter}
        fields |= {"queries": queries, "listened": subscribed}
        if monitor is None:
            return fields
        stats = monitor.stats()
        counters = {name: stats[name] for name in ("n", "clusters", "evaluations", "saved", "deadline")}
        return fields | counters | {"looks": stats["summaries"]}
