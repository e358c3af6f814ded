"""Routes of alarms: settings are shown as given, invalid ones are rejected."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quantide.server.alarms.alarm_window import CERTAIN
from quantide.server.app import make_app
from quantide.server.http.tokens import Identity, create_token
from quantide.server.routes.alarm_routes import encode_alarm, may_see_webhook
from quantide.server.server_registry import ServerRegistry
from quantide.server.service import Service
from tests.server.alarm_stage import Stage
from tests.server.running_server import STREAM, configure, make_store, run_server

ALARM: dict[str, Any] = {"stream": "latency", "phi": 0.5, "above": 100}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("served")
    with make_store(folder) as history:
        history.append([10.0, 20.0, 30.0], key="/pay", times=0.0, filters={"errors": [True, False, True]})
    with run_server(configure(folder, streams=STREAM + STREAM.replace("latency", "empty"))) as result:
        yield result


def test_an_alarm_is_set_shown_and_dropped(client: httpx.Client) -> None:
    result = ALARM | {
        "above": 15,
        "clear": "12.5",
        "hold": "1 h",
        "key": "/pay",
        "window": "last:3",
        "name": "é",
        "eps": 0.1,
    }
    made = client.post("/api/alarms", json=result)
    body = made.json()
    assert made.status_code == 201
    assert {name: body[name] for name in result if name != "hold"} == {
        name: result[name] for name in result if name != "hold"
    }
    assert (body["hold"], body["state"], body["firing"], body["value"], body["n"]) == (3600, CERTAIN, False, 20, 3)
    assert (body["why"], body["delivery"], body["webhook"], body["owner"]) == (None, None, None, "local")
    assert client.get(f"/api/alarms/{body['id']}").json() == body
    assert client.get("/api/alarms").json()["alarms"][-1] == body
    history = client.get(f"/api/alarms/{body['id']}/history").json()
    assert [(one["alarm"], one["state"]) for one in history["transitions"]] == [(body["id"], CERTAIN)]
    assert client.delete(f"/api/alarms/{body['id']}").status_code == 204
    for path in ("", "/history"):
        assert client.get(f"/api/alarms/{body['id']}{path}").json()["error"]["code"] == "unknown_alarm"
    assert client.delete(f"/api/alarms/{body['id']}").status_code == 404


WRONG: dict[str, list[Any]] = {
    "stream": [None, 5, "x" * 101],
    "phi": [None, -0.01, 1.01, "0.5", True],
    "above": [None, True, [1], {}, "x", "nan", "1" * 41, 2**63],
    "below": [1, "x"],
    "clear": [101, "x", True],
    "hold": [-1, True, "x", "5", "32 d", [1], "9" * 39 + "d"],
    "key": [{}, [], [[1]], [None], ["/pay", 1], "x" * 1001, 10**30, ["a"] * 17, "\ud800"],
    "name": ["\ud800", "x" * 201, 5],
    "eps": [0, 1, "0.1"],
    "window": ["x", "last:0", "within:0 s", "within:2 d", 5],
    "filter": ["x", 5],
    "unknown": [1],
    "webhook": [5, "", "\ud800", "http://127.0.0.1/", "https://hooks.example.com/"],
}
SINGLE = [{name: value} for name, values in WRONG.items() for value in values]
PAIRS = [{"above": None, "below": 5, "clear": 4}, {"window": "steps:2", "filter": "errors"}]


@pytest.mark.parametrize("wrong", SINGLE + PAIRS, ids=lambda wrong: json.dumps(wrong)[:40])
def test_invalid_alarms_are_rejected_and_change_nothing(client: httpx.Client, wrong: dict[str, Any]) -> None:
    before = client.get("/api/alarms").json()
    result = post(client, json.dumps(ALARM | wrong))
    assert result.status_code == 400, result.text
    assert result.json()["error"]["code"] in ("invalid_argument", "span")
    assert client.get("/api/alarms").json() == before


def test_a_percentile_instead_of_phi_is_named(client: httpx.Client) -> None:
    for given in (99, "p99"):
        result = post(client, json.dumps(ALARM | {"phi": given}))
        assert result.status_code == 400
        assert result.json()["error"]["message"].endswith("; for p99 write 0.99")


@pytest.mark.parametrize(
    "body",
    [
        *("", "[]", "{", "5", "[" * 100_000, "\xff"),
        '{"stream": "latency", "phi": NaN, "above": 1}',
        '{"stream": "latency", "phi": 0.5, "above": 1e999}',
        '{"stream": "latency", "phi": 0.5, "above": ' + "9" * 5000 + "}",
        '{"stream": "latency", "phi": 0.5, "above": 1, "key": Infinity}',
    ],
    ids=range(10),
)
def test_a_body_that_is_none(client: httpx.Client, body: str) -> None:
    result = post(client, body)
    assert (result.status_code, result.json()["error"]["code"]) == (400, "invalid_argument")


INFINITE = "; write a finite number, such as 12.5"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ('"above": 1e999', INFINITE),
        (
            '"above": "1e999"',
            "above is '1e999', and an alarm with an infinite limit never fires, or never stops" + INFINITE,
        ),
        ('"below": "-Infinity"', "below is '-Infinity', and"),
        ('"above": 1, "clear": "-inf"', "clear is '-inf', and"),
        ('"above": 1, "clear": -1e999', INFINITE),
        ('"above": "30 bp"', "above is '30 bp'; write a number without text, such as 12.5"),
    ],
)
def test_limits_are_finite_numbers(client: httpx.Client, limits: str, message: str) -> None:
    result = post(client, '{"stream": "latency", "phi": 0.5, ' + limits + "}")
    assert (result.status_code, result.json()["error"]["code"]) == (400, "invalid_argument")
    assert message in result.json()["error"]["message"]


def post(client: httpx.Client, body: str) -> httpx.Response:
    return client.post("/api/alarms", content=body.encode("latin-1"), headers={"Content-Type": "application/json"})


def test_streams_that_are_not_there(client: httpx.Client) -> None:
    for name, status, code in (("nothing", 404, "unknown_stream"), ("empty", 503, "not_ready")):
        response = client.post("/api/alarms", json=ALARM | {"stream": name})
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "path", ["0", "-1", "x", "1e3", str(2**64), "1/history?limit=0", "1/history?limit=1001", "1/history?x=1"]
)
def test_invalid_paths(client: httpx.Client, path: str) -> None:
    assert client.get(f"/api/alarms/{path}").status_code == 400


def test_history_is_paginated(stage: Stage) -> None:
    with run_server(configure(stage.folder), app := make_app(configure(stage.folder))) as client:
        stage.end()
        stage.service = app.state.service
        stage.append([200.0])
        id = client.post("/api/alarms", json=ALARM | {"window": "last:1"}).json()["id"]
        for i in range(4):
            stage.append([200.0 if i % 2 else 1.0])
        pages: list[Any] = []
        before: dict[str, int] = {}
        while not pages or before:
            page = client.get(f"/api/alarms/{id}/history", params={"limit": 2, **before}).json()
            pages.append([one["number"] for one in page["transitions"]])
            before = {} if page["next"] is None else {"before": page["next"]}
        stage.service = Service(configure(stage.folder))
    assert pages == [[5, 4], [3, 2], [1]]


def test_the_path_of_a_webhook_is_shown_to_its_owner_only(stage: Stage) -> None:
    stage.append([1.0])
    result = stage.service.alarms.get(stage.set(owner="me", webhook="https://hooks.example.com/secret?x=1"))
    identities = Identity("me", "me", "writer"), Identity("you", "you", "writer"), Identity("you", "you", "admin")
    assert [may_see_webhook(result, who) for who in identities] == [True, False, True]
    assert encode_alarm(result, None, True)["webhook"] == "https://hooks.example.com/secret?x=1"
    assert encode_alarm(result, None, False)["webhook"] == "https://hooks.example.com"


def test_permissions_of_each_role(tmp_path: Path) -> None:
    with make_store(tmp_path) as history:
        history.append([10.0], key="/pay", times=0.0, filters={"errors": [True]})
    config = configure(tmp_path)
    registry = ServerRegistry(config.server.state)
    roles = {"reader": "reader", "writer": "writer", "other": "writer", "admin": "admin"}
    tokens = {name: create_token(registry, name, role)[1] for name, role in roles.items()}
    registry.close()
    with run_server(config) as client:

        def request(name: str, method: str, path: str = "", body: Any = None) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[name]}"}
            return client.request(method, f"/api/alarms{path}", json=body, headers=headers)

        assert client.get("/api/alarms").status_code == 401
        assert request("reader", "POST", body=ALARM).status_code == 403
        ids = [request("writer", "POST", body=ALARM).json()["id"] for _ in range(2)]
        assert request("reader", "GET", f"/{ids[0]}").json()["id"] == ids[0]
        assert request("reader", "GET", f"/{ids[0]}/history").status_code == 200
        for name, status in (("reader", 403), ("other", 403), ("writer", 204), ("writer", 404)):
            assert request(name, "DELETE", f"/{ids[0]}").status_code == status
        assert request("admin", "DELETE", f"/{ids[1]}").status_code == 204
        assert request("reader", "GET").json() == {"alarms": []}
