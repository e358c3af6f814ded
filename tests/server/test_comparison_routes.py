"""Comparisons over HTTP: those of the readers, with bounds that contain the exact results."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.client import Client
from quantide.errors import InvalidArgumentError
from quantide.server.routes import comparison_routes
from quantide.summary.comparison import Comparison
from quantide.summary.value_json import encode_comparison
from tests import comparison_oracle as oracle
from tests.oracle import target_rank
from tests.server.exact_streams import Served
from tests.server.running_server import configure, make_store, run_server
from tests.server.test_quantile_routes import check_refusal


def compare(client: httpx.Client, stream: str, **parameters: Any) -> Any:
    response = client.get(f"/api/streams/{stream}/compare", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def interval(field: dict[str, Any]) -> tuple[float, float]:
    return float(field["low"]), float(field["high"])


def test_results_contain_the_exact_ones(client: httpx.Client, served: Served) -> None:
    rows = served.rows["latency"]
    a, b = (np.asarray(rows.chosen(*key, **scope)).tolist() for key, scope in ((["/pay"], {"last": 300}), ([], {})))
    body = compare(client, "latency", key="/pay", window="last:300", against="latency", phi=[0.5, 0.99], bins=5)
    assert (body["n"], body["against"]["n"]) == (len(a), len(b))
    assert (body["window"], body["against"]["window"], len(body["splits"])) == ("last:300", "all", 4)
    assert oracle.contains(interval(body["ks"]), oracle.ks_distance(a, b))
    assert oracle.contains(interval(body["psi"]), oracle.stability_index(a, b, body["splits"], body["floor"]))
    for shift in body["shifts"]:
        x, y = (sorted(data)[target_rank(shift["phi"], len(data)) - 1] for data in (a, b))
        assert oracle.contains(interval(shift), oracle.difference(x, y))
        assert shift["is_above"] in ("not proved", "yes" if x > y else "no")


def test_the_client_parses_them(client: httpx.Client) -> None:
    body = compare(client, "latency", key="/pay", window="last:300", against="latency", phi=[0.5, 0.99], bins=5)
    with Client(str(client.base_url)) as remote:
        found = remote.compare("latency", "latency", [0.5, 0.99], 5, key="/pay", last=300)
        chosen = remote.compare("latency", "latency", bins=[1.0, 5.0], floor=0)
    assert found.ks == interval(body["ks"])
    assert found.shifts == {shift["phi"]: interval(shift) for shift in body["shifts"]}
    assert set(found.above.values()) <= {True, False, None}
    assert (found.n, found.against_version) == (body["n"], body["against"]["version"])
    assert chosen.ks[0] == 0
    assert chosen.psi[0] == 0


def test_a_reference_of_the_client_is_text(client: httpx.Client) -> None:
    with Client(str(client.base_url)) as remote, pytest.raises(InvalidArgumentError, match="write stream"):
        remote.compare("latency", {"key": "/pay"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"against": "latency", "bins": 1},
        {"against": "latency", "bins": 5, "split": 1.0},
        {"against": "latency", "split": [2.0, 1.0]},
        {"against": "latency", "floor": 1},
        {"against": "latency", "phi": 2},
        {"against": "latency@for:ever"},
    ],
)
def test_invalid_requests_are_refused(client: httpx.Client, parameters: dict[str, Any]) -> None:
    response = client.get("/api/streams/latency/compare", params=parameters)
    assert response.status_code == 400, response.text


def test_unknown_streams_and_keys_are_named(client: httpx.Client) -> None:
    for path in (
        "latency/compare?against=nowhere",
        "nowhere/compare?against=latency",
        "latency/compare?against=latency:no",
    ):
        response = client.get(f"/api/streams/{path}")
        assert response.status_code == 404
        assert check_refusal(response)


def test_differences_of_the_largest_integers(tmp_path: Path) -> None:
    """Differences of the largest integers have 65 bits: JSON can write them, the server's fast encoder cannot."""
    low, high = -(2**63), 2**63 - 1
    with make_store(tmp_path, keys=None, filters=None, value_type="int64") as store:
        store.append(np.array([low, high]), times=[1.0, 2.0])
    with run_server(configure(tmp_path)) as client, Client(str(client.base_url)) as remote:
        for window, against, shift in (("last:1", "all", high - low), ("all", "last:1", low - high)):
            body = compare(client, "latency", window=window, against=f"latency@{against}", phi=0.5)
            assert body["shifts"] == [
                {"phi": 0.5, "low": shift, "high": shift, "is_above": "yes" if shift > 0 else "no"}
            ]
        found = remote.compare("latency", "latency", [0.5], last=1)
        assert found.shifts == {0.5: (high - low, high - low)}


def test_results_are_computed_off_the_event_loop(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def encode(comparison: Comparison) -> dict[str, Any]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        threads.append(threading.current_thread())
        return encode_comparison(comparison)

    monkeypatch.setattr(comparison_routes, "encode_comparison", encode)
    compare(client, "latency", window="last:17", against="latency")
    assert len(threads) == 1


def test_errors_do_not_repeat_thousands_of_values(client: httpx.Client) -> None:
    response = client.get("/api/streams/counts/compare", params={"against": "counts", "split": ["0.5"] * 2_000})
    assert response.status_code == 400
    assert len(check_refusal(response)) < 400
