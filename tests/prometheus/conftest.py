"""A server over one stream with keys and a filter, whose rows are all known."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import pytest

from tests.server.running_server import STREAM, configure, make_store, run_server

ROWS, SECONDS = 6_000, 600
METRICS = 'metrics = { quantiles = [0.5, 0.99], windows = ["5m"], keys = ["/pay"] }\n'
OTHERS = """
[streams."web.latency-2"]
source = { format = "parquet", path = "in" }
value = "ms"
unit = "ms"
[streams.absent]
source = { format = "parquet", path = "in" }
value = "ms"
"""


@dataclass(frozen=True)
class Shop:
    """Rows of the stream `latency`: ten minutes up to about now, in order of arrival; and a client of the server."""

    client: httpx.Client
    now: int
    values: Any
    keys: Any
    times: Any
    errors: Any

    def rows(self, at: float, window: float, key: str | None = None, errors: bool = False) -> Any:
        """Return the sorted values of (at - window, at]."""
        chosen = (self.times > at - window) & (self.times <= at)
        if key is not None:
            chosen &= self.keys == key
        if errors:
            chosen &= self.errors
        return np.sort(self.values[chosen])

    def data(self, path: str, **parameters: Any) -> Any:
        """Return the data of a successful request."""
        response = self.client.get(f"/api/v1/{path}", params=parameters)
        assert response.status_code == 200, response.text
        assert response.json()["status"] == "success"
        return response.json()["data"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder, rng, now = tmp_path_factory.mktemp("shop"), np.random.default_rng(3), int(time.time())
    values = np.round(rng.lognormal(3, 1, ROWS), 1)  # with ties
    keys = rng.choice(["/cart", "/pay", "/a.b", ""], ROWS)
    times = now - SECONDS + np.sort(np.round(rng.uniform(0, SECONDS - 5, ROWS), 3))
    times[1000:1100] = times[1000:1100][::-1]  # out of order
    errors = rng.random(ROWS) < 0.2
    with (
        make_store(folder, window="8 min") as store,
        make_store(folder, "web.latency-2", keys=None, filters=None) as other,
    ):
        for part in np.array_split(np.arange(ROWS), 12):
            store.append(values[part], key=keys[part], times=times[part], filters={"errors": errors[part]})
        other.append([1.0, 2.0, 3.0], times=[now - 3.0, now - 2.0, now - 1.0])
        with run_server(configure(folder, streams=STREAM + METRICS + OTHERS)) as client:
            yield Shop(client, now, values, keys, times, errors)
