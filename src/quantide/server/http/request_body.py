"""Request bodies: JSON only, bounded in size and time."""

import asyncio

from starlette.types import Message, Receive

from quantide.errors import LimitError
from quantide.server.http.problem_details import Problem

SMALL_BODY = 10_000  # bytes; for requests without a token, and for methods that need no body
METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
BODY_TIMEOUT = 30.0  # seconds for a whole body
JSON_TYPES = (b"application/json", b"application/json;charset=utf-8", b'application/json;charset="utf-8"')


def has_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def check_content_type(method: str, headers: dict[bytes, bytes]) -> None:
    """Raise unless the body is JSON: a page of another site cannot send JSON without a preflight, which is refused.

    Without a preflight it can use no method but GET, HEAD and POST, so other methods may omit the body and its type.
    """
    if method != "POST" and not has_body(headers):
        return
    content_type = headers.get(b"content-type", b"").replace(b" ", b"").lower()
    if content_type not in JSON_TYPES or headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Problem("not_json", "a body is JSON in UTF-8, not compressed; send Content-Type: application/json")


class BodyReader:
    """Reads bodies; those being read at one time share a budget of `concurrent` bodies of the largest size."""

    def __init__(self, max_bytes: int, concurrent: int = 8, timeout: float = BODY_TIMEOUT) -> None:
        self._max_bytes, self._budget, self._timeout = max_bytes, max_bytes * concurrent, timeout
        self._buffered = 0

    async def read(self, small: bool, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Return the whole body of a request."""
        limit = min(SMALL_BODY, self._max_bytes) if small else self._max_bytes
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > limit:
            raise _too_large(limit)
        chunks, length = list[bytes](), 0
        try:
            async with asyncio.timeout(self._timeout):
                more = True
                while more:
                    chunk, more = _chunk(await receive())
                    length, self._buffered = length + len(chunk), self._buffered + len(chunk)
                    if length > limit:
                        raise _too_large(limit)
                    if self._buffered > self._budget:
                        raise LimitError("too many large bodies are being sent; send them one after the other")
                    chunks.append(chunk)
        except TimeoutError:
            raise Problem("timeout", f"the body was not complete after {self._timeout:g} seconds") from None
        finally:
            self._buffered -= length
        return b"".join(chunks)


async def drain(receive: Receive, max_bytes: int, timeout: float = 2.0) -> None:
    """Read on a little after a refusal: a client that is cut off while it sends would not see the reason."""
    try:
        async with asyncio.timeout(timeout):
            more = True
            while more and max_bytes > 0:
                chunk, more = _chunk(await receive())
                max_bytes -= len(chunk)
    except (TimeoutError, ClientDisconnected):
        return


class ClientDisconnected(Exception):
    """The client disconnected in the middle of its request."""


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers a body that was read already."""
    unread = [body]

    async def receive_again() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return receive_again


def _chunk(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)


def _too_large(limit: int) -> Exception:
    return Problem("too_large", f"the body is longer than {limit:,} bytes; send it in parts")
