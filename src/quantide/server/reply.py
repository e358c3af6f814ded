"""What is sent back: with safe headers, and only for as long as whoever asked might still come in."""

from collections.abc import Callable

from starlette.types import Message, Send

from quantide.errors import QuantideError
from quantide.server.headers import with_safe

AGAIN = 5.0  # seconds between two looks at the token behind an answer that lasts


class Reply:
    """`still` raises an error when its asker may not come in any more: then the answer ends where it is.

    A route learns of that as if the client had left; what it sends until then goes nowhere.
    """

    def __init__(self, send: Send, secure: bool, clock: Callable[[], float]) -> None:
        self._send, self._secure, self._clock = send, secure, clock
        self._looked, self._cut = clock(), False
        self.still: Callable[[], object] | None = None
        self.done = False

    async def __call__(self, message: Message) -> None:
        if self._cut:
            return
        if message["type"] == "http.response.start":
            message["headers"] = with_safe(message.get("headers", ()), self._secure)
        elif message.get("more_body", False) and not self._may_go_on():
            self._cut = True
            message = {"type": "http.response.body", "body": b""}
        self.done = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    def _may_go_on(self) -> bool:
        now = self._clock()
        if self.still is None or now - self._looked < AGAIN:
            return True
        self._looked = now
        try:
            self.still()
        except QuantideError:
            return False
        return True
