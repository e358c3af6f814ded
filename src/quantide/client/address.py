"""Where a server is, and what may be sent there."""

import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from quantide.errors import InvalidArgumentError

EXAMPLE = "http://127.0.0.1:8642"
TOKEN = re.compile(r"[!-~]{1,1000}")


def read_address(address: str) -> str:
    """The address of a server, without a slash at its end.

    >>> read_address("http://127.0.0.1:8642/")
    'http://127.0.0.1:8642'
    """
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (AttributeError, TypeError, ValueError):
        known = False
    if not known or re.search(r"[\s\\]", address):
        raise InvalidArgumentError(f"{_hidden(address)!r} is not the address of a server; write {EXAMPLE}, say")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError("the address has a name or a password in it; give a token by token= instead")
    if parts.query or parts.fragment:
        raise InvalidArgumentError(f"{_hidden(address)!r} is the address of a page; write it without ? and #")
    return address.rstrip("/")


def is_loopback(address: str) -> bool:
    """Whether what is sent there stays on this machine.

    >>> is_loopback("http://localhost:8642"), is_loopback("http://[::1]"), is_loopback("http://10.0.0.7")
    (True, True, False)
    """
    host = urlsplit(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_token(token: Any, address: str) -> str:
    """A token that may be sent to an address: encrypted, or not beyond this machine."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):  # a message never has it
        raise InvalidArgumentError("that is not a token; give the text that `quantide token create` printed, all of it")
    if not address.startswith("https:") and not is_loopback(address):
        raise InvalidArgumentError(
            f"a token is not sent to {address}: anyone on the way could read it; use https, or a tunnel to this machine"
        )
    return token


def _hidden(address: object) -> object:
    """An address as a message may show it: without what stands before an @, which may be a password."""
    return re.sub(r"//.*@", "//...@", address[:200], flags=re.DOTALL) if isinstance(address, str) else address
