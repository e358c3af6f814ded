"""Configuration of the server: its address, TLS, hosts, limits and webhooks."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from quantide.config.toml_table import ConfigTable, format_value
from quantide.errors import ConfigError
from quantide.store.store_settings import parse_size

PORT = 8642
MEMORY = 10**9
LOOPBACK_NAMES = ("localhost",)
HOST = re.compile(r"([a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class Limits:
    """Limits on the requests to a server."""

    phis: int = 1_000
    """Values of phi, or values, in one query."""
    points: int = 2_000
    """Points of one Q-Q plot."""
    series: int = 1_000
    """Series of one query of Prometheus."""
    batch: int = 100_000
    """Queries in one body."""
    queries: int = 1_000_000
    """Continuous queries in total."""
    alarms: int = 10_000
    body: int = 32 * 10**6
    """Bytes of one body."""
    events: int = 2_000
    """Open event streams in total."""
    connections: int = 4_000
    """Open connections in total, including event streams."""
    waiting: int = 1_000
    """Queued queries."""


@dataclass(frozen=True)
class Webhooks:
    """Allowed origins of webhooks, such as "https://hooks.example.com"; the file of the secret that signs them."""

    allow: tuple[str, ...] = ()
    secret_file: str | None = None


@dataclass(frozen=True)
class ServerConfig:
    """Settings of the server. `hosts` are its names, beside its own address; `state` is the folder of its registry."""

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
        """Return True if it listens on a loopback address."""
        return is_loopback(self.host)

    @property
    def secure(self) -> bool:
        """Return True if clients use https."""
        return self.tls_cert is not None or self.behind_proxy

    @property
    def for_this_machine(self) -> bool:
        """Return True if only this machine can reach it, with no proxy that lets others in."""
        return self.loopback and not self.behind_proxy


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse_server(table: ConfigTable | None, state: str, resolve: Callable[..., str]) -> ServerConfig:
    """Parse the table [server]; `state` is the default of its folder, and `resolve` makes paths absolute."""
    if table is None:
        return ServerConfig(state)
    state_folder = table.text("state", '"server-state"')
    cert, key = table.text("tls_cert", '"server.crt"'), table.text("tls_key", '"server.key"')
    if (cert is None) != (key is None):
        raise ConfigError(f"{table.key('tls_cert')} and {table.key('tls_key')} go together; add the other one")
    server = ServerConfig(
        state=state if state_folder is None else resolve(state_folder),
        host=table.text("host", '"127.0.0.1"') or ServerConfig.host,
        port=_parse_port(table),
        hosts=_parse_hosts(table),
        tls_cert=None if cert is None else resolve(cert),
        tls_key=None if key is None else resolve(key),
        behind_proxy=table.flag("behind_proxy"),
        memory=table.parse("memory", parse_size, '"1 GB"') or MEMORY,
        limits=_parse_limits(table.table("limits", "write numbers, such as points = 2000")),
        webhooks=_parse_webhooks(table.table("webhooks", 'write allow = ["https://hooks.example.com"]'), resolve),
    )
    table.reject_unknown_keys()
    return server


def _parse_hosts(table: ConfigTable) -> tuple[str, ...]:
    example = '["quantiles.example.com"]'
    hosts = tuple(name.lower() for name in _parse_texts(table, "hosts", example))
    for name in hosts:
        if not HOST.fullmatch(name):
            raise ConfigError(
                f"{table.key('hosts')} has {format_value(name)}; write names as clients call them, each whole and with "
                f"its port if it has one, such as hosts = {example}"
            )
    return hosts


def _parse_port(table: ConfigTable) -> int:
    value = table.get("port")
    if value is None:
        return PORT
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**16:
        raise ConfigError(
            f"{table.key('port')} is {format_value(value)}; write a number up to 65535, such as port = {PORT}"
        )
    return value


def _parse_limits(table: ConfigTable | None) -> Limits:
    if table is None:
        return Limits()
    limits: dict[str, int | None] = {}
    for field in fields(Limits):
        name = field.name
        if name == "body":
            limits[name] = table.parse(name, partial(parse_size, name=name), '"32 MB"')
        else:
            limits[name] = table.count(name, f"{name} = 1000")
    table.reject_unknown_keys()
    return Limits(**{name: value for name, value in limits.items() if value is not None})


def _parse_webhooks(table: ConfigTable | None, resolve: Callable[..., str]) -> Webhooks:
    if table is None:
        return Webhooks()
    allow = _parse_texts(table, "allow", '["https://hooks.example.com"]')
    for origin in allow:
        if not _is_origin(origin):
            raise ConfigError(
                f"{table.key('allow')} has {format_value(origin)}; write where alarms may be sent as "
                '"https://hooks.example.com", with a port if it needs one and no path'
            )
    secret = table.text("secret_file", '"webhook.secret"', needed=bool(allow))
    table.reject_unknown_keys()
    return Webhooks(allow, None if secret is None else resolve(secret))


def _is_origin(text: str) -> bool:
    """Return True for a scheme and a host, with or without a port, and without a user."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("https", "http") and parts.hostname is not None and parts.port != 0
    except ValueError:  # a port that is no number up to 65,535, or half an IPv6 address
        return False
    return known and parts.username is None and text == f"{parts.scheme}://{parts.netloc}"


def _parse_texts(table: ConfigTable, name: str, example: str) -> tuple[str, ...]:
    value = table.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise ConfigError(
            f"{table.key(name)} is {format_value(value)}; write a list of text, such as {name} = {example}"
        )
    return tuple(value)
