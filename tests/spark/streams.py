"""Streams for tests: a folder in which files arrive, a configuration, and the expected content of the store."""

import io
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quantide import History
from quantide.config import read_config
from quantide.live import LiveStream
from quantide.spark.ingest import ingest
from tests.object_servers.object_location import ObjectLocation
from tests.oracle import bound_faults, exact_quantile

CREDENTIALS = {"access_key_id": "FEED_KEY", "secret_access_key": "FEED_SECRET"}  # environment variables
PHIS = (0.001, 0.5, 0.99, 1.0)
KEYS = ("a", "b", "c")


class Feed:
    """Writes files into a stream's folder and remembers their values. The store is a folder, or in object storage."""

    def __init__(
        self,
        folder: Path,
        settings: str = "",
        source: str = 'format = "parquet"',
        location: ObjectLocation | None = None,
    ) -> None:
        self.folder, self.incoming, self.store = folder, folder / "in", folder / "data" / "s"
        self.location = location
        self.incoming.mkdir()
        self.config = folder / "quantide.toml"
        self.rng = np.random.default_rng(5)
        self.values: list[np.ndarray[Any, Any]] = []
        self.keys: list[str] = []
        self.times: list[np.ndarray[Any, Any]] = []
        self.configure(settings, source)

    def configure(self, settings: str, source: str = 'format = "parquet"') -> None:
        path = "" if "rate" in source else ', path = "in", settle = "300 ms"'
        store = 'store = "data"\n' if self.location is None else configure_store(self.location)
        text = f"{store}[streams.s]\nsource = {{ {source}{path} }}\n"
        self.timed, self.filtered = 'time = "t"' in settings, "filters" in settings
        self.config.write_text(text + ("" if "value =" in settings else 'value = "v"\n') + settings)

    def write(self, name: str, rows: int = 1000, **more: Any) -> Path:
        """Write a file that appears at once, by a rename."""
        path = self.incoming / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(self.make_rows(rows, **more), path.with_name("." + path.name))
        os.rename(path.with_name("." + path.name), path)
        return path

    def make_rows(self, rows: int = 1000, **more: Any) -> pa.Table:
        """Return new rows, and remember them."""
        values = self.rng.normal(size=rows)
        keys = [KEYS[i] for i in self.rng.integers(0, len(KEYS), rows)]
        times = len(self.times) * 60 + self.rng.uniform(-90, 90, rows)  # in no order, and late
        self.values.append(values)
        self.keys += keys
        self.times.append(times)
        return pa.table({"v": values, "k": keys, "t": times, **more})

    def ingest(self, **how: Any) -> str:
        """Ingest all files."""
        out = io.StringIO()
        ingest(read_config(self.config), out, once=True, **how)
        return out.getvalue()

    def history(self) -> History:
        """Open the store."""
        stream = read_config(self.config).streams["s"]
        return History(stream.folder, storage_options=stream.storage_options or None)

    @property
    def rows(self) -> int:
        """Number of rows in the store, which need not exist."""
        stream = read_config(self.config).streams["s"]
        return self.history().n if stream.open_storage().list_files("_delta_log") else 0

    def check(self) -> None:
        """Check that every value is stored once, and that answers are right."""
        data = np.concatenate([np.empty(0), *self.values])
        history = self.history()
        assert history.verify().values == history.n == len(data)
        for phi in PHIS:
            answer = history.answer(phi)
            assert bound_faults(data, answer) == []
            assert history.quantile(phi, "exact") == exact_quantile(data, phi)
        if self.timed:
            self._check_windows(data, np.concatenate(self.times))
        if history.settings.keys:
            for key in KEYS:
                mine = data[np.array(self.keys) == key]
                assert history.quantile(0.5, "exact", key=key) == exact_quantile(mine, 0.5)

    def _check_windows(self, data: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> None:
        """Check answers of a live reader about spans of time, keys and the filter "big", which is v > 1."""
        stream = read_config(self.config).streams["s"]
        with LiveStream(stream.folder, follow=False, storage_options=stream.storage_options or None) as live:
            for span, key in product((10, 100, 1000), (None, *KEYS) if live.keys() else (None,)):
                chosen = times > times.max() - span
                if key is not None:
                    chosen &= np.array(self.keys) == key
                answer = live.answer(0.9, within=span, key=key)
                assert (answer.n, bound_faults(data[chosen], answer)) == (chosen.sum(), [])
                if self.filtered and (big := data[chosen & (data > 1)]).size:
                    answer = live.answer(0.9, within=span, key=key, filter="big")
                    assert (answer.n, bound_faults(big, answer)) == (len(big), [])


def configure_options(text: str, location: ObjectLocation) -> str:
    """Return a configuration with the options of object storage, for a source; credentials are in the environment."""
    named = {name: f"env:{variable}" for name, variable in CREDENTIALS.items() if name in location.options}
    lines = [f'{name} = "{value}"\n' for name, value in (location.options | named).items()]
    return text.replace("[streams.s]", f"[storage_options]\n{''.join(lines)}[streams.s]")


def configure_store(location: ObjectLocation) -> str:
    """Return the head of a configuration of streams in object storage."""
    options = location.options | {name: f"env:{variable}" for name, variable in CREDENTIALS.items()}
    lines = [f'{name} = "{value}"\n' for name, value in options.items()]
    return f'store = "{location.uri}/data"\n[storage_options]\n{"".join(lines)}'


def credentials(location: ObjectLocation) -> dict[str, str]:
    """Return the environment variables that the configuration of a store in object storage names."""
    return {variable: location.options[name] for name, variable in CREDENTIALS.items()}
