"""What a configuration says of the server: where it listens, who may come, how much one may ask for."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from quantide.config.table import Table, shown
from quantide.errors import ConfigError
from quantide.store.settings import read_bytes

PORT = 8642
MEMORY = 10**9
LOOPBACK_NAMES = ("localhost",)
HOST = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Limits:
    """The most that one may ask a server for."""

    phis: int = 1_000
    """Values of phi, or values, of one question."""
    points: int = 2_000
    """Points of one Q-Q plot."""
    batch: int = 100_000
    """Queries in one body."""
    queries: int = 1_000_000
    """Standing queries in all."""
    alarms: int = 10_000
    body: int = 32 * 10**6
    """Bytes of one body."""
    events: int = 2_000
    """Open event streams in all."""
    connections: int = 4_000
    """Open connections in all, event streams among them."""
    waiting: int = 1_000
    """Questions that wait for their turn."""


@dataclass(frozen=True)
class Webhooks:
    """Where alarms may be sent: origins such as "https://hooks.example.com"; the file of the secret that signs them."""

    allow: tuple[str, ...] = ()
    secret_file: str | None = None


@dataclass(frozen=True)
class ServerConfig:
    """`hosts` are the names that clients call it by, beside its own address; `state` is the folder of its registry."""

    state: str
    host: str = "127.0.0.1"
    port: int = PORT
    hosts: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    memory: int = MEMORY
    limits: Limits = Limits()
    webhooks: Webhooks = Webhooks()

    @property
    def loopback(self) -> bool:
        """Whether it can be reached from this machine only."""
        return is_loopback(self.host)

    @property
    def secure(self) -> bool:
        """Whether clients reach it by https."""
        return self.tls_cert is not None or self.behind_proxy

    @property
    def for_this_machine(self) -> bool:
        """Whether nobody else can reach it: a proxy would let others in."""
        return self.loopback and not self.behind_proxy


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_server(table: Table | None, store: str, resolve: Callable[..., str]) -> ServerConfig:
    """The settings under [server]; `resolve` makes a path of what the file says."""
    state = resolve(store, "_server")
    if table is None:
        return ServerConfig(state)
    said = table.text("state", '"server-state"')
    cert, key = table.text("tls_cert", '"server.crt"'), table.text("tls_key", '"server.key"')
    if (cert is None) != (key is None):
        raise ConfigError(f"{table.key('tls_cert')} and {table.key('tls_key')} go together; add the other one")
    found = ServerConfig(
        state=state if said is None else resolve(said),
        host=table.text("host", '"127.0.0.1"') or ServerConfig.host,
        port=_port(table),
        hosts=_hosts(table),
        tls_cert=None if cert is None else resolve(cert),
        tls_key=None if key is None else resolve(key),
        behind_proxy=table.flag("behind_proxy"),
        memory=table.read("memory", read_bytes, '"1 GB"') or MEMORY,
        limits=_limits(table.table("limits", "write numbers, such as points = 2000")),
        webhooks=_webhooks(table.table("webhooks", 'write allow = ["https://hooks.example.com"]'), resolve),
    )
    table.check_all_known()
    return found


def _hosts(table: Table) -> tuple[str, ...]:
    example = '["quantiles.example.com"]'
    found = tuple(name.lower() for name in _texts(table, "hosts", example))
    for name in found:
        if not HOST.fullmatch(name):
            raise ConfigError(
                f"{table.key('hosts')} has {shown(name)}; write names as clients call them, each whole and with its "
                f"port if it has one, such as hosts = {example}"
            )
    return found


def _port(table: Table) -> int:
    found = table.raw("port")
    if found is None:
        return PORT
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 2**16:
        raise ConfigError(f"{table.key('port')} is {shown(found)}; write a number up to 65535, such as port = {PORT}")
    return found


def _limits(table: Table | None) -> Limits:
    if table is None:
        return Limits()
    found: dict[str, int | None] = {}
    for field in fields(Limits):
        name = field.name
        if name == "body":
            found[name] = table.read(name, partial(read_bytes, name=name), '"32 MB"')
        else:
            found[name] = table.count(name, f"{name} = 1000")
    table.check_all_known()
    return Limits(**{name: value for name, value in found.items() if value is not None})


def _webhooks(table: Table | None, resolve: Callable[..., str]) -> Webhooks:
    if table is None:
        return Webhooks()
    allow = _texts(table, "allow", '["https://hooks.example.com"]')
    for one in allow:
        parts = urlsplit(one)
        if parts.scheme not in ("https", "http") or not parts.hostname or one != f"{parts.scheme}://{parts.netloc}":
            raise ConfigError(
                f"{table.key('allow')} has {shown(one)}; write where alarms may be sent as "
                '"https://hooks.example.com", with a port if it needs one and no path'
            )
    secret = table.text("secret_file", '"webhook.secret"', needed=bool(allow))
    table.check_all_known()
    return Webhooks(allow, None if secret is None else resolve(secret))


def _texts(table: Table, name: str, example: str) -> tuple[str, ...]:
    found = table.raw(name)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ConfigError(f"{table.key(name)} is {shown(found)}; write a list of text, such as {name} = {example}")
    return tuple(found)
