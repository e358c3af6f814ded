"""Security middleware, by real requests: accepted ones, and each reason for a rejection."""

import asyncio
import http.client
import json
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from quantide.config import Config
from quantide.config.server_config import ServerConfig
from quantide.server.app import ROUTES, make_app
from quantide.server.http import request_limits, security
from quantide.server.http.binding import allowed_hosts
from quantide.server.http.security import SecurityMiddleware
from quantide.server.http.tokens import (
    ANY_ROLE,
    INCLUDED,
    MAX_SESSIONS,
    PUBLIC,
    ROLES,
    SESSION_SECONDS,
    create_token,
    identify_session,
    identify_token,
    open_session,
    required_role,
    revoke_token,
)
from quantide.server.server_registry import ServerRegistry
from tests.server.running_server import configure, make_store, run_server, traffic

JSON = {"content-type": "application/json"}
Guarded = tuple[httpx.Client, ServerRegistry, dict[str, str]]
LIMITS = "[server.limits]\nbody = 100_000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    with make_store(folder) as history:
        traffic(history, np.random.default_rng(3), 100, 0.0)
    return folder


def config_in(folder: Path, state: str, server: str = "") -> Config:
    return configure(folder, f'state = "{state}"\n{server}')


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    """A client of a server without tokens, on loopback."""
    with run_server(config_in(folder, "open", LIMITS)) as result:
        yield result


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Guarded]:
    """A client of a server with a token of each role, and its registry as another process opens it."""
    config = config_in(folder, "guarded", LIMITS)
    registry = ServerRegistry(config.server.state)
    tokens = {role: create_token(registry, f"the {role}", role)[1] for role in ROLES}
    with run_server(config) as result:
        yield result, registry, tokens
    registry.close()


def all_routes(folder: Path) -> set[tuple[str, str]]:
    """Return methods and paths of all routes, in OpenAPI or not."""
    app = make_app(config_in(folder, "walk"))
    routers = [app, *(room.routes(app.state.service) for room in ROUTES)]
    routes = [route for router in routers for route in router.routes if getattr(route, "path", "")]
    app.state.service.close()
    return {(method, route.path) for route in routes for method in getattr(route, "methods", None) or ("GET",)}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def own(client: httpx.Client) -> str:
    """Return the origin of a server."""
    return str(client.base_url).rstrip("/")


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def raw(client: httpx.Client, *lines: str, host: bool = True, body: bytes = b"") -> tuple[int, str]:
    """Send a request that no well-behaved client would send; return the status and the code of the error."""
    where = client.base_url.host, client.base_url.port or 0
    head = [lines[0], *([f"Host: {where[0]}:{where[1]}"] if host else []), *lines[1:], "", ""]
    with socket.create_connection(where, timeout=10) as line:
        line.sendall("\r\n".join(head).encode("latin-1") + body)
        response = http.client.HTTPResponse(line)
        response.begin()
        text = response.read()
    return response.status, json.loads(text)["error"]["code"] if response.status >= 400 and text[:1] == b"{" else ""


# Hosts


