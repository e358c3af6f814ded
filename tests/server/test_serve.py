"""Server process: binding, connections, start and shutdown."""

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from quantide.config import Config, read_config, server_probe
from quantide.errors import ConfigError
from quantide.server.app import make_app
from quantide.server.http import request_limits
from quantide.server.http.binding import check_binding, open_socket, server_urls, tls_context
from quantide.server.http.response_json import PROBLEM_STATUS
from quantide.server.http.tokens import create_token
from quantide.server.serve import Server, serve
from quantide.server.server_registry import ServerRegistry
from tests.server.running_server import configure, run_server

TLS = 'tls_cert = "server.crt"\ntls_key = "server.key"'


def write_certificate(folder: Path, name: str = "server", password: bytes | None = None) -> None:
    """Write a self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ServerRegistry]:
    result = ServerRegistry(str(tmp_path / "data" / "_server"))
    yield result
    result.close()


@contextmanager
def running(config: Config, app: FastAPI | None = None) -> Iterator[tuple[str, int]]:
    """Run serve() in a thread; yield its URL, and check that it ends."""
    begun = threading.Event()
    server = Server(app or make_app(config), config, None, begun.set)
    with open_socket(config.server) as listening:
        where = listening.getsockname()[:2]
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        assert begun.wait(20)
        try:
            yield where
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


# Binding


@pytest.mark.parametrize(
    ("server", "tokens", "complaint"),
    [
        ("", False, None),
        ("", True, None),
        ('host = "127.0.0.2"', False, None),
        ('host = "::1"', False, None),
        ('host = "localhost"', False, None),
        (TLS, False, None),
        ('host = "0.0.0.0"', False, "no tokens"),
        ('host = "::"', False, "no tokens"),
        ('host = "192.0.2.1"', False, "quantide token create"),
        ('host = "q.example.com"', False, "no tokens"),
        ('host = "localhost.example.com"', False, "no tokens"),
        ('host = "0.0.0.0"\n' + TLS, False, "no tokens"),
        ('host = "0.0.0.0"\nbehind_proxy = true', False, "no tokens"),
        ("behind_proxy = true", False, "a proxy lets others in"),
        ('host = "0.0.0.0"', True, "--behind-proxy"),
        ('host = "192.0.2.1"', True, "tls_cert and tls_key"),
        ('host = "0.0.0.0"\n' + TLS, True, None),
        ('host = "0.0.0.0"\nbehind_proxy = true', True, None),
        ("behind_proxy = true", True, None),
    ],
)
def test_requirements_of_a_binding(
    tmp_path: Path, registry: ServerRegistry, server: str, tokens: bool, complaint: str | None
) -> None:
    write_certificate(tmp_path)
    config = configure(tmp_path, server)
    if tokens:
        create_token(registry, "one", "reader")
    if complaint is None:
        check_binding(config, registry)
    else:
        with pytest.raises(ConfigError, match=complaint):
            check_binding(config, registry)


def test_a_server_without_its_requirements_does_not_start(tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(ConfigError, match="tls_cert"):
        serve(configure(tmp_path, TLS), out)
    with pytest.raises(ConfigError, match="no tokens"):
        serve(configure(tmp_path, 'host = "0.0.0.0"'), out)
    with pytest.raises(ConfigError, match="no tokens"):
        serve(configure(tmp_path), out, behind_proxy=True)
    assert out.getvalue() == ""


def test_certificates_and_keys_that_cannot_be_used(tmp_path: Path, registry: ServerRegistry) -> None:
    config = configure(tmp_path, TLS)
    server = config.server
    with pytest.raises(ConfigError, match=r"tls_cert: .* cannot be read"):
        check_binding(config, registry)
    write_certificate(tmp_path)
    assert tls_context(server) is not None
    good = (tmp_path / "server.key").read_bytes()
    write_certificate(tmp_path, "other")
    for bad in ((tmp_path / "other.key").read_bytes(), b"", b"rubbish", good[:100]):
        (tmp_path / "server.key").write_bytes(bad)
        with pytest.raises(ConfigError, match="cannot be used"):
            tls_context(server)
    write_certificate(tmp_path, password=b"sesame")
    with pytest.raises(ConfigError, match="without a password"):
        tls_context(server)
    (tmp_path / "server.key").unlink()
    with pytest.raises(ConfigError, match=r"tls_key: .* cannot be read"):
        tls_context(server)


def test_a_port_of_another_quantide(tmp_path: Path) -> None:
    with run_server(configure(tmp_path)) as client:
        server = replace(configure(tmp_path).server, port=client.base_url.port or 0)
        with pytest.raises(ConfigError, match=r"a Quantide server already answers there; use it, end it"):
            open_socket(server)


def test_invalid_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_probe, "REQUEST_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = replace(configure(tmp_path).server, port=port)
        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}: another program uses this port"):
            open_socket(server)
    with pytest.raises(ConfigError, match="no such address"):
        open_socket(configure(tmp_path, 'host = "192.0.2.1"').server)


def test_addresses_that_are_shown(tmp_path: Path) -> None:
    def shown(server: str) -> list[str]:
        return server_urls(configure(tmp_path, server).server, 8642)

    assert shown("") == ["http://127.0.0.1:8642"]
    assert shown('host = "::1"') == ["http://[::1]:8642"]
    assert shown('host = "0.0.0.0"\nhosts = ["q.example.com", "r.example:99"]\n' + TLS) == [
        "https://q.example.com:8642",
        "https://r.example:99",
    ]
    assert shown('hosts = ["q.example.com"]\nbehind_proxy = true') == ["http://127.0.0.1:8642", "https://q.example.com"]
    assert shown('host = "0.0.0.0"\n' + TLS) == ["https://0.0.0.0:8642"]


def test_the_documented_configuration_works(tmp_path: Path, registry: ServerRegistry) -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    (tmp_path / "quantide.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    write_certificate(tmp_path)
    create_token(registry, "one", "reader")
    check_binding(read_config(tmp_path / "quantide.toml"), registry)
    codes = set(PROBLEM_STATUS) - {"method_not_allowed", "internal"} | {
        "token",
        "forbidden",
        "limit",
        "invalid_argument",
    }
    settings = {"host", "port", "hosts", "tls_cert", "tls_key", "behind_proxy", "state"}
    assert [name for name in sorted(codes | settings) if f"`{name}`" not in text] == []


# Connections


def test_tls(tmp_path: Path, registry: ServerRegistry) -> None:
    write_certificate(tmp_path)
    config = configure(tmp_path, TLS)
    _, token = create_token(registry, "one", "reader")
    trust = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
    with running(config) as (host, port):
        with httpx.Client(base_url=f"https://{host}:{port}", verify=trust) as client:
            origin = {"origin": f"https://{host}:{port}"}
            response = client.post("/api/session", json={"token": token}, headers=origin)
            assert response.status_code == 200
            assert response.headers["strict-transport-security"] == "max-age=31536000"
            assert "server" not in response.headers
            result = response.headers["set-cookie"].lower()
            assert result.startswith("__host-quantide=")
            assert {"secure", "httponly", "path=/", "samesite=strict"} <= set(result.split("; "))
            assert "domain" not in result
            assert client.get("/api/session").json()["name"] == "one"
            assert client.delete("/api/session", headers={"origin": f"http://{host}:{port}"}).status_code == 403
            assert client.delete("/api/session", headers=origin).status_code == 204
        assert handshake(host, port, ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with pytest.raises(OSError, match=r"(?i)protocol|alert|eof|reset"):
                handshake(host, port, ssl.TLSVersion.TLSv1_1)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{host}:{port}/api/session")


def handshake(host: str, port: int, newest: ssl.TLSVersion) -> str | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.options &= ~ssl.OP_NO_TLSv1_1
    context.maximum_version = newest
    with socket.create_connection((host, port), timeout=5) as line, context.wrap_socket(line) as result:
        return result.version()


def test_behind_a_proxy_clients_use_https(tmp_path: Path, registry: ServerRegistry) -> None:
    config = configure(tmp_path, 'behind_proxy = true\nhosts = ["q.example.com"]')
    _, token = create_token(registry, "one", "reader")
    with running(config) as (host, port), httpx.Client(base_url=f"http://{host}:{port}") as client:
        called = {"host": "q.example.com", "x-forwarded-host": "evil.example", "x-forwarded-proto": "http"}
        good = client.post("/api/session", json={"token": token}, headers=called | {"origin": "https://q.example.com"})
        assert good.status_code == 200
        assert "secure" in good.headers["set-cookie"].lower().split("; ")
        plain = client.post("/api/session", json={"token": token}, headers=called | {"origin": "http://q.example.com"})
        assert plain.status_code == 403
        client.cookies.clear()
        near = {"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1;host=q.example.com"}
        assert client.get("/api/session", headers=near).status_code == 401


def answer_to(where: tuple[str, int], request: bytes) -> tuple[int, Any]:
    with socket.create_connection(where, timeout=10) as line:
        with suppress(ConnectionError):  # the server may close it before all is sent; the response is there then
            line.sendall(request)
        return read_answer(line)


def read_answer(line: socket.socket) -> tuple[int, Any]:
    response = http.client.HTTPResponse(line)
    response.begin()
    return response.status, json.loads(response.read())["error"]["code"]


def start_for(where: tuple[str, int]) -> bytes:
    return b"GET /api/session HTTP/1.1\r\nHost: %s:%d\r\n" % (where[0].encode(), where[1])


def test_limits_of_a_connection(tmp_path: Path) -> None:
    with running(configure(tmp_path, "[server.limits]\nconnections = 3")) as where:
        start = start_for(where)
        assert answer_to(where, b"rubbish\r\n\r\n") == (400, "invalid_argument")
        assert answer_to(where, start + b"X: " + b"x" * 400_000) == (431, "too_large")
        assert answer_to(where, start + b"X: y\r\n" * 80_000) == (431, "too_large")
        assert answer_to(where, b"GET /" + b"x" * 400_000) == (431, "too_large")
        smuggled = start.replace(b"GET", b"POST") + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        assert answer_to(where, smuggled) == (400, "invalid_argument")
        idle = [socket.create_connection(where, timeout=10) for _ in range(3)]
        with socket.create_connection(where, timeout=10) as fourth:
            assert read_answer(fourth) == (503, "limit")
        for line in idle:
            line.close()


def test_an_idle_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "HEAD_TIMEOUT", 0.2)
    with running(configure(tmp_path)) as where:
        for beginning in (b"", start_for(where)):
            with socket.create_connection(where, timeout=10) as line:
                line.sendall(beginning)
                assert line.recv(100) == b""


def test_pipelined_requests_are_answered_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "MAX_HEAD", 500)
    with running(configure(tmp_path)) as where:
        head = b"PUT /api/session HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\n" % (
            where[0].encode(), where[1],
        )  # fmt: skip
        whole = head + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000
        with socket.create_connection(where, timeout=10) as line:
            line.sendall(whole + whole[:20])  # the beginning of a head behind a long body is no long head
            assert read_answer(line) == (405, "method_not_allowed")
            line.sendall(whole[20:])
            assert read_answer(line) == (405, "method_not_allowed")


def test_headers_behind_a_body_are_not_seen(tmp_path: Path) -> None:
    config = configure(tmp_path)
    app = make_app(config)

    @app.post("/echo")
    async def echo(request: Request) -> list[str]:
        return [name for name in request.headers if name.startswith("x-")]

    with running(config, app) as where, socket.create_connection(where, timeout=10) as line:
        results = ["X-Early: 1", "Content-Type: application/json", "Transfer-Encoding: chunked"]
        head = "\r\n".join(["POST /echo HTTP/1.1", f"Host: {where[0]}:{where[1]}", *results, "", ""])
        line.sendall(head.encode() + b"2\r\n{}\r\n0\r\nX-Late: 1\r\n\r\n")
        response = http.client.HTTPResponse(line)
        response.begin()
        assert json.loads(response.read()) == ["x-early"]


def test_there_are_no_websockets(tmp_path: Path) -> None:
    with running(configure(tmp_path)) as where:
        head = b"GET /none HTTP/1.1\r\nHost: %s:%d\r\n" % (where[0].encode(), where[1])
        upgrade = b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        assert answer_to(where, head + upgrade + key) == (404, "not_found")


def test_another_family_of_addresses(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with running(configure(tmp_path, 'host = "::1"')) as (host, port):
        assert httpx.get(f"http://[{host}]:{port}/api/session").status_code == 200
        assert httpx.get(f"http://[{host}]:{port}/api/session", headers={"host": f"{host}:{port}"}).status_code == 421


def test_a_connection_is_reused(tmp_path: Path) -> None:
    with running(configure(tmp_path)) as (host, port):
        line = http.client.HTTPConnection(host, port, timeout=10)
        for _ in range(3):
            line.request("GET", "/api/session")
            assert line.getresponse().read()
        line.close()


# Start and shutdown


def test_a_server_ends_with_its_parent(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    out = io.StringIO()
    serve(configure(tmp_path), out, parent=os.getppid() + 1, json=True)
    assert json.loads(out.getvalue())["url"].startswith("http://127.0.0.1:")
    assert sys.getswitchinterval() == pytest.approx(0.001)
    sys.setswitchinterval(before)


def test_event_streams_end_at_shutdown(tmp_path: Path) -> None:
    config = configure(tmp_path)
    app = make_app(config)
    hub = app.state.service.hub = Hub()

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(hub.events())

    with running(config, app) as (host, port):
        line = http.client.HTTPConnection(host, port, timeout=20)
        line.request("GET", "/stream")
        result = line.getresponse()
        assert result.read(5) == b"begun"
    assert result.read() == b"ended"
    line.close()


class Hub:
    """Endless events, until it is closed."""

    def __init__(self) -> None:
        self._end = asyncio.Event()

    async def events(self) -> AsyncIterator[bytes]:
        yield b"begun"
        await self._end.wait()
        yield b"ended"

    def close(self) -> None:
        self._end.set()


PROGRAM = """
import sys
from quantide.config import read_config
from quantide.server.serve import serve
serve(read_config(sys.argv[1]), sys.stdout)
print("ended")
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_no_secret_was_logged(
    tmp_path: Path, registry: ServerRegistry, sign: signal.Signals
) -> None:
    configure(tmp_path, "[server.limits]\nconnections = 50")
    _, token = create_token(registry, "one", "reader")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "quantide.toml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url) as client:  # its connection is still open when the signal arrives
                assert client.get("/api/session", headers={"authorization": f"Bearer {token}"}).status_code == 200
                assert client.get(f"/api/session?token={token}").status_code == 400
                assert client.get("/api/streams/latency/quantiles", params={"phi": token}).status_code == 401
                process.send_signal(sign)
                out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "ended\n")
    assert err == ""
