"""Routes of alarms: what is set is shown, and whatever is wrong is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from quantide.server.alarm import CERTAIN
from quantide.server.alerting import may_see, shown_alarm
from quantide.server.app import make_app
from quantide.server.registry import Registry
from quantide.server.service import Service
from quantide.server.tokens import Who, create_token
from tests.server.serving import STREAM, configure, make_store, serving
from tests.server.staging import Stage

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
    with serving(configure(folder, streams=STREAM + STREAM.replace("latency", "empty"))) as found:
        yield found


def test_an_alarm_is_set_shown_and_dropped(client: httpx.Client) -> None:
    said = ALARM | {
        "above": 15,
        "clear": "12.5",
        "hold": "1 h",
        "key": "/pay",
        "window": "last:3",
        "name": "é",
        "eps": 0.1,
    }
    made = client.post("/api/alarms", json=said)
    found = made.json()
    assert made.status_code == 201
    assert {name: found[name] for name in said if name != "hold"} == {
        name: said[name] for name in said if name != "hold"
    }
    assert (found["hold"], found["state"], found["firing"], found["value"], found["n"]) == (3600, CERTAIN, False, 20, 3)
    assert (found["why"], found["delivery"], found["webhook"], found["owner"]) == (None, None, None, "local")
    assert client.get(f"/api/alarms/{found['id']}").json() == found
    assert client.get("/api/alarms").json()["alarms"][-1] == found
    history = client.get(f"/api/alarms/{found['id']}/history").json()
    assert [(one["alarm"], one["state"]) for one in history["transitions"]] == [(found["id"], CERTAIN)]
    assert client.delete(f"/api/alarms/{found['id']}").status_code == 204
    for path in ("", "/history"):
        assert client.get(f"/api/alarms/{found['id']}{path}").json()["error"]["code"] == "unknown_alarm"
    assert client.delete(f"/api/alarms/{found['id']}").status_code == 404


WRONG: dict[str, list[Any]] = {
    "stream": [None, 5, "x" * 101],
    "phi": [None, 0, 1.01, "0.5", True],
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
def test_what_is_wrong_is_refused_and_changes_nothing(client: httpx.Client, wrong: dict[str, Any]) -> None:
    before = client.get("/api/alarms").json()
    found = post(client, json.dumps(ALARM | wrong))
    assert found.status_code == 400, found.text
    assert found.json()["error"]["code"] in ("invalid_argument", "span")
    assert client.get("/api/alarms").json() == before


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
    found = post(client, body)
    assert (found.status_code, found.json()["error"]["code"]) == (400, "invalid_argument")


def post(client: httpx.Client, body: str) -> httpx.Response:
    return client.post("/api/alarms", content=body.encode("latin-1"), headers={"Content-Type": "application/json"})


def test_streams_that_are_not_there(client: httpx.Client) -> None:
    for name, status, code in (("nothing", 404, "unknown_stream"), ("empty", 503, "not_ready")):
        found = client.post("/api/alarms", json=ALARM | {"stream": name})
        assert (found.status_code, found.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "path", ["0", "-1", "x", "1e3", str(2**64), "1/history?limit=0", "1/history?limit=1001", "1/history?x=1"]
)
def test_what_is_wrong_in_a_path(client: httpx.Client, path: str) -> None:
    assert client.get(f"/api/alarms/{path}").status_code == 400


def test_history_comes_in_pages(stage: Stage) -> None:
    with serving(configure(stage.folder), app := make_app(configure(stage.folder))) as client:
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
    held = stage.service.alarms.get(stage.set(owner="me", webhook="https://hooks.example.com/secret?x=1"))
    asking = Who("me", "me", "writer"), Who("you", "you", "writer"), Who("you", "you", "admin")
    assert [may_see(held, who) for who in asking] == [True, False, True]
    assert shown_alarm(held, None, True)["webhook"] == "https://hooks.example.com/secret?x=1"
    assert shown_alarm(held, None, False)["webhook"] == "https://hooks.example.com"


def test_each_role_may_do_what_it_may(tmp_path: Path) -> None:
    with make_store(tmp_path) as history:
        history.append([10.0], key="/pay", times=0.0, filters={"errors": [True]})
    config = configure(tmp_path)
    registry = Registry(config.server.state)
    roles = {"reader": "reader", "writer": "writer", "other": "writer", "admin": "admin"}
    tokens = {name: create_token(registry, name, role)[1] for name, role in roles.items()}
    registry.close()
    with serving(config) as client:

        def ask(name: str, method: str, path: str = "", body: Any = None) -> httpx.Response:
            headers = {"Authorization": f"Bearer {tokens[name]}"}
            return client.request(method, f"/api/alarms{path}", json=body, headers=headers)

        assert client.get("/api/alarms").status_code == 401
        assert ask("reader", "POST", body=ALARM).status_code == 403
        ids = [ask("writer", "POST", body=ALARM).json()["id"] for _ in range(2)]
        assert ask("reader", "GET", f"/{ids[0]}").json()["id"] == ids[0]
        assert ask("reader", "GET", f"/{ids[0]}/history").status_code == 200
        for name, status in (("reader", 403), ("other", 403), ("writer", 204), ("writer", 404)):
            assert ask(name, "DELETE", f"/{ids[0]}").status_code == status
        assert ask("admin", "DELETE", f"/{ids[1]}").status_code == 204
        assert ask("reader", "GET").json() == {"alarms": []}
