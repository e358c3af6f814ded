"""What a server says went wrong, as the error that the library would have raised."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quantide import errors
from quantide.errors import QuantideError, ServerError

KINDS: dict[str, type[QuantideError]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, QuantideError)
}
LONGEST = 2_000  # letters of a message that are shown


def error_of(status: int, body: bytes, address: str) -> QuantideError:
    """The error that a response tells.

    >>> error_of(404, b'{"error": {"code": "unknown_stream", "message": "there is no stream"}}', "http://localhost")
    UnknownStreamError('there is no stream')
    """
    try:
        told = json.loads(body)["error"]
        code, message = str(told["code"]), str(told["message"])[:LONGEST]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ServerError(
            f"{address} answered with status {status} and no reason; see whether that is the address of a Quantide "
            "server, and whether something in between, such as a proxy, answers for it"
        )
    kind = KINDS.get(code)
    return ServerError(f"{message} ({code[:80]})") if kind is None else kind(message)


@contextmanager
def understood(address: str) -> Iterator[None]:
    """Reading what a server sent: what is not as it should be is the server's error, not the caller's."""
    try:
        yield
    except ServerError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise not_understood(address, f"{type(error).__name__}: {error}") from error


def not_understood(address: str, why: Any) -> ServerError:
    return ServerError(
        f"what {address} answered is not understood ({str(why)[:200]}); see whether that is the address of a Quantide "
        "server, and whether it is of the same version as this client"
    )
