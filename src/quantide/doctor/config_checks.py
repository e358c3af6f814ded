"""Checks of a configuration: the sources and stores of its streams, the server's port, certificate and files."""

import errno
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from quantide.config import Config, ServerConfig, StreamConfig
from quantide.config.server_config import PORT
from quantide.config.server_probe import is_quantide
from quantide.config.storage_options import is_uri
from quantide.doctor.finding import FAILED, OK, WARNING, Finding
from quantide.errors import QuantideError, StorageError
from quantide.summary.value_json import count

if TYPE_CHECKING:
    from quantide.store.object_storage import ObjectStorage

GLOB_CHARACTERS = "*?[{"
EXPIRES_SOON_DAYS = 14
CERTIFICATE_EXPIRED = 10  # OpenSSL's verify code
PROBE = "_doctor"  # folder of objects that are written and removed
ACCESS_FIX = "set the credentials in the environment or in storage_options; they must allow get, put, delete and list"
NETWORK_FIX = "check the network, and endpoint, region and proxy_url in storage_options"


# Sources and stores of streams


def check_stores(config: Config | None = None) -> Iterator[Finding]:
    if config is None:
        return
    probe = probe_store(config) if is_uri(config.store) else None
    if probe is not None:
        yield probe
    for stream in config.streams.values():
        yield from check_source(stream)
        if probe is None or probe.state == OK:
            yield check_store(stream)


def probe_store(config: Config) -> Finding:
    """Write, replace, list and remove an object; two puts whose condition is not met must be refused."""
    from quantide.store.object_storage import ObjectStorage

    storage = ObjectStorage(config.store, config.storage_options)
    name = f"{PROBE}/{uuid4().hex}"
    try:
        before = storage.update(name, b"created", None)
        try:
            storage.update(name, b"replaced", before)
            refusals = [is_refused(storage, name, version) for version in (None, before)]
            listed = [file.name for file in storage.list_files(PROBE)]
        finally:
            storage.remove(name)
    except FileNotFoundError:
        fix = "create the bucket or container, or correct store"
        return Finding("store", FAILED, f"{config.store}: there is no such bucket or container", fix)
    except FileExistsError:
        refusals, listed = [False], [name]
    except StorageError as error:
        return Finding("store", FAILED, str(error), ACCESS_FIX if "access was refused" in str(error) else NETWORK_FIX)
    if not all(refusals):
        text = f"{config.store} does not check the conditions of puts: two writers could overwrite each other's commits"
        fix = "use S3, Azure, Google Cloud Storage or a server with conditional puts (If-Match, If-None-Match)"
        return Finding("store", FAILED, text, fix)
    if name not in listed:
        return Finding("store", FAILED, f"{config.store}: an object that was written is not listed", ACCESS_FIX)
    return Finding("store", OK, f"{config.store} can be reached, and objects can be written on conditions")


def is_refused(storage: "ObjectStorage", name: str, version: dict[str, str] | None) -> bool:
    """Return True if a put is refused: a second creation, or a replacement of a former version."""
    try:
        storage.update(name, b"refused", version)
    except FileExistsError:
        return True
    return False


def check_source(stream: StreamConfig) -> Iterator[Finding]:
    path = stream.source.path
    if (
        stream.source.push is not None
        or path is None
        or "://" in path
        or any(sign in path for sign in GLOB_CHARACTERS)
        or os.path.exists(path)
    ):
        return
    fix = f"mkdir -p {path}, or change source.path under [{stream.key}]"
    yield Finding(stream.name, FAILED, f"its source {path} does not exist", fix)


def check_store(stream: StreamConfig) -> Finding:
    """Open the store, for reading only."""
    from quantide.history.history_reader import HistoryReader

    storage = stream.open_storage()
    try:
        if not storage.list_files("_delta_log"):
            return Finding(stream.name, OK, f"nothing was ingested yet; the store will be {stream.folder}")
        stats = HistoryReader(stream.folder, storage_options=stream.storage_options or None).stats()
        writer = storage.lease_holder()
    except QuantideError as error:
        fix = f"quantide history verify {stream.folder} lists the damaged files"
        return Finding(stream.name, FAILED, f"{stream.folder} cannot be read: {error}", fix)
    lease = f"{writer} writes it" if writer else "no process writes it now"
    size = f"{count(stats['values'], 'value')} in {count(stats['steps'], 'step')}"
    text = f"{size}, version {stats['version']:,}; {lease}"
    return Finding(stream.name, OK, text)


# Port


def check_port(config: Config | None = None) -> Iterator[Finding]:
    server = config.server if config else ServerConfig("", port=PORT)
    if not server.loopback and not server.secure:
        text = f"{server.host} can be reached from other machines, and there is no TLS: the server will not start"
        fix = 'set tls_cert and tls_key under [server], or behind_proxy = true, or host = "127.0.0.1"'
        yield Finding("port", FAILED, text, fix)
    address = f"{server.host}:{server.port}"
    if server.port == 0:
        yield Finding("port", OK, "port = 0: any free port")
        return
    try:
        try_bind(server.host, server.port)
    except OSError as error:
        yield explain_bind_error(server, address, error, FAILED if config else WARNING)
    else:
        yield Finding("port", OK, f"{address} is free")


