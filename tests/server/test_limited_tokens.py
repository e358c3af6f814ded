"""Tokens that are limited to streams: every route that names a stream, directly or by an id, checks it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.cli import main
from quantide.server.http.tokens import create_token, list_tokens
from quantide.server.server_registry import SCHEMA, ServerRegistry
from tests.server.running_server import STREAM, configure, make_store, run_server, traffic
from tests.server.test_access import TOKEN, older

TWO_STREAMS = STREAM + STREAM.replace("streams.latency", "streams.secret")
Server = tuple[httpx.Client, dict[str, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("limited")
    for name in ("latency", "secret"):
        with make_store(folder, name) as store:
            traffic(store, np.random.default_rng(3), 1_000, 0.0)
    config = configure(folder, streams=TWO_STREAMS)
    registry = ServerRegistry(config.server.state)
    tokens = {role: create_token(registry, role, role, None, ["latency"])[1] for role in ("reader", "writer", "admin")}
    tokens["all"] = create_token(registry, "all", "admin")[1]
    registry.close()
    with run_server(config) as client:
        yield client, tokens


def request(server: Server, token: str, method: str, path: str, **options: Any) -> httpx.Response:
    client, tokens = server
    return client.request(method, path, headers={"authorization": f"Bearer {tokens[token]}"}, **options)


READS = [
    "/api/streams/{}",
    "/api/streams/{}/keys",
    "/api/streams/{}/quantiles?phi=0.5",
    "/api/streams/{}/rank?value=1",
    "/api/streams/{}/cdf?points=3",
    "/api/streams/{}/summary",
    "/api/streams/{}/lines?phi=0.5&window=within:5s&over=10s",
    "/api/streams/{}/compare?against=latency",
    "/api/streams/latency/compare?against={}",
    "/api/qq?x=latency&y={}",
    "/api/qq?x={}&y=latency",
    "/api/monitors?stream={}",
]


@pytest.mark.parametrize("path", READS)
def test_reads(server: Server, path: str) -> None:
    for token in ("reader", "writer", "admin"):
        assert request(server, "all", "GET", path.format("secret")).status_code == 200  # which a cache may hold now
        assert request(server, token, "GET", path.format("latency")).status_code == 200
        for stream in ("secret", "nowhere"):
            response = request(server, token, "GET", path.format(stream))
            assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")


def test_lists_are_filtered(server: Server) -> None:
    for stream in ("latency", "secret"):
        request(server, "all", "POST", "/api/queries", json={"stream": stream, "phi": 0.5, "label": "both"})
        request(server, "all", "POST", "/api/alarms", json={"stream": stream, "phi": 0.5, "above": 1})
    lists = {"/api/streams": "streams", "/api/queries": "queries", "/api/alarms": "alarms", "/api/monitors": "monitors"}
    for path, field in lists.items():
        name = "name" if field == "streams" else "stream"
        assert {entry[name] for entry in request(server, "all", "GET", path).json()[field]} == {"latency", "secret"}
        assert {entry[name] for entry in request(server, "reader", "GET", path).json()[field]} == {"latency"}
    metrics = request(server, "reader", "GET", "/metrics").text
    assert 'quantide_stream_values{stream="latency"}' in metrics
    assert "secret" not in metrics
    assert "secret" in request(server, "all", "GET", "/metrics").text


def test_queries_and_alarms_by_id(server: Server) -> None:
    query = request(server, "all", "POST", "/api/queries", json={"stream": "secret", "phi": 0.5, "label": "hidden"})
    alarm = request(server, "all", "POST", "/api/alarms", json={"stream": "secret", "phi": 0.5, "above": 1})
    number, other = query.json()["queries"][0]["id"], alarm.json()["id"]
    for token in ("reader", "writer", "admin"):
        for path in (f"/api/queries/{number}", f"/api/alarms/{other}", f"/api/alarms/{other}/history"):
            response = request(server, token, "GET", path)
            assert response.status_code == 403
            assert "secret" not in response.text
    hidden, unknown = (
        request(server, "reader", "GET", f"/api/events?label={label}") for label in ("hidden", "unknown")
    )
    assert hidden.status_code == 404
    assert hidden.text == unknown.text.replace("unknown'", "hidden'")  # it hides whether the label exists
    for token in ("writer", "admin"):
        assert request(server, token, "DELETE", f"/api/queries/{number}").status_code == 403
        assert request(server, token, "POST", "/api/queries/drop", json=[number]).status_code == 403
        assert request(server, token, "DELETE", "/api/queries?label=hidden").json() == {"dropped": 0}
        assert request(server, token, "DELETE", f"/api/alarms/{other}").status_code == 403
        for path in ("/api/queries", "/api/alarms"):
            body = {"stream": "secret", "phi": 0.5} | ({"above": 1} if "alarms" in path else {})
            assert request(server, token, "POST", path, json=body).status_code == 403
            assert request(server, token, "POST", path, json=body | {"stream": "latency"}).status_code == 201
    assert request(server, "all", "GET", f"/api/queries/{number}").status_code == 200


def test_events(server: Server) -> None:
    client, tokens = server
    query = request(server, "all", "POST", "/api/queries", json={"stream": "secret", "phi": 0.5, "label": "mixed"})
    request(server, "all", "POST", "/api/queries", json={"stream": "latency", "phi": 0.5, "label": "mixed"})
    for stream in ("latency", "secret"):
        request(server, "all", "POST", "/api/alarms", json={"stream": stream, "phi": 0.5, "above": 1})
    assert request(server, "reader", "GET", "/api/events?stream=secret").status_code == 403
    alarms = request(server, "all", "GET", "/api/alarms").json()["alarms"]
    hidden = next(alarm["id"] for alarm in alarms if alarm["stream"] == "secret")
    response = request(server, "reader", "GET", f"/api/events?alarm={hidden}")
    assert response.status_code == 403
    assert "secret" not in response.text
    headers = {"authorization": f"Bearer {tokens['reader']}"}
    number = query.json()["queries"][0]["id"]
    own = request(server, "all", "POST", "/api/queries", json={"stream": "latency", "phi": 0.5}).json()["queries"][0][
        "id"
    ]
    hidden_query, unknown = (
        request(server, "reader", "GET", f"/api/events?query={own}&query={id}&alarms=all") for id in (number, 999_999)
    )
    assert (hidden_query.status_code, unknown.status_code) == (403, 403)
    assert hidden_query.text == unknown.text.replace("999999", str(number))  # whether the query exists is not disclosed
    path = f"/api/events?alarms=all&label=mixed&query={own}"
    text = ""
    with client.stream("GET", path, headers=headers) as response:
        for chunk in response.iter_text():
            text += chunk
            if "event: alarm" in text and "event: queries" in text and text.endswith("\n\n"):
                break
    assert '"stream":"latency"' in text
    assert "secret" not in text
    assert f'"id":{number},' not in text


def test_a_client_that_reconnects_is_notified_of_dropped_queries(server: Server) -> None:
    client, tokens = server
    hidden, own = (
        request(server, "all", "POST", "/api/queries", json={"stream": stream, "phi": 0.5}).json()["queries"][0]["id"]
        for stream in ("secret", "latency")
    )
    assert request(server, "all", "DELETE", f"/api/queries/{own}").status_code == 200
    headers = {"authorization": f"Bearer {tokens['reader']}", "last-event-id": "0.0.0"}
    text = ""
    with client.stream("GET", f"/api/events?query={own}&query={hidden}&stream=latency", headers=headers) as response:
        for chunk in response.iter_text():
            text += chunk
            if "event: stream" in text and text.endswith("\n\n"):
                break
    assert f'{{"id":{own},"state":"dropped",' in text
    assert f'"id":{hidden},' not in text


def test_a_limited_admin_does_not_manage_tokens(server: Server) -> None:
    assert request(server, "admin", "GET", "/api/tokens").status_code == 403
    listed = request(server, "all", "GET", "/api/tokens").json()["tokens"]
    assert {token["name"]: token["streams"] for token in listed}["reader"] == ["latency"]
    assert request(server, "reader", "GET", "/api/session").json()["streams"] == ["latency"]


def test_tokens_of_an_older_registry_are_not_limited(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        folder = older(tmp_path / str(version), version, TOKEN)
        registry = ServerRegistry(str(folder))
        assert [(token.id, token.streams) for token in list_tokens(registry)] == [("ab", None)]
        create_token(registry, "new", "pusher", streams=["latency"])
        registry.close()
    assert "streams TEXT" in SCHEMA


def test_the_command_checks_the_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = configure(tmp_path, streams=TWO_STREAMS)
    assert main(["token", "create", config.path, "--role", "pusher", "--streams", "latency,other"]) == 2
    assert "'other'" in capsys.readouterr().err
    assert main(["token", "create", config.path, "--role", "pusher", "--streams", "secret, latency"]) == 0
    assert "for latency, secret" in capsys.readouterr().err
    assert main(["token", "list", config.path]) == 0
    assert "(latency, secret)" in capsys.readouterr().out
