"""The server: queries over HTTP at a fixed rate during ingestion, and continuous queries with many subscribers."""

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench import http_clients
from bench.collection import Subject
from bench.ingestion import BEGIN, file_values, key_codes, key_names, write_file
from bench.inputs import answer_holds
from bench.processes import Child, new_process, status, status_bytes
from bench.report import Row, sized
from bench.timing import clock, scratch, spread
from quantide import History

WINDOWS, QUERY_WINDOWS = ("within:5m", "within:30s", "last:1000", "all"), ("last:1000", "within:1m")
ROUTE = "/api/streams/latency/quantiles"
WARM, WARM_COMMITS = 3.0, 3  # seconds of queries, and commits, that do not count
CONFIG = """store = "data"
server = {{ port = {port}, state = "state" }}
[streams.latency]
source = {{ format = "parquet", path = "in" }}
value = "v"
time = "t"
keys = ["endpoint"]
eps = {eps:g}
"""


@dataclass(frozen=True)
class Settings:
    """Queries at `rate` for `seconds` while files arrive, after `warm` seconds; then `queries` of `listeners`."""

    eps: float = sized(0.001, quick=0.01)
    rate: float = sized(1_000.0, quick=50.0)
    seconds: float = sized(20.0, quick=2.0)
    connections: int = sized(64, quick=4)
    keys: int = sized(200, quick=5)
    history_rows: int = sized(10_000_000, quick=20_000)
    file_rows: int = sized(20_000, quick=500)
    file_every: float = sized(1.0, quick=0.3)
    warm: float = sized(60.0, 30.0, 1.0)
    queries: int = sized(100_000, quick=200)
    query_keys: int = sized(100, quick=4)
    listeners: int = sized(1_000, quick=10)
    commits: int = sized(30, 15, 3)
    commit_rows: int = sized(20_000, quick=1_000)
    commit_every: float = sized(2.0, quick=0.3)


@dataclass
class Server:
    """Process that serves on a port; `ready`: seconds until every stream could be queried."""

    child: Child
    port: int
    client: httpx.Client
    ready: float = 0.0

    def get(self, path: str, **params: Any) -> Any:
        return self.client.get(path, params=params).raise_for_status().json()

    def is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return self.client.get("/readyz").status_code == 200
        return False


