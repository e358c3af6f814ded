"""Expiry of queries without subscribers, by a clock that the test sets."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.server.served_streams import ServedStreams
from quantide.server.server_registry import VERSION, ServerRegistry
from quantide.server.subscriptions import continuous_queries as module
from quantide.server.subscriptions.continuous_queries import ContinuousQueries
from quantide.server.subscriptions.query_table import QuerySet, WindowKey
from tests.server.event_client import Truth
from tests.server.running_server import configure, make_store, run_server
from tests.server.test_access import older

PAY = WindowKey.of("latency", "/pay", "all", None)


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """A function that loads continuous queries from a registry, as a server does, and their clock."""
    registry, streams, now = ServerRegistry(str(tmp_path)), ServedStreams(configure(tmp_path)), [100.0]
    yield (lambda: _loaded(ContinuousQueries(registry, streams, 100, lambda wakeups: None, lambda: now[0]))), now
    streams.close()
    registry.close()


def _loaded(queries: ContinuousQueries) -> ContinuousQueries:
    queries.load()
    return queries


def add(queries: ContinuousQueries, *idles: float | None) -> list[int]:
    count = len(idles)
    return list(map(int, queries.add([PAY] * count, [0.5] * count, [0.1] * count, [None] * count, "me", idles)))


def left(queries: ContinuousQueries) -> list[int]:
    queries.drop_expired()
    return list(map(int, queries.table.id))


def test_queries_without_subscribers_expire(made: Any) -> None:
    start, now = made
    queries = start()
    forever, short, long = add(queries, None, 10.0, 30.0)
    now[0] += 9.9
    assert left(queries) == [forever, short, long]
    now[0] += 0.1
    assert left(queries) == [forever, long]
    now[0] += 1e6
    assert left(queries) == [forever]
    assert start().table.id.tolist() == [forever], "also in the registry"


def test_the_idle_time_begins_with_the_end_of_the_last_subscription(made: Any) -> None:
    start, now = made
    queries = start()
    [id] = add(queries, 10.0)
    ids, wakeups = np.array([id, 999]), [asyncio.Event(), asyncio.Event()]
    now[0] += 9
    windows = [queries.subscribe(QuerySet(ids), [], wakeup) for wakeup in wakeups]
    now[0] += 1000
    assert left(queries) == [id]
    queries.unsubscribe(ids, windows[0], [], wakeups[0])
    now[0] += 1000
    assert left(queries) == [id], "one still listens"
    queries.unsubscribe(ids, windows[1], [], wakeups[1])
    now[0] += 9.9
    assert left(queries) == [id]
    now[0] += 0.1
    assert left(queries) == []


def test_a_restart_restarts_the_idle_time(made: Any) -> None:
    start, now = made
    [id] = add(start(), 10.0)
    now[0] += 9
    again = start()
    now[0] += 9
    assert left(again) == [id]
    now[0] += 1
    assert left(again) == []


def test_a_dropped_query_does_not_expire(made: Any) -> None:
    start, now = made
    queries = start()
    first, second = add(queries, 10.0, 10.0)
    windows = queries.subscribe(QuerySet(np.array([first])), [], wakeup := asyncio.Event())
    queries.drop(np.array([first]))
    queries.unsubscribe(np.array([first]), windows, [], wakeup)
    now[0] += 10
    assert left(queries) == []
    assert queries._expiry.expired().tolist() == []
    assert second not in queries._expiry._since


def test_an_older_registry_is_upgraded(tmp_path: Path) -> None:
    columns = "stream, key, window, phi, eps, owner, created"
    row = f"INSERT INTO queries ({columns}) VALUES ('latency', 'null', 'all', 0.5, 0.1, 'me', 1)"
    folder = older(tmp_path / "state", 1, row)
    for _ in range(2):
        registry = ServerRegistry(str(folder))
        [found] = registry.rows("SELECT * FROM queries")
        assert (found["stream"], found["idle"]) == ("latency", None)
        assert registry.rows("PRAGMA user_version")[0][0] == VERSION
        registry.close()


def test_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY_INTERVAL", 0.05)
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        with run_server(configure(tmp_path)) as client:
            one = {"stream": "latency", "phi": 0.5}
            body = [one | {"idle": "2 min"}, one | {"idle": None}, one | {"idle": "300 ms"}]
            ids = [made["id"] for made in client.post("/api/queries", json=body).json()["queries"]]
            assert [listed(client)[id] for id in ids[:2]] == ["2 min", None]
            assert client.get(f"/api/queries/{ids[0]}").json()["idle"] == "2 min"
            for idle in ("soon", "", "0 s", 5, "1 s" * 30, ["1 s"]):
                refused = client.post("/api/queries", json=one | {"idle": idle})
                assert (refused.status_code, "queries[0].idle" in refused.text) == (400, True), idle
            ended = time.monotonic() + 20
            while ids[2] in listed(client) and time.monotonic() < ended:
                time.sleep(0.02)
            assert sorted(listed(client)) == ids[:2]


def listed(client: httpx.Client) -> dict[int, Any]:
    return {one["id"]: one["idle"] for one in client.get("/api/queries").json()["queries"]}
