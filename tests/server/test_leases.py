"""Queries that are dropped when nobody listens to them: by a clock that the test winds."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.server import standing as module
from quantide.server.about import Name
from quantide.server.columns import QuerySet
from quantide.server.registry import Registry
from quantide.server.registry_file import VERSION
from quantide.server.standing import Standing
from quantide.server.streams import Streams
from tests.server.listening import Truth
from tests.server.serving import configure, make_store, serving
from tests.server.test_access import older

PAY = Name.of("latency", "/pay", "all", None)


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """A function that starts standing queries over a registry, as a server does, and the hands of their clock."""
    registry, streams, now = Registry(str(tmp_path)), Streams(configure(tmp_path)), [100.0]
    yield (lambda: _loaded(Standing(registry, streams, 100, lambda bells: None, lambda: now[0]))), now
    streams.close()
    registry.close()


def _loaded(standing: Standing) -> Standing:
    standing.load()
    return standing


def add(standing: Standing, *idles: float | None) -> list[int]:
    count = len(idles)
    return list(map(int, standing.add([PAY] * count, [0.5] * count, [0.1] * count, [None] * count, "me", idles)))


def left(standing: Standing) -> list[int]:
    standing.drop_idle()
    return list(map(int, standing.columns.id))


def test_what_nobody_listens_to_goes_when_its_time_is_over(made: Any) -> None:
    start, now = made
    standing = start()
    forever, short, long = add(standing, None, 10.0, 30.0)
    now[0] += 9.9
    assert left(standing) == [forever, short, long]
    now[0] += 0.1
    assert left(standing) == [forever, long]
    now[0] += 1e6
    assert left(standing) == [forever]
    assert start().columns.id.tolist() == [forever], "also in the registry"


def test_listening_keeps_it_and_the_time_begins_when_the_last_leaves(made: Any) -> None:
    start, now = made
    standing = start()
    [id] = add(standing, 10.0)
    ids, bells = np.array([id, 999]), [asyncio.Event(), asyncio.Event()]
    now[0] += 9
    windows = [standing.listen(QuerySet(ids), [], bell) for bell in bells]
    now[0] += 1000
    assert left(standing) == [id]
    standing.leave(ids, windows[0], [], bells[0])
    now[0] += 1000
    assert left(standing) == [id], "one still listens"
    standing.leave(ids, windows[1], [], bells[1])
    now[0] += 9.9
    assert left(standing) == [id]
    now[0] += 0.1
    assert left(standing) == []


def test_it_survives_a_restart_and_its_time_begins_anew(made: Any) -> None:
    start, now = made
    [id] = add(start(), 10.0)
    now[0] += 9
    again = start()
    now[0] += 9
    assert left(again) == [id]
    now[0] += 1
    assert left(again) == []


def test_one_that_is_dropped_by_hand_is_forgotten(made: Any) -> None:
    start, now = made
    standing = start()
    first, second = add(standing, 10.0, 10.0)
    windows = standing.listen(QuerySet(np.array([first])), [], bell := asyncio.Event())
    standing.drop(np.array([first]))
    standing.leave(np.array([first]), windows, [], bell)
    now[0] += 10
    assert left(standing) == []
    assert standing._leases.over().tolist() == []
    assert second not in standing._leases._since


def test_a_registry_of_before_is_brought_up_to_date(tmp_path: Path) -> None:
    columns = "stream, key, window, phi, eps, owner, created"
    row = f"INSERT INTO queries ({columns}) VALUES ('latency', 'null', 'all', 0.5, 0.1, 'me', 1)"
    folder = older(tmp_path / "state", 1, row)
    for _ in range(2):
        registry = Registry(str(folder))
        [found] = registry.rows("SELECT * FROM queries")
        assert (found["stream"], found["idle"]) == ("latency", None)
        assert registry.rows("PRAGMA user_version")[0][0] == VERSION
        registry.close()


def test_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CARE", 0.05)
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        with serving(configure(tmp_path)) as client:
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
