"""Quantile questions over HTTP, at a fixed rate, while Spark takes in files beside."""

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.ingest_data import BEGIN, key_codes, key_names, parted, values_of, write_file
from benchmarks.report import Row, say
from benchmarks.serve_process import PATIENCE, Started, configuration, started, tool
from benchmarks.serve_settings import Settings
from quantide import History

WINDOWS = ("within:5m", "within:30s", "last:1000", "all")
ROUTE = "/api/streams/latency/quantiles"
CHECKED = 200  # questions whose answers are compared with all rows at the end
WARM = 3.0  # seconds of questions that do not count


def questions(settings: Settings) -> dict[str, list[Row]]:
    """Mixes of questions, one after the other, against `quantide run`."""
    say(f"serve: {settings.rate:,.0f} questions a second while files come in")
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as name:
        folder = Path(name)
        config = configuration(folder, settings.eps)
        backfill(folder, settings)
        feeding = Feeding(folder, settings)
        with started("run", config) as server:
            feeding.start()
            time.sleep(settings.warm)
            rows = [measured(server, *mix, settings, feeding) for mix in mixes(settings)]
            feeding.stop()
            holds = right(server, feeding, settings)
    return {"questions": [row | {"holds": holds} for row in rows]}


def mixes(settings: Settings) -> list[tuple[str, float, list[str]]]:
    """Questions by what they are like, and how many a second. Where none is asked twice, every phi is another."""
    rng, names = np.random.default_rng(41), key_names(settings.keys)
    count = int(settings.rate * (settings.seconds + WARM)) + 1
    key = [names[i] for i in rng.integers(0, len(names), count)]
    window = [WINDOWS[i] for i in rng.integers(0, len(WINDOWS), count)]
    phi = np.round(rng.uniform(0.01, 0.999, count), 7)
    three = "phi=0.5&phi=0.9&phi=0.99"
    boards = [f"{ROUTE}?{three}&key={one}&window={window}" for window in WINDOWS for one in names[:10]]
    any_key = [f"{ROUTE}?phi={p}&key={k}&window={w}" for p, k, w in zip(phi, key, window, strict=True)]
    quick = [f"{ROUTE}?phi={p}&mode=quick" for p in phi]
    return [
        ("dashboards: 30 questions about windows, again and again", settings.rate, boards[:30]),
        ("dashboards: those, and 10 about all of history", settings.rate, boards),
        ("mode=quick about everything, no phi twice", settings.rate, quick),
        ("any key, window and phi, none twice", settings.rate / 4, any_key),
    ]


def measured(server: Started, mix: str, rate: float, paths: list[str], settings: Settings, feeding: "Feeding") -> Row:
    asked = {"port": server.port, "rate": rate, "connections": settings.connections}
    warm = int(rate * WARM) if len(paths) > rate * WARM else 0
    tool("benchmarks.serve_load", asked | {"seconds": WARM, "paths": paths[:warm] or paths})
    before, begun = feeding.rows, time.perf_counter()
    found = tool("benchmarks.serve_load", asked | {"seconds": settings.seconds, "paths": paths[warm:]})
    ingested = (feeding.rows - before) / (time.perf_counter() - begun)
    row = {
        "mix": mix,
        "asked_rate": rate,
        "rate": len(found["took"]) / found["seconds"],
        "failures": found["failures"],
        "failed": found["failed"],
        "rows_per_s": ingested,
    } | parted(found["took"])
    say(f"serve: {mix}: {row['rate']:.0f}/s, median {row['median'] * 1e3:.2f} ms, p99 {row['p99'] * 1e3:.2f} ms")
    return row


class Feeding:
    """Files that come, one after the other, until it is told to stop."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.files = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def rows(self) -> int:
        return self.files * self._settings.file_rows

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._settings.file_every):
            values, keys = file_of(self.files + 1, self._settings)
            first = (self.files + 1) * self._settings.file_rows
            write_file(self._folder / "in" / f"{self.files:06}.parquet", values, first, endpoint=keys)
            self.files += 1


def file_of(number: int, settings: Settings) -> tuple[Any, list[str]]:
    """The values and the keys of a file."""
    names = key_names(settings.keys)
    codes = key_codes(number, settings.file_rows, settings.keys)
    return values_of(number, settings.file_rows), [names[code] for code in codes]


def old_rows(settings: Settings) -> tuple[Any, Any]:
    """The values and the codes of the keys that are there before."""
    rng = np.random.default_rng(43)
    return rng.lognormal(3, 1, settings.history_rows), rng.integers(0, settings.keys, settings.history_rows)


def backfill(folder: Path, settings: Settings) -> None:
    """Ended steps of history, older than all that comes."""
    values, codes = old_rows(settings)
    names = np.array(key_names(settings.keys))
    with History(folder / "data" / "latency", eps=settings.eps, keys="endpoint") as history:
        for some in np.array_split(np.arange(len(values)), 5):
            old = pa.array(np.full(len(some), BEGIN - 10**12), pa.timestamp("us", "UTC"))
            history.append(values[some], key=names[codes[some]], times=old)
            history.end_step()


def right(server: Started, feeding: Feeding, settings: Settings) -> bool:
    """Whether answers over everything are right, once all files are in."""
    old, codes = old_rows(settings)
    files = [file_of(number, settings) for number in range(1, feeding.files + 1)]
    total = len(old) + feeding.rows
    last = time.monotonic() + PATIENCE
    while server.get("/api/streams/latency")["n"] < total:
        if time.monotonic() > last:
            raise TimeoutError("files that came are not in the store")
        time.sleep(0.1)
    names = key_names(settings.keys)
    ok = True
    for name in names[:3]:
        mine = [old[codes == names.index(name)], *(v[np.array(k) == name] for v, k in files)]
        exact = np.sort(np.concatenate(mine))
        for phi in (0.01, 0.5, 0.99):
            [answer] = server.get(ROUTE, phi=phi, key=name)["answers"]
            low, high = (int(np.searchsorted(exact, answer["value"], side)) for side in ("left", "right"))
            ok &= answer["n"] == len(exact) and low + 1 <= answer["rank_hi"] and high >= answer["rank_lo"]
            ok &= bool(answer["error"] <= settings.eps)
    return ok