def try_bind(host: str, port: int) -> None:
    """Bind the port for a moment, as a server would, without listening."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, socket.SOCK_STREAM) as test_socket:
        test_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        test_socket.bind(address)


def explain_bind_error(server: ServerConfig, address: str, error: OSError, state: str) -> Finding:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        fix = 'set host under [server] to an address of this machine, such as "127.0.0.1"'
        return Finding("port", state, f"{server.host} is no address of this machine", fix)
    if error.errno == errno.EACCES:
        fix = f"set port under [server] to one above 1023, such as {PORT}"
        return Finding("port", state, f"this user may not listen on {address}", fix)
    if error.errno == errno.EADDRINUSE and is_quantide(server):
        return Finding("port", OK, f"a Quantide answers at {address}")
    fix = f"end the program that uses it (`ss -ltnp 'sport = :{server.port}'` shows it), or set port under [server]"
    return Finding("port", state, f"{address} cannot be used: {error.strerror}, by a program other than Quantide", fix)


# TLS


def check_tls(config: Config | None = None) -> Iterator[Finding]:
    if config is None or config.server.tls_cert is None or config.server.tls_key is None:
        return
    cert, key = config.server.tls_cert, config.server.tls_key
    for name, path in (("tls_cert", cert), ("tls_key", key)):
        if not os.access(path, os.R_OK):
            fix = f"let this user (id {os.geteuid()}) read it, or set {name} under [server]"
            yield Finding("tls", FAILED, f"{path} cannot be read, or does not exist", fix)
            return
    try:
        days = days_until_expiry(cert, key, time.time())
    except (ssl.SSLError, ValueError) as error:
        text = f"{cert} and {key} cannot be used together: {error}"
        yield Finding(
            "tls", FAILED, text, "give a certificate in PEM form, its chain below it, and its key, without a password"
        )
        return
    if days < EXPIRES_SOON_DAYS:
        state, text = (FAILED, "has expired") if days < 0 else (WARNING, f"expires in {days:.0f} days")
        yield Finding("tls", state, f"{cert} {text}", "renew it, then restart the server")
    else:
        yield Finding("tls", OK, f"{cert} is valid for {days:,.0f} days")
    yield from check_private("tls", key)


def days_until_expiry(cert: str, key: str, now: float) -> float:
    """Return the days until a certificate expires; raise SSLError if it cannot be used with its key.

    Tries them as a server would, in a handshake in memory.
    """
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(cert, key, password=_reject_password)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.load_verify_locations(cert)  # the signer does not matter here
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        certificate = _handshake(server_context, client_context)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == CERTIFICATE_EXPIRED:
            return -1.0
        raise
    return (ssl.cert_time_to_seconds(str(certificate["notAfter"])) - now) / 86_400


def _handshake(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> dict[str, object]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        certificate = client.getpeercert() if client.version() and client.cipher() else None
        if certificate:
            return dict(certificate)
    raise ssl.SSLError("the handshake does not end")


def _reject_password() -> str:
    raise ValueError("the key has a password, which a server cannot type")


# Files of the server


def check_registry(config: Config | None = None) -> Iterator[Finding]:
    """Check the server's registry: tokens (as hashes), queries, alarms."""
    if config is None:
        return
    path = os.path.join(config.server.state, "registry.db")
    if not os.path.exists(path):
        yield Finding("registry", OK, f"{path} will be created when a server first starts")
    elif not os.access(path, os.R_OK | os.W_OK):
        fix = f"run the server as its owner, or give it to this user (id {os.geteuid()})"
        yield Finding("registry", FAILED, f"{path} cannot be read and written", fix)
    else:
        yield from check_private("registry", path)
        yield from check_access(config, path)


def check_access(config: Config, path: str) -> Iterator[Finding]:
    """Check that a valid token exists if requests need one. Only reads the registry."""
    from quantide.server.server_registry import read_access  # needs the extra `server`

    try:
        closed, valid = read_access(path)
    except QuantideError as error:
        yield Finding("registry", FAILED, str(error), f"restore {path} from a copy, or move it away")
        return
    if closed and not valid:
        text = "requests need a token, and none is valid: the server refuses every request"
        fix = (
            f"quantide token create {config.path} --role reader; or, without tokens: quantide token open {config.path}"
        )
        yield Finding("registry", WARNING, text, fix)
    elif closed:
        yield Finding("registry", OK, f"requests need a token; {valid:,} valid")
    else:
        yield Finding("registry", OK, "there is no token: everyone on this machine may read and change everything")


def check_secret(config: Config | None = None) -> Iterator[Finding]:
    """Check the file of the secret that signs webhooks."""
    path = config.server.webhooks.secret_file if config else None
    if path is None:
        return
    if not os.access(path, os.R_OK):
        fix = f"(umask 077; openssl rand -hex 32 > {path})"
        yield Finding("webhooks", FAILED, f"the secret {path} cannot be read, or does not exist", fix)
    else:
        yield from check_private("webhooks", path)


def check_private(check: str, path: str) -> Iterator[Finding]:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        yield Finding(check, WARNING, f"others may read {path} (mode {mode:o})", f"chmod 600 {path}")
    else:
        yield Finding(check, OK, f"{path}: only its owner can read it")
