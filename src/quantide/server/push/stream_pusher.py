"""Stream pusher: checks the rows of a request, refuses them if ingestion lags, and acknowledges them once durable.

Repeats: a request whose idempotency key this server has seen is acknowledged without writing. A repeat that reaches
another server, or this one after a restart, is written again with its key; ingestion, the only writer of the store,
drops it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from quantide.config import StreamConfig
from quantide.errors import InvalidArgumentError, NotReadyError
from quantide.live.live_stream import LiveStream
from quantide.server.push.group_commit import GroupCommit
from quantide.server.push.landing_backlog import LandingBacklog
from quantide.server.push.row_checks import check_rows, check_time_kind
from quantide.server.push.row_formats import parse_rows
from quantide.store.landing_file import digest_key
from quantide.windows.wall_clock import wall_clock

T = TypeVar("T")
MAX_KEY = 200  # characters
RECENT_KEYS = 10_000  # requests whose repeats are not written again


class StreamPusher:
    """Accepts rows for one stream."""

    def __init__(self, stream: StreamConfig, find_live: Callable[[str], LiveStream], max_bytes: int) -> None:
        self.stream, self._find_live, self._max_bytes = stream, find_live, max_bytes
        storage = stream.open_storage()
        self.backlog = LandingBacklog(stream, storage)
        self._commit = GroupCommit(storage, self.backlog.add, shares_files=not stream.filters)
        self._recent: OrderedDict[bytes, tuple[int, asyncio.Task[str]]] = OrderedDict()
        self.rows = 0

    def read_body(self, content_type: str, body: bytes) -> pa.Table:
        """Return the checked rows of a body. It runs in a thread, and changes nothing."""
        if self.backlog.is_stale:
            self.backlog.measure()
        self.backlog.check()
        table = parse_rows(content_type, body, self._max_bytes, self.stream.keys)
        try:
            live = self._find_live(self.stream.name)
        except NotReadyError:  # the store has no rows yet, or does not exist
            value_type, key_types = None, None
        else:
            check_time_kind(live.time_kind, self.stream.name)
            value_type, key_types = live.settings.value_type, live.key_types
        return check_rows(table, self.stream, wall_clock(), value_type, key_types)

    async def add(self, table: pa.Table, key: str | None) -> tuple[str, int]:
        """Return the id and the number of rows of a request when they are durable, or those of the request it repeats.

        The rows of a repeat are not compared with those of the first request.
        """
        digest = None if key is None else digest_key(check_key(key))
        rows = len(table)
        if digest is None:
            name = await self._commit.write(table, None)
        else:
            rows, task = self._recent.get(digest) or self._begin(table, digest)
            name = await asyncio.shield(task)
        self.rows += len(table)
        return name.partition(".")[0], rows

    def _begin(self, table: pa.Table, digest: bytes) -> tuple[int, "asyncio.Task[str]"]:
        """Start to write rows with a key; a request that fails is forgotten, so that it can be repeated."""
        task = asyncio.ensure_future(self._commit.write(table, digest))
        request = self._recent[digest] = len(table), task
        if len(self._recent) > RECENT_KEYS:
            self._recent.popitem(last=False)

        def forget(done: "asyncio.Task[str]") -> None:
            if (done.cancelled() or done.exception() is not None) and self._recent.get(digest) is request:
                del self._recent[digest]

        task.add_done_callback(forget)
        return request

    def close(self) -> None:
        self._commit.close()


def check_key(key: str) -> str:
    if not 0 < len(key) <= MAX_KEY or not key.isprintable():
        raise InvalidArgumentError(f"an idempotency key has 1 to {MAX_KEY} printable characters; send a UUID")
    return key
