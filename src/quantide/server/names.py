"""The names a server goes by: what the Host and the Origin of a request may be.

A page of another site can make its own name point to this machine (DNS rebinding) and so talk to a server that only
listens here. Its requests then carry that name as their Host: names that are not ours are refused. Each is compared
as a whole, so no beginning, ending or other spelling of a good name is one.
"""

from dataclasses import dataclass
from ipaddress import ip_address

from quantide.config.server import ServerConfig, is_loopback

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
Address = tuple[str, int]


@dataclass(frozen=True)
class Names:
    """What the headers Host and Origin may say, in small letters."""

    hosts: frozenset[bytes]
    origins: frozenset[bytes]


def names_of(config: ServerConfig, local: Address | None) -> Names:
    """The names by which a connection to the address `local` may call the server."""
    port = config.port if local is None else local[1]
    hosts = set(config.hosts) | {f"{name}:{port}" for name in config.hosts if not _has_port(name)}
    scheme = "https" if config.secure else "http"
    for name in _own(config, local):
        hosts.add(f"{name}:{port}")
        if port == (443 if config.secure else 80):
            hosts.add(name)
    return Names(frozenset(name.encode() for name in hosts), frozenset(f"{scheme}://{name}".encode() for name in hosts))


def _own(config: ServerConfig, local: Address | None) -> list[str]:
    """The address that was connected to, which is one that it listens on, and the name it is configured with."""
    own = [] if is_address(config.host) else [config.host.lower()]
    if local is None:
        return own
    return [*own, bracketed(local[0]), *(LOOPBACK if is_loopback(local[0]) else ())]


def bracketed(host: str) -> str:
    """A host as addresses have it: [::1]."""
    return f"[{host}]" if ":" in host else host


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]
