"""Continuous queries over HTTP: registered, answered, listed, dropped, stored; and all invalid requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide import History
from quantide.server.http.tokens import create_token
from quantide.server.server_registry import ServerRegistry
from tests.server.event_client import Truth
from tests.server.running_server import STREAM, configure, make_store, run_server

ONE = {"stream": "latency", "phi": 0.5}
JSON = {"content-type": "application/json"}
LIMITS = "[server.limits]\nbatch = 1000\nqueries = 1500"
TWO = STREAM + STREAM.replace("streams.latency", "streams.later")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Truth]]:
    folder = tmp_path_factory.mktemp("queries")
    with make_store(folder) as history:
        truth = Truth(history)
        truth.append(3000)
        yield folder, truth


@pytest.fixture(scope="module")
def client(store: tuple[Path, Truth]) -> Iterator[httpx.Client]:
    with run_server(configure(store[0], LIMITS, TWO)) as result:
        yield result


@pytest.fixture(autouse=True)
def none_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop all queries before each test."""
    yield
    if "client" in request.fixturenames:
        client: httpx.Client = request.getfixturevalue("client")
        if ids := [one["id"] for one in client.get("/api/queries?limit=10000").json()["queries"]]:
            for start in range(0, len(ids), 1000):
                client.post("/api/queries/drop", json=ids[start : start + 1000]).raise_for_status()


def register(client: httpx.Client, *queries: dict[str, Any]) -> list[Any]:
    response = client.post("/api/queries", json=list(queries))
    assert response.status_code == 201, response.text
    body: list[Any] = response.json()["queries"]
    return body


def listed(client: httpx.Client, **parameters: Any) -> list[int]:
    return [one["id"] for one in client.get("/api/queries", params=parameters).json()["queries"]]


def test_one_query_is_answered_with_proof(client: httpx.Client, store: tuple[Path, Truth]) -> None:
    response = client.post("/api/queries", json={**ONE, "phi": 0.9, "key": "/pay", "eps": 0.05, "label": "mine"})
    [made] = response.json()["queries"]
    assert (response.status_code, made["eps"]) == (201, 0.05)
    body = client.get(f"/api/queries/{made['id']}").json()
    result = {name: body[name] for name in ("stream", "key", "window", "filter", "phi", "eps", "label", "owner")}
    assert result == {
        "stream": "latency", "key": "/pay", "window": "all", "filter": None,
        "phi": 0.9, "eps": 0.05, "label": "mine", "owner": "local",
    }  # fmt: skip
    assert body["answer"]["state"] == "value"
    store[1].check(body["answer"], 0.9, 0.05, "/pay")


def test_a_precision_finer_than_possible_is_raised_and_returned(client: httpx.Client) -> None:
    made = register(client, {**ONE, "eps": 1e-6}, ONE, {**ONE, "window": "last:500", "eps": 1e-6}, {**ONE, "eps": 0.3})
    assert [one["eps"] for one in made] == [0.02, 0.02, 0.01, 0.3]
    assert [one["id"] for one in made] == listed(client)


