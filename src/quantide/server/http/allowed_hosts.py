"""Allowed hosts: the values of the headers Host and Origin that the server accepts.

A page of another site can make its own name resolve to this machine (DNS rebinding) and so reach a server that listens
on the loopback address only. Its requests carry that name as their Host, so unknown names are rejected. Names are
compared as a whole: no prefix, suffix or other spelling of an allowed name is accepted.
"""

from dataclasses import dataclass
from ipaddress import ip_address

from quantide.config.server_config import ServerConfig, is_loopback

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
Address = tuple[str, int]


@dataclass(frozen=True)
class AllowedHosts:
    """Accepted values of Host and Origin, in lower case."""

    hosts: frozenset[bytes]
    origins: frozenset[bytes]


def allowed_hosts(config: ServerConfig, local: Address | None) -> AllowedHosts:
    """Return the names that are valid on a connection to the address `local`."""
    port = config.port if local is None else local[1]
    hosts = set(config.hosts) | {f"{name}:{port}" for name in config.hosts if not has_port(name)}
    scheme = "https" if config.secure else "http"
    for name in _own_names(config, local):
        hosts.add(f"{name}:{port}")
        if port == (443 if config.secure else 80):
            hosts.add(name)
    return AllowedHosts(
        frozenset(name.encode() for name in hosts), frozenset(f"{scheme}://{name}".encode() for name in hosts)
    )


def _own_names(config: ServerConfig, local: Address | None) -> list[str]:
    """Return the local address of the connection, and the configured host name."""
    own = [] if is_ip_address(config.host) else [config.host.lower()]
    if local is None:
        return own
    return [*own, bracket_ipv6(local[0]), *(LOOPBACK if is_loopback(local[0]) else ())]


def bracket_ipv6(host: str) -> str:
    """Return a host as URLs write it: [::1]."""
    return f"[{host}]" if ":" in host else host


def is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]
