"""Faults that a FaultProxy injects into requests."""

import threading
from collections.abc import Callable

from tests.object_servers.exchange import Answer, Exchange

Fault = Callable[[Exchange], None]
LIMIT = 60.0  # seconds that a test waits for a request


def refuse(status: int, code: str) -> Fault:
    """Answer with an error of S3, instead of the server."""
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'

    def fault(exchange: Exchange) -> None:
        is_head = exchange.request.method == "HEAD"
        exchange.reply(Answer(status, [("Content-Type", "application/xml")], b"" if is_head else body.encode()))

    return fault


def slow_down() -> Fault:
    """Answer as S3 does when it gets too many requests."""
    return refuse(503, "SlowDown")


def expired_token(status: int = 403) -> Fault:
    """Answer that the credentials have expired."""
    return refuse(status, "ExpiredToken")


def delay(seconds: float) -> Fault:
    """Forward the request some seconds later, even if the client does not wait so long."""

    def fault(exchange: Exchange) -> None:
        if not exchange.closed.wait(seconds):
            exchange.reply(exchange.forward())

    return fault


class Hold:
    """Hold a request until the test releases it, even if the client no longer waits: the test chooses the order.

    One object holds one request.
    """

    def __init__(self) -> None:
        self._arrived, self._released, self._forwarded = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, exchange: Exchange) -> None:
        self._arrived.set()
        while not self._released.wait(0.02):
            if exchange.closed.is_set():
                return
        answer = exchange.forward()
        self._forwarded.set()
        exchange.reply(answer)

    def wait(self) -> None:
        """Wait until the request is held."""
        assert self._arrived.wait(LIMIT), "no request was held"

    def release(self) -> None:
        """Let the server execute the request; return when it has done so."""
        self._released.set()
        assert self._forwarded.wait(LIMIT), "the request was not executed"


def cut_request(exchange: Exchange) -> None:
    """Disconnect from the server in the middle of the request's body, and from the client."""
    assert exchange.body, "a request without a body is not cut"
    exchange.forward_half()
    exchange.disconnect()


def lose_answer(exchange: Exchange) -> None:
    """Let the server execute the request, but disconnect from the client instead of answering."""
    exchange.forward()
    exchange.disconnect()


def cut_answer(exchange: Exchange) -> None:
    """Disconnect from the client in the middle of the answer's body."""
    exchange.reply_half(exchange.forward())