def test_names_of_this_machine_are_good(client: httpx.Client) -> None:
    port = client.base_url.port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LocalHost:{port}", f"[::1]:{port}"):
        assert client.get("/api/session", headers={"host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "localhost.:{port}",
        "localhost:{port}.evil.example",
        "localhost.evil.example:{port}",
        "evil.example@localhost:{port}",
        "localhost:{port}@evil.example",
        "0.0.0.0:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "127.0.0.1:0{port}",
        "127.0.0.1:{port}, evil.example",
        "[::ffff:127.0.0.1]:{port}",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/api/session", "/healthz"])
def test_a_name_that_was_made_to_point_here_is_refused(client: httpx.Client, host: str, path: str) -> None:
    host = host.format(port=client.base_url.port)
    assert code(client.get(path, headers={"host": host})) == (421, "wrong_host")


def test_host_is_there_once(client: httpx.Client) -> None:
    assert raw(client, "GET /api/session HTTP/1.1", host=False)[0] in (400, 421)
    assert raw(client, "GET /api/session HTTP/1.0", host=False) == (421, "wrong_host")
    good = f"Host: 127.0.0.1:{client.base_url.port}"
    assert raw(client, "GET /api/session HTTP/1.1", good)[0] == 400
    assert raw(client, "GET /api/session HTTP/1.1", "Host: evil.example")[0] == 400


def test_the_host_in_the_request_line_does_not_replace_the_header(client: httpx.Client) -> None:
    good = f"http://127.0.0.1:{client.base_url.port}/api/session"
    assert raw(client, f"GET {good} HTTP/1.1", "Host: evil.example", host=False) == (421, "wrong_host")


def test_configured_names_are_good(folder: Path) -> None:
    config = config_in(folder, "named", 'hosts = ["q.example.com", "Other.example:99", "[fd00::1]"]')
    with run_server(config) as client:
        port = client.base_url.port
        good = ["q.example.com", f"q.example.com:{port}", "other.example:99", "[fd00::1]", f"[fd00::1]:{port}"]
        bad = ["example.com", "a.q.example.com", "q.example.com:1", "other.example", f"other.example:{port}"]
        for host in good:
            assert client.get("/api/session", headers={"host": host}).status_code == 200, host
            headers = {"host": host, "origin": f"http://{host}"}
            assert client.get("/api/session", headers=headers).status_code == 200, host
        for host in bad:
            assert code(client.get("/api/session", headers={"host": host})) == (421, "wrong_host"), host


def test_all_addresses_together_are_no_name(folder: Path) -> None:
    config = config_in(folder, "wide", 'host = "0.0.0.0"').server
    assert allowed_hosts(config, ("192.0.2.7", 99)).hosts == {b"192.0.2.7:99"}
    assert b"localhost:99" in allowed_hosts(config, ("127.0.0.1", 99)).hosts
    assert b"0.0.0.0:99" not in allowed_hosts(config, ("127.0.0.1", 99)).hosts
    assert allowed_hosts(config, None).hosts == set()
    assert b"http://127.0.0.1" in allowed_hosts(config, ("127.0.0.1", 80)).origins


# Origins


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example",
        "http://evil.example:{port}",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://127.0.0.1:{port}0",
        "http://127.0.0.1:{port}.evil.example",
        "http://evil.example/http://127.0.0.1:{port}",
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}@evil.example",
        "http://evil127.0.0.1:{port}",
        "HTTP://127.0.0.1:{port}",
        "file://",
        "chrome-extension://abc",
        "http://127.0.0.1:{port}, http://evil.example",
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(client: httpx.Client, origin: str, method: str) -> None:
    origin = origin.format(port=client.base_url.port)
    response = client.request(method, "/api/session", headers={"origin": origin} | JSON)
    assert code(response) == (403, "wrong_origin")
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_own_pages_may_send_requests(client: httpx.Client) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        headers = {"origin": f"http://{host}:{client.base_url.port}", "sec-fetch-site": "same-origin"}
        assert client.get("/api/session", headers=headers).status_code == 200


def test_two_origins_are_refused(client: httpx.Client) -> None:
    lines = [f"Origin: {own(client)}", "Origin: http://evil.example"]
    assert raw(client, "GET /api/session HTTP/1.1", *lines) == (400, "invalid_argument")
    assert raw(client, "GET /api/session HTTP/1.1", *reversed(lines)) == (400, "invalid_argument")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "unheard-of"])
def test_other_sites_can_link_to_pages_only(client: httpx.Client, site: str) -> None:
    visit = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/openapi.json", headers=visit).status_code == 200
    for change in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-mode": "cors"}, {"sec-fetch-dest": "iframe"}):
        assert code(client.get("/openapi.json", headers=visit | change)) == (403, "wrong_origin")
    assert code(client.get("/api/session", headers=visit)) == (403, "wrong_origin")
    assert code(client.post("/openapi.json", headers=visit | JSON)) == (403, "wrong_origin")


# Bodies


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-7",
        "application/json, text/plain",
        "application/jsonp",
        "text/json",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
def test_only_json_is_read(client: httpx.Client, kind: str | None, method: str) -> None:
    headers = {} if kind is None else {"content-type": kind}
    assert code(client.request(method, "/api/session", content=b'{"token":"a"}', headers=headers)) == (415, "not_json")


def test_a_post_without_a_body_needs_its_kind_too(client: httpx.Client) -> None:
    assert code(client.post("/api/session")) == (415, "not_json")
    assert code(client.post("/api/session", content=b"{}", headers=JSON | {"content-encoding": "gzip"}))[0] == 415


