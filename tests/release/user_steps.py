"""Steps of a user, in an environment that has nothing but Quantide and one extra: `python user_steps.py EXTRA`.

It is copied there, and imports nothing else of the tests.
"""

import importlib
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import quantide
from quantide import StreamSketch, Summary
from quantide.errors import MissingPackageError, ServerError

VALUES = np.random.default_rng(11).lognormal(3, 1, 50_000)
PHIS = (0.01, 0.5, 0.99, 1.0)
EPS = 0.01
CONFIG = """
store = "data"
[server]
port = 0
[streams.latency]
source = { format = "parquet", path = "in" }
value = "ms"
"""


def check(value: float, target: int, error: float) -> None:
    """A value is no further from its rank than `error`, found by sorting; and that is no more than was promised."""
    ordered = np.sort(VALUES)
    lo, hi = int(np.searchsorted(ordered, value, "left")) + 1, int(np.searchsorted(ordered, value, "right"))
    assert lo <= hi, f"{value} never arrived"
    assert max(lo - target, target - hi, 0) <= error * len(VALUES)
    assert error <= EPS


def core() -> None:
    sketch = StreamSketch(EPS)
    for part in np.array_split(VALUES, 7):
        sketch.update(part)
    again = StreamSketch.from_bytes(sketch.to_bytes())
    for phi in PHIS:
        answer = sketch.answer(phi)
        check(answer.value, answer.target, answer.error)
        assert again.answer(phi) == answer
    assert again.to_bytes() == sketch.to_bytes()


def without() -> None:
    """Every extra that is absent is named by what needs it."""
    assert "quantide[history]" in refusal(lambda: quantide.History("data"))
    assert "quantide[plot]" in refusal(lambda: Summary.of(VALUES).plot())
    read = importlib.import_module("quantide.histograms").from_datasketches
    assert "quantide[histograms]" in refusal(lambda: read(b"", "kll_doubles"))
    for room in ("history", "spark", "server", "client"):
        assert f"quantide[{room}]" in refusal(partial(importlib.import_module, f"quantide.{room}"))
    assert "quantide[history]" in refusal(partial(importlib.import_module, "quantide.live"))


def refusal(use: Callable[[], object]) -> str:
    """Return the message of an error."""
    try:
        use()
    except MissingPackageError as error:
        return str(error)
    raise AssertionError("it could be done")


def history() -> None:
    with quantide.History("store", eps=EPS) as made:
        made.append(VALUES[:30_000])
        made.end_step()
        made.append(VALUES[30_000:])
        for phi in PHIS:
            answer = made.answer(phi)
            check(answer.value, answer.target, answer.error)
    command = ["quantide", "quantile", "store", "0.5", "--mode", "exact", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["answers"][0]["value"] == np.sort(VALUES)[len(VALUES) // 2 - 1]


def server() -> None:
    Path("quantide.toml").write_text(CONFIG)
    with quantide.History("data/latency", eps=EPS) as made:
        made.append(VALUES)
    with subprocess.Popen(["quantide", "serve", "quantide.toml"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            assert f'"n":{len(VALUES)}' in got(f"{url}/api/streams/latency/quantiles?phi=0.5").replace(" ", "")
            for path in ("/", "/page/main.js", "/page/plotly.min.js", "/docs", "/metrics"):
                assert len(got(url + path)) > 100, path
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def client() -> None:
    from quantide.client import Client

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with suppress(ServerError), Client(f"http://127.0.0.1:{port}") as asking:
        asking.streams()
        raise AssertionError("somebody answered")


def spark() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    from quantide.spark import quantiles

    pq.write_table(pa.table({"ms": VALUES}), "ms.parquet")
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = quantiles("ms.parquet", "ms", list(PHIS), eps=EPS).collect()
    finally:
        session.stop()
    assert [row.phi for row in rows] == list(PHIS)
    for row in rows:
        check(row.value, int(max(1, np.ceil(row.phi * len(VALUES) - 1e-9))), EPS)


def histograms() -> None:
    """A sketch of another library, which the extra brings, and its bytes."""
    library, ours = importlib.import_module("datasketches"), importlib.import_module("quantide.histograms")
    sketch = library.kll_doubles_sketch(200)
    sketch.update(VALUES)
    for found in (ours.from_datasketches(sketch), ours.from_datasketches(sketch.serialize(), "kll_doubles")):
        assert (found.n, found.max) == (len(VALUES), max(VALUES))


def plot() -> None:
    axes: Any = Summary.of(VALUES).plot()
    axes.figure.savefig("summary.png")
    assert Path("summary.png").read_bytes().startswith(b"\x89PNG")


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as response:
        return str(response.read().decode())


if __name__ == "__main__":
    assert "site-packages" in quantide.__file__, quantide.__file__
    for wanted in sys.argv[1:]:
        globals()[wanted]()
