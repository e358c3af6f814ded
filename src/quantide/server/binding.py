"""Where a server listens: what is needed before others than this machine may reach it, and the socket itself."""

import errno
import socket
import ssl

from quantide.config import Config
from quantide.config.server import ServerConfig, is_loopback
from quantide.errors import ConfigError
from quantide.server.names import bracketed
from quantide.server.registry import Registry
from quantide.server.tokens import are_needed

CREATE = "create one with `quantide token create`"


def check_binding(config: Config, registry: Registry) -> None:
    """Without tokens only this machine is served; with them others too, if nobody on the way can listen."""
    server = config.server
    if not server.for_this_machine and not are_needed(registry):
        where = f"{server.host} can be reached from elsewhere" if not server.loopback else "a proxy lets others in"
        raise ConfigError(f"{where}, and there are no tokens: anyone could ask and change everything; {CREATE}")
    if not server.loopback and not server.secure:
        raise ConfigError(
            f"{server.host} can be reached from elsewhere, and tokens would go there in the clear; set tls_cert and "
            "tls_key under [server], or put a proxy with TLS in front and say --behind-proxy"
        )
    tls_of(server)


def tls_of(server: ServerConfig) -> ssl.SSLContext | None:
    """The certificate and its key, at work."""
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
        context.load_cert_chain(server.tls_cert, server.tls_key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"server.tls_cert {server.tls_cert} and server.tls_key {server.tls_key} cannot be used: write the paths of "
            f"a certificate and of the key it was made with, in PEM and without a password ({error})"
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def listen(server: ServerConfig) -> socket.socket:
    """A socket that listens where the configuration says; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    where = f"{bracketed(server.host)}:{server.port}"
    try:
        found = socket.create_server((server.host, server.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(f"cannot listen on {where}: {_why(error)}") from error
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it: heads do not wait for bodies
    if server.loopback and not is_loopback(found.getsockname()[0]):
        found.close()
        raise ConfigError(f"{server.host} is not this machine's own address here; write host = 127.0.0.1")
    return found


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program does already; stop it, or write another port under [server] (0 takes a free one)"
    if error.errno == errno.EACCES:
        return "this port is for programs of the system; write one from 1024 on under [server]"
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_NODATA):
        return "this machine has no such address; write one it has as host under [server], or 0.0.0.0 for all"
    return str(error.strerror or error)


def urls_of(server: ServerConfig, port: int) -> list[str]:
    """Where clients find it: at its address, unless that stands for all addresses, and by its names."""
    own = [] if server.host in ("0.0.0.0", "::") else [f"{bracketed(server.host)}:{port}"]
    scheme = "https" if server.tls_cert is not None else "http"
    named = [
        f"https://{name}" if server.behind_proxy else f"{scheme}://{_with_port(name, port)}" for name in server.hosts
    ]
    return [f"{scheme}://{host}" for host in own] + named or [f"{scheme}://{bracketed(server.host)}:{port}"]


def _with_port(name: str, port: int) -> str:
    return name if ":" in name.rpartition("]")[2] else f"{name}:{port}"
