"""What the server tells of itself: alive, ready, measurements."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.naive import STREAMS, Served
from tests.server.serving import configure, make_store, serving, traffic


def measured(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Samples by their names and labels."""
    found = client.get("/metrics")
    assert (found.status_code, found.headers["content-type"].split(";")[0]) == (200, "text/plain")
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }


def test_numbers_of_streams(client: httpx.Client, served: Served) -> None:
    found = measured(client)
    for name in STREAMS:
        assert found["quantide_stream_ready", f"stream={name}"] == 1
        assert found["quantide_stream_values", f"stream={name}"] == len(served.rows[name].values)
        assert found["quantide_stream_version", f"stream={name}"] == served.stores[name].stats()["version"]
        assert found["quantide_stream_looked_seconds", f"stream={name}"] < 60
        assert found["quantide_stream_memory_bytes", f"stream={name}"] > 0


def test_requests_are_counted_by_their_route(client: httpx.Client) -> None:
    route, before = "/api/streams/{stream}/quantiles", measured(client)
    for key, status in (("/pay", "200"), ("/pay", "200"), ("nobody", "404"), ("x" * 2000, "400")):
        found = client.get("/api/streams/latency/quantiles", params={"phi": 0.25, "key": key, "window": "last:123"})
        assert str(found.status_code) == status
    for name in range(20):
        client.get(f"/nothing/{name}")
    after = measured(client)
    counted = {
        status: after["quantide_requests_total", f"route={route}", f"status={status}"]
        - before.get(("quantide_requests_total", f"route={route}", f"status={status}"), 0)
        for status in ("200", "404", "400")
    }
    assert counted == {"200": 2, "404": 1, "400": 1}, "one that is told again counts, too"
    seconds = ("quantide_request_seconds_count", f"route={route}")
    assert after[seconds] - before.get(seconds, 0) == 4
    routes = {label for name, *labels in after for label in labels if label.startswith("route=")}
    assert not any("nothing" in label or "latency" in label for label in routes), "an address is no route"


def test_events_are_counted_but_not_timed(client: httpx.Client) -> None:
    with client.stream("GET", "/api/events?stream=latency") as told:
        assert told.status_code == 200
        next(told.iter_lines())
    found = measured(client)
    assert ("quantide_request_seconds_count", "route=/api/events") not in found


def test_health(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    found = client.get("/readyz").json()
    assert (found["ready"], found["waiting"], set(found["streams"])) == (True, {}, set(STREAMS))


def test_a_stream_that_is_not_there_yet(tmp_path: Path) -> None:
    with serving(configure(tmp_path)) as client:
        assert client.get("/healthz").status_code == 200
        found = client.get("/readyz")
        assert (found.status_code, found.json()["ready"]) == (503, False)
        assert "there is no history" in found.json()["waiting"]["latency"]
        assert str(tmp_path) not in found.text, "where it lies is nobody's business"
        told = measured(client)
        assert told["quantide_stream_ready", "stream=latency"] == 0
        assert ("quantide_stream_values", "stream=latency") not in told


def test_a_stream_that_is_not_followed_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with make_store(tmp_path) as store:
        traffic(store, np.random.default_rng(1), 10, 0.0)
        with serving(configure(tmp_path)) as client:
            assert client.get("/readyz").status_code == 200
            monkeypatch.setattr("quantide.server.health.STALE", -1.0)
            found = client.get("/readyz")
            assert found.status_code == 503
            assert "commits were last looked for 0 s ago" in found.json()["waiting"]["latency"]