@contextmanager
def server(folder: Path, command: str, eps: float, more: str = "") -> Iterator[Server]:
    """Start `quantide COMMAND CONFIG` on a free port; `more` are settings of the stream."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    config, address = folder / "quantide.toml", f"http://127.0.0.1:{port}"
    client = httpx.Client(base_url=address, timeout=120, trust_env=False)
    (folder / "in").mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG.format(port=port, eps=eps) + more, encoding="utf-8")
    with client, Child(folder / f"{command}.log", "quantide", command, str(config)) as child:
        running = Server(child, port, client)
        running.ready, _ = clock(child.wait_for, running.is_ready)
        yield running


@contextmanager
def repeated(job: Callable[[], Any], every: float) -> Iterator[None]:
    """Call a job at a fixed rate, in a thread, until the context ends."""
    end, begun = threading.Event(), time.monotonic()

    def run() -> None:
        for number in count(1):
            if end.wait(begun + number * every - time.monotonic()):
                return
            job()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield
        finally:
            end.set()
        running.result()


def questions(s: Settings) -> list[Row]:
    """Measure mixes of queries, one after the other, against `quantide run`."""
    rng, names = np.random.default_rng(43), np.array(key_names(s.keys), dtype=object)
    values, codes = [rng.lognormal(3, 1, s.history_rows)], [rng.integers(0, s.keys, s.history_rows)]

    def feed() -> None:
        number = len(values)
        values.append(file_values(number, s.file_rows))
        codes.append(key_codes(number, s.file_rows, s.keys))
        path = folder / "in" / f"{number:06}.parquet"
        write_file(path, values[-1], number * s.file_rows, endpoint=names[codes[-1]])

    with scratch() as folder:
        with History(folder / "data" / "latency", eps=s.eps, keys="endpoint") as history:
            older = pa.array(np.full(s.history_rows, BEGIN - 10**12), pa.timestamp("us", "UTC"))
            history.append(values[0], key=names[codes[0]], times=older)
            history.end_step()
        with server(folder, "run", s.eps) as running:
            with repeated(feed, s.file_every):
                time.sleep(s.warm)
                rows = [_mix(running, *mix, s, values) for mix in mixes(s)]
            holds = _right(running, np.concatenate(values), np.concatenate(codes), s)
    return [row | {"holds": holds} for row in rows]


def mixes(s: Settings) -> list[tuple[str, float, list[str]]]:
    """Return mixes of paths with their rates; where no query repeats, every phi differs."""
    rng, names, number = np.random.default_rng(41), key_names(s.keys), int(s.rate * (s.seconds + WARM)) + 1
    boards = [f"{ROUTE}?phi=0.5&phi=0.9&phi=0.99&key={key}&window={window}" for window in WINDOWS for key in names[:10]]
    phis = [f"{ROUTE}?phi={phi:.7f}" for phi in rng.uniform(0.01, 0.999, number)]
    scopes = zip(phis, rng.choice(names, number), rng.choice(WINDOWS, number), strict=True)
    return [
        ("dashboards: 30 queries about windows, repeated", s.rate, boards[:30]),
        ("dashboards: those, and 10 about all of history", s.rate, boards),
        ("mode=quick about everything, no phi twice", s.rate, [f"{phi}&mode=quick" for phi in phis]),
        ("any key, window and phi, none twice", s.rate / 4, [f"{p}&key={k}&window={w}" for p, k, w in scopes]),
    ]


def _mix(running: Server, mix: str, rate: float, paths: list[str], s: Settings, files: list[Any]) -> Row:
    warm = int(rate * WARM) if len(paths) > rate * WARM else 0
    with new_process() as clients:
        clients.submit(http_clients.load, running.port, paths[:warm] or paths, rate, WARM, s.connections).result()
        before, load = len(files), (running.port, paths[warm:], rate, s.seconds, s.connections)
        seconds, took, failed = clients.submit(http_clients.load, *load).result()
    row = {"mix": mix, "asked_rate": rate, "rate": len(took) / seconds, "failed": failed[:10], "failures": len(failed)}
    return row | {"rows_per_s": (len(files) - before) * s.file_rows / seconds, **spread(took)}


def _right(running: Server, values: Any, codes: Any, s: Settings) -> bool:
    """Return True if answers about three keys are right once all files are ingested."""
    running.child.wait_for(lambda: running.get("/api/streams/latency")["n"] >= len(values))
    for code, name in enumerate(key_names(s.keys)[:3]):
        exact = np.sort(values[codes == code])
        answers = running.get(ROUTE, phi=[0.01, 0.5, 0.99], key=name)["answers"]
        if not all(answer_holds(SimpleNamespace(**answer), exact, s.eps * len(exact)) for answer in answers):
            return False
    return True


def events(s: Settings) -> list[Row]:
    """Measure registration in one body, subscription, commits, and a restart."""
    rng, names, numbers = np.random.default_rng(47), key_names(s.query_keys), count()

    def commit() -> tuple[int, float]:
        """Append values that grow from commit to commit, so that quantiles change; return the version and the time."""
        number, rows = next(numbers), s.commit_rows
        times = 30.0 * number + rng.uniform(0, 30, rows)
        writer.append(rng.lognormal(3, 1, rows) * 1.2**number, key=rng.choice(names, rows), times=times)
        return int(writer.stats()["version"]), time.time()

    columns = {
        "stream": ["latency"] * s.queries,
        "key": rng.choice(names, s.queries),
        "window": rng.choice(QUERY_WINDOWS, s.queries),
        "phi": np.round(rng.uniform(0.01, 1, s.queries), 4),
        "eps": rng.uniform(0.005, 0.05, s.queries),
        "label": [f"client-{i % s.listeners}" for i in range(s.queries)],
    }
    body, headers = json.dumps(pa.table(columns).to_pylist()), {"Content-Type": "application/json"}
    with scratch() as folder, History(folder / "data" / "latency", eps=s.eps, keys="endpoint") as writer:
        for _ in range(5):
            commit()
        with server(folder, "serve", s.eps) as running:
            seconds, response = clock(running.client.post, "/api/queries", content=body, headers=headers)
            response.raise_for_status()
            row = {"queries": s.queries, "registering": seconds} | _subscribed(running, commit, s)
        with server(folder, "serve", s.eps) as running:
            registered = running.get("/api/monitors", limit=1)["totals"]["queries"]
            return [row | {"ready_again": running.ready, "kept": registered == s.queries}]


def _subscribed(running: Server, commit: Callable[[], tuple[int, float]], s: Settings) -> Row:
    """Measure from a commit to the last change that it causes at a subscriber; the server may join commits."""
    labels, commits = [f"client-{i}" for i in range(s.listeners)], []
    with new_process() as clients:
        row: Row = {"connecting": clients.submit(http_clients.subscribe, running.port, labels).result()}
        for _ in range(WARM_COMMITS + s.commits):
            commits.append(commit())
            time.sleep(s.commit_every)
        time.sleep(min(20.0, 2 * s.commit_every))
        row |= {"listeners": s.listeners, "memory_listening": status_bytes(status(running.child.process.pid))}
        found, backwards = clients.submit(http_clients.received).result()
    client, version, arrived, changes = map(np.array, zip(*found, strict=True))
    versions, begun = zip(*commits[WARM_COMMITS:], strict=True)
    first, last, changed, joined = list[float](), list[float](), list[int](), 0
    for start, end, at in zip(versions, (*versions[1:], math.inf), begun, strict=True):
        own = (version >= start) & (version < end)  # files are joined in versions of their own
        others = np.setdiff1d(np.arange(s.listeners), client[own])  # they received this commit with a later one
        later = [arrived[(client == one) & (version >= end)].min(initial=math.inf) for one in others]
        times = np.append(arrived[own], later)
        joined += len(others)
        first.append(times.min() - at)
        last.append(times.max() - at)
        changed.append(int(changes[own].sum()))
    holds = backwards == 0 and math.isfinite(max(last))
    row |= {"commits": len(versions), "backwards": backwards, "joined": joined, "holds": holds}
    row |= {"changes_median": float(np.median(changed)), "first_median": float(np.median(first))}
    return row | spread(last, "last_")


PARTS = {"questions": questions, "events": events}
SUBJECT = Subject("the server: queries over HTTP, events to many clients", Settings, PARTS)
