"""Liveness, readiness and metrics."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.exact_streams import STREAMS, Served
from tests.server.running_server import configure, make_store, run_server, traffic


def measured(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Parse samples by their names and labels."""
    response = client.get("/metrics")
    assert (response.status_code, response.headers["content-type"].split(";")[0]) == (200, "text/plain")
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_numbers_of_streams(client: httpx.Client, served: Served) -> None:
    result = measured(client)
    for name in STREAMS:
        assert result["quantide_stream_ready", f"stream={name}"] == 1
        assert result["quantide_stream_values", f"stream={name}"] == len(served.rows[name].values)
        assert result["quantide_stream_version", f"stream={name}"] == served.stores[name].stats()["version"]
        assert result["quantide_stream_looked_seconds", f"stream={name}"] < 60
        assert result["quantide_stream_memory_bytes", f"stream={name}"] > 0
        for counter in ("requests", "retries", "fetched_bytes", "stored_bytes", "cache_hits"):
            assert result[f"quantide_stream_storage_{counter}_total", f"stream={name}"] == 0, "it is in a folder"


def test_requests_are_counted_by_their_route(client: httpx.Client) -> None:
    route, before = "/api/streams/{stream}/quantiles", measured(client)
    for key, status in (("/pay", "200"), ("/pay", "200"), ("nobody", "404"), ("x" * 2000, "400")):
        response = client.get("/api/streams/latency/quantiles", params={"phi": 0.25, "key": key, "window": "last:123"})
        assert str(response.status_code) == status
    for name in range(20):
        client.get(f"/nothing/{name}")
    after = measured(client)
    counted = {
        status: after["quantide_requests_total", f"route={route}", f"status={status}"]
        - before.get(("quantide_requests_total", f"route={route}", f"status={status}"), 0)
        for status in ("200", "404", "400")
    }
    assert counted == {"200": 2, "404": 1, "400": 1}, "a cached response counts, too"
    seconds = ("quantide_request_seconds_count", f"route={route}")
    assert after[seconds] - before.get(seconds, 0) == 4
    routes = {label for name, *labels in after for label in labels if label.startswith("route=")}
    assert not any("nothing" in label or "latency" in label for label in routes), "an address is no route"


def test_events_are_counted_but_not_timed(client: httpx.Client) -> None:
    with client.stream("GET", "/api/events?stream=latency") as response:
        assert response.status_code == 200
        next(response.iter_lines())
    result = measured(client)
    assert ("quantide_request_seconds_count", "route=/api/events") not in result


def test_health(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    body = client.get("/readyz").json()
    assert (body["ready"], body["waiting"], set(body["streams"])) == (True, {}, set(STREAMS))


def test_a_stream_that_is_not_there_yet(tmp_path: Path) -> None:
    with run_server(configure(tmp_path)) as client:
        assert client.get("/healthz").status_code == 200
        response = client.get("/readyz")
        assert (response.status_code, response.json()["ready"]) == (503, False)
        assert "nothing was ingested yet" in response.json()["waiting"]["latency"]
        assert str(tmp_path) not in response.text, "where it lies is nobody's business"
        result = measured(client)
        assert result["quantide_stream_ready", "stream=latency"] == 0
        assert ("quantide_stream_values", "stream=latency") not in result


def test_a_stream_that_is_not_followed_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_store(tmp_path) as store:
        traffic(store, np.random.default_rng(1), 10, 0.0)
        with run_server(configure(tmp_path)) as client:
            assert client.get("/readyz").status_code == 200
            monkeypatch.setattr("quantide.server.routes.health_routes.STALE", -1.0)
            response = client.get("/readyz")
            assert response.status_code == 503
            assert "the last poll for commits was 0 s ago" in response.json()["waiting"]["latency"]