def test_many_in_one_body_are_all_right(client: httpx.Client, store: tuple[Path, Truth]) -> None:
    phis = np.random.default_rng(1).uniform(0.001, 1, 1000).tolist()
    keys = [None, "/pay", "/cart", "/home"]
    made = register(client, *({**ONE, "phi": phi, "key": keys[i % 4]} for i, phi in enumerate(phis)))
    for i in range(0, 1000, 97):
        body = client.get(f"/api/queries/{made[i]['id']}").json()
        assert body["phi"] == phis[i]
        store[1].check(body["answer"], phis[i], made[i]["eps"], keys[i % 4])


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"phi": -0.01}, "queries[1].phi: "),
        ({"phi": 99}, "queries[1].phi: phi must be in [0, 1], not 99.0; for p99 write 0.99"),
        ({"phi": "p99"}, "queries[1].phi: phi must be a number in [0, 1], not 'p99'; for p99 write 0.99"),
        ({"phi": 1.0001}, "queries[1].phi: "),
        ({"phi": "0.5"}, "queries[1].phi: "),
        ({"phi": True}, "queries[1].phi: "),
        ({"phi": None}, "queries[1].phi: "),
        ({"phi": [0.5]}, "queries[1].phi: "),
        ({"phi": 10**30}, "queries[1].phi: "),
        ({"eps": 0}, "queries[1].eps: "),
        ({"eps": 1}, "queries[1].eps: "),
        ({"eps": -0.1}, "queries[1].eps: "),
        ({"eps": "fine"}, "queries[1].eps: "),
        ({"key": {"endpoint": "/pay"}}, "queries[1].key: a key is text"),
        ({"key": [["/pay"]]}, "queries[1].key: a key is text"),
        ({"key": []}, "queries[1].key: a key is text"),
        ({"key": ["a"] * 17}, "queries[1].key: a key is text"),
        ({"key": 2**63}, "queries[1].key: a key is text"),
        ({"key": [None]}, "queries[1].key: a key is text"),
        ({"key": "k" * 1001}, "queries[1].key: a key is text"),
        ({"key": ["/pay", "eu"]}, "queries[1]: key: it has 2 columns"),
        ({"window": "yesterday"}, "queries[1]: 'yesterday' is not a window"),
        ({"window": "last:0"}, "queries[1]: "),
        ({"window": "last:" + "9" * 40}, "queries[1]: "),
        ({"window": "within:48h"}, "queries[1]: "),
        ({"window": "within:-5m"}, "queries[1]: "),
        ({"window": "w" * 81}, "queries[1].window: "),
        ({"window": None}, "queries[1].window: "),
        ({"filter": "nobody"}, "queries[1]: the filter 'nobody' is not known"),
        ({"filter": "x'; DROP TABLE queries; --"}, "queries[1]: the filter"),
        ({"filter": "errors", "window": "steps:1"}, "queries[1]: last_steps="),
        ({"label": ""}, "queries[1].label: "),
        ({"label": 5}, "queries[1].label: "),
        ({"label": "l" * 101}, "queries[1].label: "),
        ({"stream": 7}, "queries[1].stream: "),
        ({"owner": "root"}, "queries[1].owner: a query has no such field"),
        ({"\u202e" * 200: 1}, "a query has no such field"),
    ],
)
def test_a_wrong_one_is_named_and_none_is_registered(
    client: httpx.Client, wrong: dict[str, Any], expected: str
) -> None:
    response = client.post("/api/queries", json=[ONE, {**ONE, **wrong}, ONE])
    assert (response.status_code, response.json()["error"]["code"]) in ((400, "invalid_argument"), (400, "span"))
    assert expected in response.json()["error"]["message"]
    assert len(response.text) < 600
    assert listed(client) == []


def test_an_invalid_query_is_named_by_its_index(client: httpx.Client) -> None:
    response = client.post("/api/queries", json=[ONE] * 999 + [{"stream": "latency"}])
    assert "queries[999].phi: Field required" in response.json()["error"]["message"]
    response = client.post("/api/queries", json=[ONE] * 998 + [{**ONE, "stream": "no/such"}])
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_stream")
    assert "queries[998]: " in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b"[null]",
        b"[[]]",
        b'{"stream": "latency", "phi": NaN}',
        b'{"stream": "latency", "phi": Infinity}',
        b'{"stream": "latency", "phi": 1e999}',
        b'{"stream": "latency", "phi": ' + b"1" * 5000 + b"}",
        b'{"stream": "latency", "phi": 0.5, "key": "\\ud800"}',
        b'{"stream": "latency", "phi": 0.5, "key": "\xff\xfe"}',
        b'{"stream": "latency", "phi": 0.5, "key": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b"[" * 100_000,
        b'{"stream": "latency", "phi": 0.5}]',
        b"\x00" * 100,
    ],
)
def test_bodies_that_are_no_queries_are_refused(client: httpx.Client, body: bytes) -> None:
    response = client.post("/api/queries", content=body, headers=JSON)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
    assert listed(client) == []


def test_more_than_the_limits_are_refused(client: httpx.Client) -> None:
    response = client.post("/api/queries", json=[ONE] * 1001)
    assert (response.status_code, "at a time" in response.text) == (400, True)
    register(client, *[ONE] * 1000)
    response = client.post("/api/queries", json=[ONE] * 501)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "limit")
    assert len(register(client, *[ONE] * 500)) == 500
    assert len(listed(client, limit=10_000)) == 1500


def test_odd_keys_and_labels_are_returned_unchanged(client: httpx.Client) -> None:
    keys = ["", " ", "/pay\n", "ключ", "🔑", "a\x00b", "'; --", 7, 7.5, True, None, "null", "7", ["/pay"]]
    labels = ["тест", "🔥", "a,b", "%", "' OR 1=1"]
    made = register(client, *({**ONE, "key": key, "label": labels[i % 5]} for i, key in enumerate(keys)))
    for key, query in zip(keys, made, strict=True):
        body = client.get(f"/api/queries/{query['id']}").json()
        assert (body["key"], type(body["key"])) == (key, type(key))
        assert body["answer"]["state"] == ("value" if key in (None, ["/pay"]) else "empty")
    for at, label in enumerate(labels):
        assert listed(client, label=label) == [one["id"] for one in made[at::5]]


