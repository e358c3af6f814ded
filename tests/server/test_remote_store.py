"""A server whose streams are stored in a bucket: it follows them, and its registry lies on its own disk."""

import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide import History
from quantide.config import read_config
from tests.object_servers.object_location import ObjectLocation
from tests.server.running_server import STREAM, run_server, traffic


@pytest.fixture
def path(s3_store: ObjectLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of a store that does not exist yet."""
    for name in ("QUANTIDE_STATE", "QUANTIDE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    options = s3_store.options | {"access_key_id": "env:STORE_KEY", "secret_access_key": "env:STORE_SECRET"}
    monkeypatch.setenv("STORE_KEY", s3_store.options["access_key_id"])
    monkeypatch.setenv("STORE_SECRET", s3_store.options["secret_access_key"])
    lines = "".join(f'{name} = "{value}"\n' for name, value in options.items())
    file = tmp_path / "quantide.toml"
    file.write_text(f'store = "{s3_store.uri}/q"\n[storage_options]\n{lines}[server]\nport = 0\n{STREAM}')
    return file


def test_a_stream_in_a_bucket_is_served(path: Path, rng: np.random.Generator) -> None:
    config = read_config(path)
    stream = config.streams["latency"]
    with run_server(config) as client:
        missing = client.get("/readyz")
        assert missing.status_code == 503
        assert config.store not in missing.text, "every client may request it"
        assert "nothing was ingested yet" in missing.text
    options = dict(stream.storage_options)
    settings: dict[str, Any] = {"eps": 0.01, "keys": "endpoint", "filters": ["errors"], "window": "24 hours"}
    with History(stream.folder, storage_options=options, **settings) as history:
        values = traffic(history, rng, 500, time.time() - 60)
        with run_server(config) as client:
            assert wait_for_median(client, 500) == np.sort(values)[249]
            query = {"stream": "latency", "phi": 0.5, "window": "last:1000"}
            assert client.post("/api/queries", json=query).status_code == 201
            more = traffic(history, rng, 500, time.time() - 30)
            assert wait_for_median(client, 1000) == np.sort(np.concatenate([values, more]))[499]
            shown = "".join(client.get(route).text for route in ("/api/streams", "/readyz", "/metrics"))
    with run_server(config) as client:
        assert len(client.get("/api/queries").json()["queries"]) == 1, "the registry survives a restart"
    assert Path(config.server.state).is_relative_to(path.parent / "QUANTIDE_STATE")
    assert options["secret_access_key"] not in shown


def wait_for_median(client: httpx.Client, rows: int) -> float:
    """Return the median of the last rows, all of which are in memory, once the server has so many."""
    query: dict[str, Any] = {"phi": 0.5, "window": f"last:{rows}", "mode": "exact"}
    while True:
        response = client.get("/api/streams/latency/quantiles", params=query)
        assert response.status_code == 200, response.text
        if response.json()["n"] == rows:
            return float(response.json()["answers"][0]["value"])
        time.sleep(0.05)
