"""Binding: the address a server listens on, the hosts it accepts, the conditions for serving other machines, and TLS.

A page of another site can make its own name resolve to this machine (DNS rebinding) and so reach a server that listens
on the loopback address only. Its requests carry that name as their Host, so unknown names are rejected. Names are
compared as a whole: no prefix, suffix or other spelling of an allowed name is accepted.
"""

import errno
import socket
import ssl
from dataclasses import dataclass
from ipaddress import ip_address

from quantide.config import Config
from quantide.config.server_config import ServerConfig, is_loopback
from quantide.config.server_probe import is_quantide
from quantide.errors import ConfigError
from quantide.server.http.tokens import tokens_required
from quantide.server.server_registry import ServerRegistry

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


def check_binding(config: Config, registry: ServerRegistry) -> None:
    """Raise if other machines could reach the server without a token, or send a token in clear text."""
    server = config.server
    if not server.for_this_machine and not tokens_required(registry):
        cause = f"{server.host} is reachable from other machines" if not server.loopback else "a proxy lets others in"
        raise ConfigError(
            f"{cause}, and there are no tokens: anyone could query and change everything; create one with "
            "`quantide token create`"
        )
    if not server.loopback and not server.secure:
        raise ConfigError(
            f"{server.host} is reachable from other machines, and tokens would be sent in clear text; set tls_cert and "
            "tls_key under [server], or use a proxy with TLS and the option --behind-proxy"
        )
    tls_context(server)


def tls_context(server: ServerConfig) -> ssl.SSLContext | None:
    """Load the certificate and its key; return None if none is configured."""
    if server.tls_cert is None or server.tls_key is None:
        return None
    for name, path in (("tls_cert", server.tls_cert), ("tls_key", server.tls_key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ConfigError(f"server.{name}: {path} cannot be read: {error.strerror}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(server.tls_cert, server.tls_key, password=_reject_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"server.tls_cert {server.tls_cert} and server.tls_key {server.tls_key} cannot be used: write the paths of "
            f"a certificate and of the key it was made with, in PEM and without a password ({error})"
        ) from error
    return context


def _reject_password() -> str:
    raise ValueError("the key has a password")


def open_socket(server: ServerConfig) -> socket.socket:
    """Return a socket that listens on the configured address; port 0 takes a free port."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    address = f"{bracket_ipv6(server.host)}:{server.port}"
    try:
        listener = socket.create_server((server.host, server.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {_explain(error, server)}") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited: heads do not wait for bodies
    if server.loopback and not is_loopback(listener.getsockname()[0]):
        listener.close()
        raise ConfigError(f"{server.host} is not this machine's own address here; write host = 127.0.0.1")
    return listener


def _explain(error: OSError, server: ServerConfig) -> str:
    if error.errno == errno.EADDRINUSE and is_quantide(server):
        return (
            "a Quantide server already answers there; use it, end it, or write another port under [server] (0 takes a "
            "free one)"
        )
    if error.errno == errno.EADDRINUSE:
        return "another program uses this port; stop it, or write another port under [server] (0 takes a free one)"
    if error.errno == errno.EACCES:
        return "this port is reserved for the system; write one from 1024 on under [server]"
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_NODATA):
        return "this machine has no such address; write one it has as host under [server], or 0.0.0.0 for all"
    return str(error.strerror or error)


def server_urls(server: ServerConfig, port: int) -> list[str]:
    """Return the URLs of the server: its address, unless that is a wildcard, and its configured names."""
    own = [] if server.host in ("0.0.0.0", "::") else [f"{bracket_ipv6(server.host)}:{port}"]
    scheme = "https" if server.tls_cert is not None else "http"
    named = [
        f"https://{name}" if server.behind_proxy else f"{scheme}://{_with_port(name, port)}" for name in server.hosts
    ]
    return [f"{scheme}://{host}" for host in own] + named or [f"{scheme}://{bracket_ipv6(server.host)}:{port}"]


def _with_port(name: str, port: int) -> str:
    return name if has_port(name) else f"{name}:{port}"
