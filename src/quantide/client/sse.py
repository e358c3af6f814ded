"""Server-sent events: bytes in, messages out, as the HTML standard says (section 9.2.6)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from quantide.errors import ServerError

BOM = b"\xef\xbb\xbf"
END = re.compile(rb"\r\n|\r|\n")
LARGEST = 64 * 10**6  # bytes of one message


@dataclass(frozen=True, slots=True)
class Message:
    """A message: the kind of event, its data, and the id to go on from."""

    kind: str
    data: str
    id: str


class Parser:
    """Reads messages out of the bytes of one connection, however these were cut.

    `last_id` is the id of the last message that was complete; `retry` the pause, in seconds, that the server asks for
    before the next connection. What is not complete when the connection ends is not a message.

    >>> parser = Parser()
    >>> list(parser.feed(b": hello\\r\\nid: 7\\r\\nevent: change\\r\\nda"))
    []
    >>> list(parser.feed(b"ta: one\\r\\ndata: two\\r\\n\\r\\n"))
    [Message(kind='change', data='one\\ntwo', id='7')]
    >>> parser.last_id
    '7'
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry: float | None = None
        self._rest: list[bytes] = []  # of a line that has not ended
        self._size = 0  # of a message that has not ended
        self._fresh, self._after_cr = True, False
        self._id, self._kind = last_id, ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that these bytes complete."""
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif (found := self._message()) is not None:
                yield found

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._fresh:  # the mark may come in pieces
            chunk = b"".join([*self._rest, chunk])
            self._rest = [chunk]
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                return
            self._rest, self._fresh, chunk = [], False, chunk.removeprefix(BOM)
        if not chunk:
            return
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        self._size += len(chunk)
        *ended, rest = END.split(chunk)
        for line in ended:
            whole, self._rest = b"".join([*self._rest, line]), []
            yield whole
        self._rest.append(rest)
        if self._size > LARGEST:
            raise ServerError(f"an event of more than {LARGEST:,} bytes; see whether this is a Quantide server")

    def _field(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value[:9]) / 1000

    def _message(self) -> Message | None:
        self.last_id = self._id
        kind, data = self._kind or "message", self._data
        self._kind, self._data, self._size = "", [], 0
        return Message(kind, "\n".join(data), self.last_id) if data else None
