"""Push methods: rows sent at once, buffered, or measured by a `with` block."""

from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

from quantide.client.buffered_pusher import BufferedPusher, PushHandler, TimedBlock
from quantide.client.connection import Connection, api_path, parsing_response
from quantide.client.request_parameters import check_stream_name
from quantide.client.row_encoding import encode_rows
from quantide.errors import InvalidArgumentError

MAX_KEY = 200  # characters


class PushReceipt(NamedTuple):
    """Acknowledgement of pushed rows: they are on disk, and in answers shortly after."""

    stream: str
    rows: int
    id: str


class PushMethods(Connection):
    """Rows for streams whose source is "push"."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pushers: dict[str, BufferedPusher] = {}
        self._pushers_lock = Lock()

    def push(self, stream: str, rows: Any, idempotency_key: str | None = None) -> PushReceipt:
        """Send rows, and return when they are durable: all of them or, if one is refused, none.

        `rows` is a list of dicts, a pyarrow, pandas or polars table, or a numpy array of values. A repeat with the same
        `idempotency_key` adds nothing; without one, a new key is used, so that a broken connection can be retried.
        """
        return self.push_encoded(stream, *encode_rows(rows), idempotency_key or str(uuid4()))

    def push_encoded(self, stream: str, content_type: str, content: bytes, idempotency_key: str) -> PushReceipt:
        """Send rows that are encoded already, by their content type."""
        path = api_path("streams", check_stream_name(stream), "rows")
        _check_key(idempotency_key)
        body = self.send_rows(path, content_type, content, idempotency_key)
        with parsing_response(self.address):
            return PushReceipt(str(body["stream"]), int(body["rows"]), str(body["id"]))

    def pusher(self, stream: str, **settings: Any) -> BufferedPusher:
        """Return a new buffered pusher for a stream; `settings` are those of BufferedPusher."""
        return BufferedPusher(self, check_stream_name(stream), **settings)

    def timed(self, stream: str, /, **columns: Any) -> TimedBlock:
        """Return a context manager, or a decorator, that pushes how many milliseconds its block takes.

        Blocks of one stream share a buffered pusher, which close() and the end of the process flush.
        """
        return self._shared_pusher(stream).timed(**columns)

    def log_handler(self, stream: str, attribute: str = "value", level: int = 0) -> PushHandler:
        """Return a handler for `logging` that pushes an attribute of records, such as extra={"value": 12.5}."""
        return PushHandler(self._shared_pusher(stream), attribute, level)

    def _shared_pusher(self, stream: str) -> BufferedPusher:
        pusher = self._pushers.get(stream)
        if pusher is None:
            with self._pushers_lock:
                pusher = self._pushers.get(stream) or self.pusher(stream)
                self._pushers[stream] = pusher
        return pusher

    def close(self) -> None:
        """Flush the shared pushers, then close all connections."""
        for pusher in self._pushers.values():
            pusher.close()
        super().close()


def _check_key(key: str) -> None:
    """Raise InvalidArgumentError unless a key can be sent in a header."""
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise InvalidArgumentError(
            f"the idempotency key {key[:80]!a} cannot be sent in a header: it has 1 to {MAX_KEY} printable ASCII "
            "characters. Use a UUID; nothing was sent"
        )
