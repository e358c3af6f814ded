"""Routes about streams: counts, keys, spans, lag; and streams without a store."""

import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide import History
from tests.server.exact_streams import EPS, STREAMS, Served
from tests.server.running_server import configure, make_store, run_server, traffic
from tests.server.test_quantile_routes import check_refusal

OF_STREAM = ["", "/keys", "/quantiles?phi=0.5", "/rank?value=1", "/cdf", "/summary"]


def test_all_streams(client: httpx.Client, served: Served) -> None:
    body = client.get("/api/streams").json()["streams"]
    assert [one["name"] for one in body] == list(STREAMS)
    for one in body:
        rows, settings = served.rows[one["name"]], STREAMS[one["name"]]
        assert (one["ready"], one["n"], one["eps"], one["window"]) == (True, len(rows.values), EPS, "1 h")
        assert one["value_type"] == rows.kind
        keys = settings.get("keys", [])
        assert one["key_columns"] == ([keys] if isinstance(keys, str) else keys)
        assert one["filters"] == settings.get("filters", [])
        assert one["version"] == served.stores[one["name"]].stats()["version"]
        assert 0 <= one["lag"]["looked"] < 60


def test_how_far_behind(client: httpx.Client, served: Served) -> None:
    """`lag.newest` needs timestamps; seconds may count from any origin."""
    assert client.get("/api/streams/latency").json()["lag"].keys() == {"looked"}
    assert client.get("/api/streams/latency").json()["newest"] == max(served.rows["latency"].times)
    for name in ("moments", "prices"):
        body = client.get(f"/api/streams/{name}").json()
        newest = np.datetime64(body["newest"]).astype("M8[us]").astype(np.int64) / 1e6
        assert body["lag"]["newest"] == pytest.approx(time.time() - newest, abs=60)


def test_one_stream(client: httpx.Client, served: Served) -> None:
    for name, rows in served.rows.items():
        body = client.get(f"/api/streams/{name}").json()
        ended, n = rows.steps[-1], len(rows.values)
        assert (body["counts"]["history_values"], body["counts"]["stream_values"]) == (ended, n - ended)
        assert (body["counts"]["steps"], body["counts"]["recent_values"]) == (len(rows.steps) - 1, n)
        assert body["spans"][-1]["n"] == n
        for span in body["spans"]:
            assert span["n"] == len(rows.chosen(steps=span["last_steps"]))
        assert sum(level["n"] for level in body["levels"]) == ended
        chunks = sum(path.stat().st_size for path in Path(served.stores[name].path).rglob("*.parquet"))
        assert 0 < sum(level["bytes"] for level in body["levels"]) < body["bytes"]["history"] <= chunks
        assert body["kappa"] == served.stores[name].settings.kappa
        distinct = {key for key in rows.keys if key is not None}
        assert body["key_count"] == len(distinct) == len(body["keys"])
        assert body["memory"]["used"] <= body["memory"]["limit"]
        assert body["bytes"]["history"] > 0


@pytest.mark.parametrize(
    ("stream", "parameters", "count", "keys"),
    [
        ("latency", {}, 3, ["/cart", "/pay", "@last:5"]),
        ("latency", {"contains": "A"}, 3, ["/cart", "/pay", "@last:5"]),
        ("latency", {"contains": "/", "limit": 1}, 2, ["/cart"]),
        ("latency", {"contains": ".*"}, 0, []),
        ("latency", {"contains": "\x00"}, 0, []),
        ("latency", {"contains": "😀"}, 0, []),
        ("prices", {"contains": "us"}, 3, [["us", 0], ["us", 1], ["us", 2]]),
        ("prices", {"contains": "2"}, 2, [["eu", 2], ["us", 2]]),
        ("plain", {}, 0, []),
    ],
)
def test_keys(client: httpx.Client, stream: str, parameters: Any, count: int, keys: Any) -> None:
    assert client.get(f"/api/streams/{stream}/keys", params=parameters).json() == {"count": count, "keys": keys}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/api/streams?x=1", "there is none"),
        ("/api/streams/latency?window=all", "there is none"),
        ("/api/streams/latency/keys?limit=0", "greater than or equal to 1"),
        ("/api/streams/latency/keys?limit=1001", "less than or equal to 1000"),
        ("/api/streams/latency/keys?limit=many", "integer"),
        ("/api/streams/latency/keys?limit=1&limit=2", "give it once"),
        ("/api/streams/latency/keys?contain=a", "there are contains, limit"),
        (f"/api/streams/latency/keys?contains={'a' * 101}", "at most 100"),
    ],
)
def test_wrong_parameters(client: httpx.Client, address: str, expected: str) -> None:
    response = client.get(address)
    assert (response.status_code, expected in check_refusal(response)) == (400, True), response.text