def test_empty_is_a_state_and_no_failure(client: httpx.Client) -> None:
    unknown, empty = register(client, {**ONE, "key": "/nobody"}, {**ONE, "key": "/nobody", "window": "within:5m"})
    for one in (unknown, empty):
        response = client.get(f"/api/queries/{one['id']}")
        expected = {"id": one["id"], "state": "empty", "value": None}
        assert (response.status_code, response.json()["answer"]) == (200, expected)


def test_pages_follow_each_other(client: httpx.Client) -> None:
    ids = [one["id"] for one in register(client, *({**ONE, "label": "ab"[i % 2]} for i in range(25)))]
    results: list[int] = []
    after: int | None = 0
    while after is not None:
        page = client.get("/api/queries", params={"after": after, "limit": 4, "label": "a"}).json()
        results += [one["id"] for one in page["queries"]]
        after = page["next"]
    assert results == ids[::2]
    assert listed(client, stream="latency", limit=3) == ids[:3]
    assert listed(client, stream="later") == []
    assert listed(client, after=ids[-1]) == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=10001", "limit=x", "after=-1", f"after={2**63}", "owner=me", "label=" + "l" * 101, "limit=1e3"],
)
def test_wrong_pages_are_refused(client: httpx.Client, query: str) -> None:
    response = client.get(f"/api/queries?{query}")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")


def test_ids_of_dropped_queries_are_not_reused(client: httpx.Client) -> None:
    ids = [one["id"] for one in register(client, *({**ONE, "label": "ab"[i % 2]} for i in range(10)))]
    assert client.delete(f"/api/queries/{ids[0]}").json() == {"dropped": 1}
    assert client.delete("/api/queries", params={"label": "b"}).json() == {"dropped": 5}
    assert client.delete("/api/queries", params={"label": "b"}).json() == {"dropped": 0}
    assert client.post("/api/queries/drop", json=[ids[4], ids[2]]).json() == {"dropped": 2}
    assert listed(client) == [ids[6], ids[8]]
    assert client.get(f"/api/queries/{ids[0]}").status_code == 404
    client.post("/api/queries/drop", json=[ids[6], ids[8]])
    assert register(client, ONE)[0]["id"] > ids[-1]


@pytest.mark.parametrize(
    ("given", "status"),
    [([], 400), ({}, 400), ([1, 1], 400), ([True], 400), ([0], 400), ([-1], 400), ([1.5], 400), (["1"], 400),
     ([2**63], 400), ([10**40], 400), ([[1]], 400), (list(range(1, 1002)), 400), ([2**62], 404)],
)  # fmt: skip
def test_invalid_lists_drop_nothing(client: httpx.Client, given: Any, status: int) -> None:
    [one] = register(client, ONE)
    mixed = [one["id"], *given] if isinstance(given, list) and given else given
    for body in (given, mixed):
        assert client.post("/api/queries/drop", json=body).status_code == status
    assert listed(client) == [one["id"]]


@pytest.mark.parametrize("id", ["0", "-1", "x", "1.5", str(2**63), "9" * 400, "%00", "1%0a"])
def test_wrong_ids_are_refused(client: httpx.Client, id: str) -> None:
    for response in (client.get(f"/api/queries/{id}"), client.delete(f"/api/queries/{id}")):
        assert response.status_code in (400, 404), response.text
    assert client.get("/api/queries/123456789").json()["error"]["code"] == "unknown_query"
    assert client.delete("/api/queries/123456789").json()["error"]["code"] == "unknown_query"
    assert client.delete("/api/queries").status_code == 400


def test_a_stream_that_is_not_ready_is_rejected_and_nothing_is_stored(client: httpx.Client) -> None:
    response = client.post("/api/queries", json=[ONE, {**ONE, "stream": "later"}])
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
    assert listed(client) == []


