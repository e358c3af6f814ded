"""Streams for tests: a folder with files that arrive, a configuration, and what must be in the store at the end."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quantide import History
from quantide.config import read_config
from quantide.spark.ingest import ingest
from tests.oracle import bound_faults, exact_quantile

PHIS = (0.001, 0.5, 0.99, 1.0)
KEYS = ("a", "b", "c")


class Feed:
    """Writes files into a stream's folder and remembers their values."""

    def __init__(self, folder: Path, settings: str = "", source: str = 'format = "parquet"') -> None:
        self.folder, self.incoming, self.store = folder, folder / "in", folder / "data" / "s"
        self.incoming.mkdir()
        self.config = folder / "quantide.toml"
        self.rng = np.random.default_rng(5)
        self.values: list[np.ndarray[Any, Any]] = []
        self.keys: list[str] = []
        self.configure(settings, source)

    def configure(self, settings: str, source: str = 'format = "parquet"') -> None:
        path = "" if "rate" in source else ', path = "in", settle = "300 ms"'
        text = f'store = "data"\n[streams.s]\nsource = {{ {source}{path} }}\n'
        self.config.write_text(text + ("" if "value =" in settings else 'value = "v"\n') + settings)

    def write(self, name: str, rows: int = 1000, **more: Any) -> Path:
        """A file that appears at once, as files should."""
        values = self.rng.normal(size=rows)
        keys = [KEYS[i] for i in self.rng.integers(0, len(KEYS), rows)]
        path = self.incoming / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"v": values, "k": keys, **more}), path.with_name("." + path.name))
        os.rename(path.with_name("." + path.name), path)
        self.values.append(values)
        self.keys += keys
        return path

    def ingest(self, **how: Any) -> str:
        """Take in what is there."""
        out = io.StringIO()
        ingest(read_config(self.config), out, once=True, **how)
        return out.getvalue()

    def check(self) -> None:
        """Every value is there once, and answers are right."""
        data = np.concatenate([np.empty(0), *self.values])
        history = History(self.store)
        assert history.verify().values == history.n == len(data)
        for phi in PHIS:
            answer = history.answer(phi)
            assert bound_faults(data, answer) == []
            assert history.quantile(phi, "exact") == exact_quantile(data, phi)
        if history.settings.keys:
            for key in KEYS:
                mine = data[np.array(self.keys) == key]
                assert history.quantile(0.5, "exact", key=key) == exact_quantile(mine, 0.5)
