"""Routes that read, against the reader itself."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from quantide import Summary
from quantide.live import LiveStream
from tests.server.serving import configure, make_store, serving, traffic


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(5)
    with make_store(folder) as history:
        for step in range(4):
            traffic(history, rng, 2000, step * 10.0)
            if step < 3:
                history.end_step()
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with serving(configure(folder)) as found:
        yield found


def test_quantiles_are_those_of_the_reader(client: httpx.Client, folder: Path) -> None:
    found = client.get("/api/streams/latency/quantiles", params={"phi": [0.5, 0.99], "key": "/pay"}).json()
    with LiveStream(folder / "data" / "latency", follow=False) as live:
        expected = live.answers([0.5, 0.99], key="/pay")
    assert [one["value"] for one in found["answers"]] == [float(a.value) for a in expected]
    assert [one["rank_lo"] for one in found["answers"]] == [a.rank_lo for a in expected]
    assert found["n"] == expected[0].n


def test_a_summary_can_be_taken_away(client: httpx.Client) -> None:
    data = client.get("/api/streams/latency/summary", params={"window": "last:1000"}).content
    assert Summary.from_bytes(data).n == 1000