def test_writers_drop_their_own_admins_anything(tmp_path: Path) -> None:
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        config = configure(tmp_path)
        registry = ServerRegistry(config.server.state)
        made = [create_token(registry, name, name.rstrip("12")) for name in ("reader", "writer1", "writer2", "admin")]
        registry.close()
        with run_server(config) as client:
            reader, first, second, admin = ({"authorization": f"Bearer {token}"} for _, token in made)
            assert client.post("/api/queries", json=ONE, headers=reader).status_code == 403
            ids = []
            for who in (first, second, admin):
                body = [{**ONE, "label": "shared"}] * 2
                ids += [one["id"] for one in client.post("/api/queries", json=body, headers=who).json()["queries"]]
            shown = client.get("/api/queries", headers=reader).json()["queries"]
            assert [one["owner"] for one in shown] == [made[1][0]] * 2 + [made[2][0]] * 2 + [made[3][0]] * 2
            assert client.delete(f"/api/queries/{ids[0]}", headers=second).status_code == 403
            assert client.post("/api/queries/drop", json=ids[:4], headers=first).status_code == 403
            assert client.delete("/api/queries", params={"label": "shared"}, headers=first).json() == {"dropped": 2}
            assert client.delete("/api/queries", params={"label": "shared"}, headers=reader).status_code == 403
            assert client.delete(f"/api/queries/{ids[2]}", headers=admin).json() == {"dropped": 1}
            assert client.delete("/api/queries", params={"label": "shared"}, headers=admin).json() == {"dropped": 3}


def test_queries_outlive_the_server_and_the_absence_of_their_store(tmp_path: Path) -> None:
    with make_store(tmp_path) as history:
        truth = Truth(history)
        truth.append(1000)
        with run_server(configure(tmp_path)) as client:
            made = register(client, *({**ONE, "phi": phi, "key": "/cart"} for phi in (0.25, 0.5, 0.75)))
            client.delete(f"/api/queries/{made[2]['id']}")
        truth.append(1000)
        with run_server(configure(tmp_path)) as client:
            assert listed(client) == [made[0]["id"], made[1]["id"]]
            for one, phi in zip(made[:2], (0.25, 0.5), strict=True):
                body = client.get(f"/api/queries/{one['id']}").json()["answer"]
                assert body["n"] == (truth.keys == "/cart").sum()
                truth.check(body, phi, one["eps"], "/cart")
            assert register(client, ONE)[0]["id"] > made[2]["id"]
    (tmp_path / "data" / "latency").rename(tmp_path / "data" / "elsewhere")
    with run_server(configure(tmp_path)) as client:
        body = client.get(f"/api/queries/{made[0]['id']}").json()["answer"]
        assert (body["state"], body["value"]) == ("waiting", None)
        (tmp_path / "data" / "elsewhere").rename(tmp_path / "data" / "latency")
        while body["state"] == "waiting":
            body = client.get(f"/api/queries/{made[0]['id']}").json()["answer"]
        truth.check(body, 0.25, made[0]["eps"], "/cart")
    with run_server(configure(tmp_path, streams=STREAM.replace("latency", "another"))) as client:
        assert client.get(f"/api/queries/{made[0]['id']}").json()["answer"]["state"] == "failed"
        client.delete(f"/api/queries/{made[0]['id']}").raise_for_status()


def test_values_of_every_type_are_encoded_as_in_other_answers(tmp_path: Path) -> None:
    stores: dict[str, Any] = {
        "floats": np.array([1.5, np.inf, -np.inf]),
        "narrow": np.array([1.5, 0.1, 2.25], dtype=np.float32),
        "whole": np.array([2**60, -(2**60), 3]),
        "moments": np.array(["2026-01-01T00:00:00", "2026-01-02", "2026-01-03"], dtype="datetime64[us]"),
        "spans": np.array([1500, 3, 10**12], dtype="timedelta64[ms]"),
    }
    types = {"narrow": "float32", "whole": "int64", "moments": "timestamp[us]", "spans": "duration[ms]"}
    for name, values in stores.items():
        with History(tmp_path / "data" / name, value_type=types.get(name, "float64")) as history:
            history.append(values)
    streams = "".join(
        f'[streams.{name}]\nsource = {{ format = "parquet", path = "in" }}\nvalue = "v"\n' for name in stores
    )
    with run_server(configure(tmp_path, streams=streams)) as client:
        phis = (0.2, 0.5, 1.0)
        for name in stores:
            made = register(client, *({"stream": name, "phi": phi} for phi in phis))
            body = [client.get(f"/api/queries/{one['id']}").json()["answer"]["value"] for one in made]
            data = client.get(f"/api/streams/{name}/quantiles", params={"phi": phis}).json()["answers"]
            assert body == [one["value"] for one in data]