def test_json_has_a_few_spellings(client: httpx.Client) -> None:
    for kind in ("application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"'):
        response = client.post("/api/session", content=b'{"token": "a"}', headers={"content-type": kind})
        assert code(response) == (401, "token")


def test_a_long_body_is_rejected_before_it_is_read(client: httpx.Client) -> None:
    lines = ["PUT /api/session HTTP/1.1", "Content-Type: application/json"]
    assert raw(client, *lines, "Content-Length: 100001") == (413, "too_large")
    assert raw(client, *lines, "Content-Length: 99999999999999999999999999") in (
        (413, "too_large"),
        (400, "invalid_argument"),
        (400, ""),
    )
    assert raw(client, "POST /api/session HTTP/1.1", lines[1], "Content-Length: 10001") == (413, "too_large")
    assert raw(client, "GET /api/session HTTP/1.1", lines[1], "Content-Length: 10001") == (413, "too_large")


def test_a_long_body_in_chunks_is_counted(client: httpx.Client) -> None:
    for length, expected in [(90_000, (405, "method_not_allowed")), (110_000, (413, "too_large"))]:
        chunks = (b"x" * 10_000 for _ in range(length // 10_000))
        assert code(client.put("/api/session", content=chunks, headers=JSON)) == expected


def test_a_client_that_sends_on_still_reads_why(client: httpx.Client) -> None:
    assert code(client.put("/api/session", content=b"x" * 5_000_000, headers=JSON)) == (413, "too_large")


def test_a_connection_ends_with_an_unread_body(client: httpx.Client) -> None:
    where = client.base_url.host, client.base_url.port or 0
    head = f"POST /api/session HTTP/1.1\r\nHost: {where[0]}:{where[1]}\r\nContent-Length: 2\r\n\r\n{{}}"
    with socket.create_connection(where, timeout=10) as line:
        line.sendall(head.encode())
        response = http.client.HTTPResponse(line)
        response.begin()
        assert (response.status, response.getheader("connection")) == (415, "close")
        response.read()
        assert line.recv(1) == b""


def test_a_body_that_dribbles_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits.BodyReader.__init__, "__defaults__", (8, 0.2))
    with run_server(config_in(folder, "slow")) as client:
        lines = ["POST /api/session HTTP/1.1", "Content-Type: application/json", "Content-Length: 100"]
        assert raw(client, *lines, body=b'{"tok') == (408, "timeout")
        assert raw(client, *lines[:2], "Transfer-Encoding: chunked", body=b"2\r\n{}\r\n") == (408, "timeout")


def test_bodies_that_two_readers_would_read_differently_are_refused(client: httpx.Client) -> None:
    lines = ["POST /api/session HTTP/1.1", "Content-Type: application/json"]
    for doubt in (
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Content-Length: -1"],
        ["Content-Length: +2"],
        ["Transfer-Encoding: chunked, identity"],
        ["Content-Type: text/plain", "Content-Length: 2"],
    ):
        assert raw(client, *lines, *doubt, body=b"{}")[0] == 400, doubt


def test_long_bodies_wait_for_each_other(folder: Path) -> None:
    reader = request_limits.BodyReader(100, concurrent=1)

    async def both() -> list[Any]:
        async def slowly() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b"x" * 40, "more_body": True}

        reads = [reader.read(False, {}, slowly) for _ in range(3)]
        return await asyncio.gather(*reads, return_exceptions=True)

    assert "LimitError" in {type(result).__name__ for result in asyncio.run(both())}
    assert reader._buffered == 0


# Paths and query strings


@pytest.mark.parametrize(
    "path",
    [
        "//api/tokens",
        "/api//tokens",
        "/api/./tokens",
        "/api/x/../tokens",
        "/api/%2e%2e/api/tokens",
        "/API/tokens",
        "/api/tokens/",
        "/api/tokens%00",
        "/api/tokens%0a",
        "/api/tokens%0d%0a",
        "/api/session%0a",
        "/healthz%0a",
        "/healthz/../api/tokens",
        "/api/tokens;x",
        "/%2e%2e/%2e%2e/etc/passwd",
    ],
)
def test_other_spellings_of_an_address_lead_nowhere(guarded: Guarded, path: str) -> None:
    client, _, tokens = guarded
    token = f"Authorization: Bearer {tokens['reader']}"
    assert raw(client, f"GET {path} HTTP/1.1")[0] in (401, 404)
    assert raw(client, f"GET {path} HTTP/1.1", token)[0] in (403, 404)


def test_an_encoded_slash_is_the_same_route_with_the_same_role(
    guarded: Guarded,
) -> None:
    client, _, tokens = guarded
    for role, status in (("reader", 403), ("writer", 403), ("admin", 200)):
        assert raw(client, "GET /api%2Ftokens HTTP/1.1", f"Authorization: Bearer {tokens[role]}")[0] == status


@pytest.mark.parametrize("name", ["token", "access_token", "Token", "auth_token", "%74oken", "a=1&token"])
def test_a_token_in_an_address_is_refused(guarded: Guarded, name: str, caplog: pytest.LogCaptureFixture) -> None:
    client, _, tokens = guarded
    caplog.set_level(logging.DEBUG, "quantide")
    response = client.get(f"/api/session?{name}={tokens['admin']}", headers=bearer(tokens["admin"]))
    assert code(response) == (400, "invalid_argument")
    assert client.get(f"/api/session?{name}={tokens['admin']}").status_code == 400
    assert tokens["admin"] not in response.text


# Tokens and roles


def test_every_route_requires_its_role(guarded: Guarded, folder: Path) -> None:
    """No route accepts a request without a token, or with a lesser role."""
    client, registry, tokens = guarded
    spare = create_token(registry, "spare", "reader")[0]

    def request(method: str, path: str, headers: dict[str, str]) -> int:
        address = path.replace("{id}", spare).replace("{stream}", "nowhere")
        with client.stream(method, address, headers=headers) as response:  # some responses have no end
            assert ("www-authenticate" in response.headers) == (response.status_code == 401)
            return response.status_code

    routes = all_routes(folder)
    assert {("DELETE", "/api/tokens/{id}"), ("GET", "/api/streams/{stream}/rank"), ("GET", "/openapi.json")} <= routes
    page = {(method, "/page/{name}") for method in ("GET", "HEAD")}
    assert page <= routes
    for method, path in routes - PUBLIC - page:
        needed = required_role(method, path)
        assert needed is not None
        for headers in ({}, bearer("qt_0_unknown"), bearer(spare), {"cookie": "quantide=x"}):
            assert request(method, path, headers) == 401, (method, path)
        for role in ROLES:
            status = request(method, path, bearer(tokens[role]) | JSON)
            assert status != 401
            allowed = needed == ANY_ROLE or needed in INCLUDED[role]
            assert (status == 403) == (not allowed), (method, path, role)


def test_default_roles_are_safe() -> None:
    assert {
        required_role(method, "/api/anything") for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X")
    } == {"writer"}
    assert {required_role(method, "/anything") for method in ("GET", "HEAD")} == {"reader"}
    for path in ("/api/tokens", "/api/tokens/a", "/api/tokens\n", "/api/tokensx"):
        assert required_role("GET", path) == "admin"
    assert required_role("POST", "/healthz") == "writer"
    assert required_role("POST", "/api/session/") == "writer"


def test_wrong_ways_to_show_a_token(guarded: Guarded) -> None:
    client, _, tokens = guarded
    token = tokens["admin"]
    for text in (
        token,
        f"Basic {token}",
        f"Bearer{token}",
        "Bearer",
        f"Bearer {token}x",
        f"Token {token}",
        "",
    ):
        response = client.get("/api/session", headers={"authorization": text})
        assert code(response) == (401, "token"), text
        assert token not in response.text
    assert client.get("/api/session", headers={"authorization": f"bearer {token}"}).json()["role"] == "admin"
    lines = [f"Authorization: Bearer {token}", "Authorization: Bearer other"]
    assert raw(client, "GET /api/session HTTP/1.1", *lines) == (400, "invalid_argument")
    assert raw(client, "GET /api/session HTTP/1.1", "Authorization: Bearer \xff\xfe") == (401, "token")


def test_all_invalid_tokens_get_the_same_response(guarded: Guarded) -> None:
    client, registry, _ = guarded
    id, revoked = create_token(registry, "revoked", "reader")
    revoke_token(registry, id)
    id, expired = create_token(registry, "expired", "reader")
    registry.write("UPDATE tokens SET expires = 1 WHERE id = ?", (id,))
    answers = {client.get("/api/session", headers=bearer(one)).text for one in (revoked, expired, "qt_unknown")}
    assert len(answers) == 1


def test_a_token_that_is_revoked_elsewhere_ends_at_once(guarded: Guarded) -> None:
    client, registry, _ = guarded
    id, token = create_token(registry, "short", "reader")
    assert client.get("/api/session", headers=bearer(token)).status_code == 200
    revoke_token(registry, id)
    assert client.get("/api/session", headers=bearer(token)).status_code == 401


def test_the_first_token_closes_a_server_that_was_open_and_it_stays_closed(folder: Path) -> None:
    config = config_in(folder, "closing")
    registry = ServerRegistry(config.server.state)
    with run_server(config) as client:
        assert client.get("/api/session").json() == {
            "id": "local", "name": "local", "role": "admin", "streams": None,
        }  # fmt: skip
        id, token = create_token(registry, "first", "reader")
        assert client.get("/api/session").status_code == 401
        assert client.get("/api/session", headers=bearer(token)).json()["name"] == "first"
        revoke_token(registry, id)
        assert client.get("/api/session").status_code == 401
    registry.close()


@pytest.mark.parametrize("server", ["behind_proxy = true", 'host = "0.0.0.0"'])
def test_only_this_machine_alone_needs_no_token(folder: Path, server: str) -> None:
    with run_server(config_in(folder, "nobody", server)) as client:
        assert code(client.get("/api/session")) == (401, "token")


def test_admins_see_and_revoke_tokens(guarded: Guarded) -> None:
    client, registry, tokens = guarded
    id, token = create_token(registry, "bob", "reader", 4e9)
    admin = bearer(tokens["admin"])
    body = {one["id"]: one for one in client.get("/api/tokens", headers=admin).json()["tokens"]}
    assert body[id] | {"created": ""} == {
        "id": id, "name": "bob", "role": "reader", "created": "", "expires": "2096-10-02T07:06:40Z", "streams": None,
    }  # fmt: skip
    assert client.delete(f"/api/tokens/{id}", headers=admin).status_code == 204
    assert client.get("/api/session", headers=bearer(token)).status_code == 401
    assert code(client.delete(f"/api/tokens/{id}", headers=admin)) == (400, "invalid_argument")


def test_an_answer_that_lasts_ends_with_its_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(security, "ACCESS_CHECK", 0.0)
    config = config_in(folder, "lasting")
    app, registry, ended = make_app(config), ServerRegistry(config.server.state), threading.Event()

    async def events() -> AsyncIterator[bytes]:
        try:
            for _ in range(1000):
                yield b":\n\n"
                await asyncio.sleep(0.01)
            yield b"nobody ended this"
        finally:
            ended.set()

    @app.get("/lasting")
    async def lasting() -> StreamingResponse:
        return StreamingResponse(events())

    def listen(client: httpx.Client, headers: dict[str, str], until: Callable[[], object]) -> None:
        ended.clear()
        with client.stream("GET", "/lasting", headers=headers) as response:
            result = response.iter_bytes()
            next(result)
            until()
            assert set(b"".join(result)) <= set(b":\n")  # it ends
        assert ended.wait(10)

    with run_server(config, app) as client:
        made: list[tuple[str, str]] = []
        listen(client, {}, lambda: made.append(create_token(registry, "first", "reader")))
        id, token = made[0]
        cookie = {"cookie": log_in(client, token).split(";")[0]}
        listen(client, cookie, lambda: registry.write("DELETE FROM sessions"))
        listen(client, bearer(token), lambda: revoke_token(registry, id))
    registry.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


# Sessions


def log_in(client: httpx.Client, token: str) -> str:
    """Return the cookie of a new session, as a header."""
    response = client.post("/api/session", json={"token": token})
    assert response.status_code == 200
    client.cookies.clear()
    return str(response.headers["set-cookie"])


def test_a_session(guarded: Guarded) -> None:
    client, _, tokens = guarded
    result = log_in(client, tokens["reader"])
    value, *rest = result.split("; ")
    assert {part.lower() for part in rest} == {"httponly", "samesite=strict", "path=/", "max-age=43200"}
    assert tokens["reader"] not in result
    cookie = {"cookie": f"other=1; {value}"}
    assert client.get("/api/session", headers=cookie).json()["name"] == "the reader"
    assert code(client.get("/api/tokens", headers=cookie)) == (403, "forbidden")
    assert code(client.delete("/api/session", headers=cookie)) == (403, "wrong_origin")
    response = client.delete("/api/session", headers=cookie | {"origin": own(client)})
    assert response.status_code == 204
    assert "max-age=0" in response.headers["set-cookie"].lower()
    assert client.get("/api/session", headers=cookie).status_code == 401


def test_a_change_with_a_cookie_needs_the_origin(guarded: Guarded) -> None:
    client, registry, tokens = guarded
    spare = create_token(registry, "spare", "reader")[0]
    cookie = {"cookie": log_in(client, tokens["admin"]).split(";")[0]}
    for headers in ({}, {"origin": "null"}, {"origin": "http://127.0.0.1"}, {"referer": own(client)}):
        assert code(client.delete(f"/api/tokens/{spare}", headers=cookie | headers)) == (403, "wrong_origin")
    assert client.delete(f"/api/tokens/{spare}", headers=cookie | {"origin": own(client)}).status_code == 204


def test_cookies_that_do_not_hold(guarded: Guarded) -> None:
    client, _, tokens = guarded
    value = log_in(client, tokens["reader"]).split(";")[0]
    for text in (
        f"{value}x",
        f"{value}; quantide=x",
        f"__Host-{value}",
        f"quantide={tokens['reader']}",
        "quantide",
        "quantide=",
        "=;=;",
    ):
        assert code(client.get("/api/session", headers={"cookie": text})) == (401, "token"), text
    both = {"cookie": value} | bearer("qt_unknown")
    assert code(client.get("/api/session", headers=both)) == (401, "token")


def test_a_session_ends_with_its_token(guarded: Guarded) -> None:
    client, registry, _ = guarded
    id, token = create_token(registry, "short", "reader", time.time() + 100)
    result = log_in(client, token)
    (age,) = re.findall(r"(?i)max-age=(\d+)", result)
    assert 0 < int(age) <= 100
    revoke_token(registry, id)
    assert client.get("/api/session", headers={"cookie": result.split(";")[0]}).status_code == 401


def test_a_session_ends_by_itself(guarded: Guarded) -> None:
    _, registry, tokens = guarded
    now = time.time()
    who = identify_token(registry, tokens["reader"], now)
    assert who is not None
    secret, ends = open_session(registry, who, now)
    assert ends == now + SESSION_SECONDS
    assert identify_session(registry, secret, ends - 1) == who
    assert identify_session(registry, secret, ends) is None
    later = ServerWithClock(registry, ends)
    assert later.status({"cookie": f"quantide={secret}"}) == 401
    later.now = ends - 1
    assert later.status({"cookie": f"quantide={secret}"}) == 200


class ServerWithClock:
    """The middleware with a clock that the test sets, over a trivial application."""

    def __init__(self, registry: ServerRegistry, now: float) -> None:
        self.now = now
        self._middleware = SecurityMiddleware(self._answer, ServerConfig("unused"), registry, lambda: self.now)

    @staticmethod
    async def _answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def status(self, headers: dict[str, str]) -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        results = [(b"host", b"localhost:8642"), *((name.encode(), text.encode()) for name, text in headers.items())]
        scope = {"type": "http", "method": "GET", "path": "/api/x", "query_string": b"", "headers": results}
        asyncio.run(self._middleware(scope | {"server": ("127.0.0.1", 8642)}, receive, send))
        return int(sent[0]["status"])


def test_a_token_has_so_many_sessions_and_old_ones_are_swept_out(tmp_path: Path) -> None:
    registry = ServerRegistry(str(tmp_path))
    _, token = create_token(registry, "one", "reader")
    who = identify_token(registry, token, 0.0)
    assert who is not None
    secrets = [open_session(registry, who, 1.0 + number)[0] for number in range(MAX_SESSIONS + 2)]
    assert [identify_session(registry, secret, 200.0) is not None for secret in secrets] == [False] * 2 + [
        True
    ] * MAX_SESSIONS
    open_session(registry, who, 1e9)
    assert len(registry.rows("SELECT 1 FROM sessions")) == 1
    registry.close()


def test_wrong_tokens_begin_no_session(guarded: Guarded) -> None:
    client, registry, tokens = guarded
    before = len(registry.rows("SELECT 1 FROM sessions"))
    for body, expected in [
        ({"token": "qt_unknown"}, (401, "token")),
        ({"token": ""}, (401, "token")),
        ({"token": "\ud800"}, (400, "invalid_argument")),
        ({"token": "x" * 1000}, (400, "invalid_argument")),
        ({"token": 5}, (400, "invalid_argument")),
        ({"token": tokens["reader"], "role": "admin"}, (400, "invalid_argument")),
        ({}, (400, "invalid_argument")),
        ([], (400, "invalid_argument")),
    ]:
        response = client.post("/api/session", content=json.dumps(body), headers=JSON)
        assert code(response) == expected, body
        assert "set-cookie" not in response.headers
        assert tokens["reader"] not in response.text
    assert len(registry.rows("SELECT 1 FROM sessions")) == before


# Every response


def test_all_responses_have_safe_headers(client: httpx.Client) -> None:
    bad = {"host": "evil.example"}
    results = [
        client.get("/api/streams"),
        client.get("/api/streams/latency/quantiles"),
        client.get("/nothing"),
        client.head("/nothing"),
        client.options("/api/streams"),
        client.request("TRACE", "/api/streams"),
        client.get("/api/streams", headers=bad),
        client.head("/api/streams", headers=bad),
    ]
    assert [one.status_code for one in results] == [200, 400, 404, 404, 405, 405, 421, 421]
    for actual in results:
        result = actual.headers
        assert result["x-content-type-options"] == "nosniff"
        assert result["x-frame-options"] == "DENY"
        assert result["referrer-policy"] == "no-referrer"
        assert result["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert result["cross-origin-resource-policy"] == result["cross-origin-opener-policy"] == "same-origin"
        assert result["cache-control"] == "no-store"
        assert "strict-transport-security" not in result


def test_failures_are_reported_safely_and_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = config_in(folder, "failing")
    app = make_app(config)

    @app.get("/fails")
    async def fails(secret: str) -> None:
        raise RuntimeError("the reason")

    with run_server(config, app) as client:
        response = client.get("/fails", params={"secret": "sesame"})
    assert code(response) == (500, "internal")
    assert "the reason" not in response.text
    assert response.headers["x-frame-options"] == "DENY"
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == ["quantide.server"]
    assert "sesame" not in caplog.text


def test_the_policy_allows_own_files_only(folder: Path) -> None:
    config = config_in(folder, "page")
    app = make_app(config)
    add_page(app)
    with run_server(config, app) as client:
        page, own_policy = client.get("/page").headers, client.get("/own").headers
    assert page["content-security-policy"].startswith("default-src 'self'; ")
    assert "unsafe" not in page["content-security-policy"]
    assert own_policy["content-security-policy"] == "sandbox"
    assert own_policy["cache-control"] == "max-age=5"


def add_page(app: FastAPI) -> None:
    @app.get("/page")
    async def page() -> Response:
        return Response("<p>", media_type="text/html")

    @app.get("/own")
    async def own() -> Response:
        return Response("<p>", headers={"content-security-policy": "sandbox", "cache-control": "max-age=5"})


def test_no_secret_is_logged(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    client, _, tokens = guarded
    caplog.set_level(logging.DEBUG)
    cookie = log_in(client, tokens["admin"]).split(";")[0]
    client.get("/api/session", headers={"cookie": cookie})
    client.get("/api/session", headers=bearer(tokens["admin"]))
    client.get(f"/api/session?token={tokens['admin']}")
    client.post("/api/session", json={"token": tokens["admin"], "x": 1})
    client.cookies.clear()
    aside = ("httpx", "httpcore", "uvicorn.access")  # the client's; the last one is off, but pytest captures it
    result = "\n".join(one.getMessage() for one in caplog.records if not one.name.startswith(aside))
    for secret in (*tokens.values(), cookie.partition("=")[2]):
        assert secret not in result


def test_a_registry_that_fails_admits_no_request(folder: Path) -> None:
    config = config_in(folder, "broken")
    app = make_app(config)
    with run_server(config, app) as client:
        app.state.service.loop_registry.close()
        assert code(client.get("/api/session")) == (503, "storage")
