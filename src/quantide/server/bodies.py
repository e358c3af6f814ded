"""Bodies of requests: only JSON, not too long, and not too slow."""

import asyncio

from starlette.types import Message, Receive

from quantide.errors import LimitError
from quantide.server.problems import problem

SMALL = 10_000  # bytes; for those who need no token, and for methods that have no use for a body
WITH_BODY = ("POST", "PUT", "PATCH")
PATIENCE = 30.0  # seconds for a whole body
JSON = (b"application/json", b"application/json;charset=utf-8", b'application/json;charset="utf-8"')


def has_body(head: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in head or head.get(b"content-length", b"0") != b"0"


def check_kind(method: str, head: dict[bytes, bytes]) -> None:
    """Only JSON: no page of another site can send that here without asking first, and it is not allowed.

    Nor can it use any method but GET, HEAD and POST; so those may come without a body and its kind.
    """
    if method != "POST" and not has_body(head):
        return
    said = head.get(b"content-type", b"").replace(b" ", b"").lower()
    if said not in JSON or head.get(b"content-encoding", b"identity").lower() != b"identity":
        raise problem("not_json", "a body is JSON in UTF-8, not compressed; say Content-Type: application/json")


class Bodies:
    """Reads bodies; those that are being read at one time may not be more than a few of the longest together."""

    def __init__(self, longest: int, together: int = 8, patience: float = PATIENCE) -> None:
        self._longest, self._most, self._patience, self._held = longest, longest * together, patience, 0

    async def read(self, small: bool, head: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body of a request."""
        limit = min(SMALL, self._longest) if small else self._longest
        said = head.get(b"content-length", b"0")
        if not said.isdigit() or len(said) > 18 or int(said) > limit:
            raise _too_large(limit)
        parts, length = list[bytes](), 0
        try:
            async with asyncio.timeout(self._patience):
                more = True
                while more:
                    part, more = _part(await receive())
                    length, self._held = length + len(part), self._held + len(part)
                    if length > limit:
                        raise _too_large(limit)
                    if self._held > self._most:
                        raise LimitError("too many long bodies are being sent; send them one after the other")
                    parts.append(part)
        except TimeoutError:
            raise problem("timeout", f"the body was not whole after {self._patience:g} seconds") from None
        finally:
            self._held -= length
        return b"".join(parts)


async def drain(receive: Receive, most: int, seconds: float = 2.0) -> None:
    """Read on a little after a refusal: a client that is cut off while it sends would not see why."""
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more and most > 0:
                part, more = _part(await receive())
                most -= len(part)
    except (TimeoutError, Gone):
        return


class Gone(Exception):
    """The client has left in the middle of its request."""


def given(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body was read already."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def _part(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise Gone
    return message.get("body", b""), message.get("more_body", False)


def _too_large(limit: int) -> Exception:
    return problem("too_large", f"the body is longer than {limit:,} bytes; send it in parts")
