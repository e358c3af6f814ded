"""The door of the server: its port, its certificate, the files that only its owner may read."""

import errno
import http.client
import json
import os
import socket
import ssl
import stat
import time
from collections.abc import Iterator

from quantide.config import Config, ServerConfig
from quantide.config.server import PORT
from quantide.doctor.certificate import days_left
from quantide.doctor.finding import FAILED, OK, WARNING, Finding
from quantide.errors import QuantideError

SECONDS = 3.0
FEW_DAYS = 14
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def check_port(config: Config | None = None) -> Iterator[Finding]:
    server = config.server if config else ServerConfig("", port=PORT)
    if not server.loopback and not server.secure:
        told = f"{server.host} can be reached from elsewhere, and there is no TLS: the server will refuse to start"
        fix = 'set tls_cert and tls_key under [server], or behind_proxy = true, or host = "127.0.0.1"'
        yield Finding("port", FAILED, told, fix)
    place = f"{server.host}:{server.port}"
    if server.port == 0:
        yield Finding("port", OK, "port = 0: any that is free")
        return
    try:
        bind(server.host, server.port)
    except OSError as error:
        yield taken(server, place, error, FAILED if config else WARNING)
    else:
        yield Finding("port", OK, f"{place} is free")


def bind(host: str, port: int) -> None:
    """Take the port for a moment, as a server would, without listening."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, socket.SOCK_STREAM) as taking:
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taking.bind(address)


def taken(server: ServerConfig, place: str, error: OSError, state: str) -> Finding:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        fix = 'set host under [server] to an address of this machine, such as "127.0.0.1"'
        return Finding("port", state, f"{server.host} is no address of this machine", fix)
    if error.errno == errno.EACCES:
        fix = f"set port under [server] to one above 1023, such as {PORT}"
        return Finding("port", state, f"this user may not listen at {place}", fix)
    if error.errno == errno.EADDRINUSE and quantide_answers(server):
        return Finding("port", OK, f"a Quantide answers at {place}")
    fix = f"end the program that has it (`ss -ltnp 'sport = :{server.port}'` shows which), or set port under [server]"
    return Finding("port", state, f"{place} cannot be had: {error.strerror}; what is there is no Quantide", fix)


def quantide_answers(server: ServerConfig) -> bool:
    """Whether a GET of /healthz gets the answer of a Quantide."""
    host = ANYWHERE.get(server.host, server.host)
    call: http.client.HTTPConnection
    if server.tls_cert is None:
        call = http.client.HTTPConnection(host, server.port, timeout=SECONDS)
    else:
        unchecked = ssl._create_unverified_context()
        call = http.client.HTTPSConnection(host, server.port, timeout=SECONDS, context=unchecked)
    try:
        call.request("GET", "/healthz")
        found = json.loads(call.getresponse().read(1000))
        return bool(found == {"status": "ok"})
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        call.close()


def check_tls(config: Config | None = None) -> Iterator[Finding]:
    if config is None or config.server.tls_cert is None or config.server.tls_key is None:
        return
    cert, key = config.server.tls_cert, config.server.tls_key
    for name, path in (("tls_cert", cert), ("tls_key", key)):
        if not os.access(path, os.R_OK):
            fix = f"let this user (id {os.geteuid()}) read it, or set {name} under [server]"
            yield Finding("tls", FAILED, f"{path} cannot be read, or is not there", fix)
            return
    try:
        days = days_left(cert, key, time.time())
    except (ssl.SSLError, ValueError) as error:
        told = f"{cert} and {key} cannot be used together: {error}"
        yield Finding(
            "tls", FAILED, told, "give a certificate in PEM form, its chain below it, and its key, without a password"
        )
        return
    if days < FEW_DAYS:
        state, told = (FAILED, "has expired") if days < 0 else (WARNING, f"expires in {days:.0f} days")
        yield Finding("tls", state, f"{cert} {told}", "renew it, then start the server again")
    else:
        yield Finding("tls", OK, f"{cert} holds for {days:,.0f} days")
    yield from private("tls", key)


def check_registry(config: Config | None = None) -> Iterator[Finding]:
    """The file with what the server remembers: tokens (as hashes), queries, alarms."""
    if config is None:
        return
    path = os.path.join(config.server.state, "registry.db")
    if not os.path.exists(path):
        yield Finding("registry", OK, f"{path} will be made when a server first starts")
    elif not os.access(path, os.R_OK | os.W_OK):
        fix = f"run the server as the owner of it, or give it to this user (id {os.geteuid()})"
        yield Finding("registry", FAILED, f"{path} cannot be read and written", fix)
    else:
        yield from private("registry", path)
        yield from access(config, path)


def access(config: Config, path: str) -> Iterator[Finding]:
    """Whether requests need a token, and whether there is a valid one. The registry is only read."""
    from quantide.server.registry_file import read_access  # needs the extra `server`

    try:
        closed, valid = read_access(path)
    except QuantideError as error:
        yield Finding("registry", FAILED, str(error), f"restore {path} from a copy, or move it away")
        return
    if closed and not valid:
        told = "requests need a token, and none is valid: the server refuses every request"
        fix = (
            f"quantide token create {config.path} --role reader; or, without tokens: quantide token open {config.path}"
        )
        yield Finding("registry", WARNING, told, fix)
    elif closed:
        yield Finding("registry", OK, f"requests need a token; {valid:,} valid")
    else:
        yield Finding("registry", OK, "no token was made: everyone on this machine may ask and change everything")


def check_secret(config: Config | None = None) -> Iterator[Finding]:
    """The file of the secret that signs webhooks."""
    path = config.server.webhooks.secret_file if config else None
    if path is None:
        return
    if not os.access(path, os.R_OK):
        fix = f"(umask 077; openssl rand -hex 32 > {path})"
        yield Finding("webhooks", FAILED, f"{path}, the secret, cannot be read, or is not there", fix)
    else:
        yield from private("webhooks", path)


def private(check: str, path: str) -> Iterator[Finding]:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        yield Finding(check, WARNING, f"others may read {path} (mode {mode:o})", f"chmod 600 {path}")
    else:
        yield Finding(check, OK, f"{path}: only its owner reads it")
