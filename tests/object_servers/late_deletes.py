"""Deletes that become visible late: reads of a deleted object are answered from a copy for a while."""

import re
from dataclasses import dataclass, field
from email.utils import formatdate

from tests.object_servers.exchange import Answer, Exchange, Headers


@dataclass
class _Copy:
    body: bytes
    headers: Headers
    reads: int = 0  # that it still answers; more than 0 only after the delete


@dataclass
class LateDeletes:
    """Copies of objects that are written: each answers a number of reads after its delete."""

    reads: int
    path: str
    _copies: dict[str, _Copy] = field(default_factory=dict)

    def record(self, exchange: Exchange, answer: Answer) -> None:
        """Copy an object that was written, or note that it was deleted."""
        request = exchange.request
        if answer.status < 300 and request.method == "PUT" and not request.query and self.path in request.path:
            headers = [pair for pair in answer.headers if pair[0].lower() == "etag"]
            self._copies[request.path] = _Copy(exchange.body, [*headers, ("Last-Modified", formatdate(usegmt=True))])
        for path in exchange.deleted:
            if path in self._copies:
                self._copies[path].reads = self.reads

    def answer(self, exchange: Exchange) -> Answer | None:
        """Return the answer to a read of an object whose delete is not visible yet."""
        request = exchange.request
        copy = self._copies.get(request.path)
        if copy is None or not copy.reads or request.method not in ("GET", "HEAD"):
            return None
        copy.reads -= 1
        if request.method == "HEAD":
            return Answer(200, [*copy.headers, ("Content-Length", str(len(copy.body)))], b"")
        if request.range is None:
            return Answer(200, copy.headers, copy.body)
        start, stop = _interval(request.range, len(copy.body))
        span = ("Content-Range", f"bytes {start}-{stop - 1}/{len(copy.body)}")
        return Answer(206, [*copy.headers, span], copy.body[start:stop])


def _interval(header: str, size: int) -> tuple[int, int]:
    """Return start and stop of `bytes=2-5`, `bytes=2-` or `bytes=-5`."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
    assert match, header
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