def wait_until_ready(client: httpx.Client, name: str) -> Any:
    for _ in range(600):
        body = {one["name"]: one for one in client.get("/api/streams").json()["streams"]}[name]
        if body["ready"]:
            return body
        time.sleep(0.02)
    pytest.fail(f"{body} is not ready after all")


def test_a_stream_becomes_ready_while_the_server_runs(tmp_path: Path) -> None:
    """The server serves other streams before; a file in place of the store does no harm."""
    other = '[streams.other]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\n'
    config = configure(
        tmp_path, streams=other + '[streams.latency]\nsource = { format = "parquet", path = "in" }\nvalue = "v"\n'
    )
    place = tmp_path / "data" / "latency"
    log = place / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("not a log")
    with History(tmp_path / "data" / "other") as store, run_server(config) as client:
        store.append([1.0, 2.0])
        body = {one["name"]: one for one in client.get("/api/streams").json()["streams"]}
        assert (body["latency"].keys(), body["latency"]["ready"]) == ({"name", "ready", "why"}, False)
        assert len(body["latency"]["why"]) > 10
        assert "\n" not in body["latency"]["why"]
        for what in OF_STREAM:
            refused = client.get(f"/api/streams/latency{what}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready"), what
            assert str(tmp_path) not in refused.text
        while wait_until_ready(client, "other")["n"] < 2:
            pass
        assert client.get("/api/qq?x=other&y=latency").status_code == 503
        (log / f"{0:020}.json").unlink()
        log.rmdir()
        with make_store(tmp_path) as made:
            empty = wait_until_ready(client, "latency")
            assert (empty["n"], empty["newest"]) == (0, None)
            for what in OF_STREAM[2:]:
                refused = client.get(f"/api/streams/latency{what}")
                assert (refused.status_code, refused.json()["error"]["code"]) == (404, "empty"), what
            assert client.get("/api/streams/latency/keys").json() == {"count": 0, "keys": []}
            traffic(made, np.random.default_rng(1), 10, 0.0)
            while client.get("/api/streams/latency").json()["n"] < 10:
                pass
            for what in OF_STREAM:
                assert client.get(f"/api/streams/latency{what}").status_code == 200, what


def test_a_stream_that_cannot_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All routes of a stream that cannot be followed report the error, and work again after it."""
    with make_store(tmp_path) as store:
        traffic(store, np.random.default_rng(1), 10, 0.0)
        with run_server(configure(tmp_path)) as client:
            assert client.get("/api/streams/latency/quantiles?phi=0.5").status_code == 200
            with monkeypatch.context() as broken:
                broken.setattr("quantide.live.live_stream.LiveStream.poll", _fail)
                for _ in range(600):
                    if client.get("/readyz").status_code == 503:
                        break
                    time.sleep(0.02)
                [one] = client.get("/api/streams").json()["streams"]
                assert (one["ready"], one["why"]) == (False, "commits cannot be followed: the disk is gone")
                for what in OF_STREAM[2:]:
                    refused = client.get(f"/api/streams/latency{what}")
                    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage"), what
            wait_until_ready(client, "latency")
            assert client.get("/api/streams/latency/quantiles?phi=0.5").status_code == 200


def _fail(_live: Any) -> bool:
    raise OSError("the disk is gone")
