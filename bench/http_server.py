"""The server: queries over HTTP at a fixed rate during ingestion, and continuous queries with many subscribers."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from bench.collection import Subject
from bench.ingestion import BEGIN, file_values, key_codes, key_names, write_file
from bench.processes import PATIENCE, ROOT, Child, exchange, own_bytes, status
from bench.report import Row, say, sized
from bench.timing import clock, scratch, spread
from quantide import History

WINDOWS, QUERY_WINDOWS = ("within:5m", "within:30s", "last:1000", "all"), ("last:1000", "within:1m")
ROUTE = "/api/streams/latency/quantiles"
WARM, WARM_COMMITS = 3.0, 3  # seconds of queries, and commits, that do not count
CONFIG = """store = "data"

[server]
port = {port}
state = "state"

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


class Server(Child):
    """`quantide COMMAND CONFIG` on a free port; `ready`: seconds until every stream could be queried."""

    def __init__(self, folder: Path, command: str, eps: float) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        (folder / "in").mkdir(parents=True, exist_ok=True)
        config, begun = folder / "quantide.toml", time.monotonic()
        config.write_text(CONFIG.format(port=self.port, eps=eps), encoding="utf-8")
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=120, trust_env=False)
        super().__init__(folder / f"{command}.log", "quantide", command, str(config))
        self.wait_for(self._is_ready)
        self.ready = time.monotonic() - begun

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return self.client.get("/readyz").status_code == 200
        return False

    def get(self, path: str, **params: Any) -> Any:
        response = self.client.get(path, params=params)
        response.raise_for_status()
        return response.json()

    def memory_bytes(self) -> int:
        return own_bytes(status(self.process.pid))


@contextmanager
def server(folder: Path, command: str, eps: float) -> Iterator[Server]:
    found = Server(folder, command, eps)
    with found, closing(found.client):
        yield found


def questions(s: Settings) -> dict[str, list[Row]]:
    """Measure mixes of queries, one after the other, against `quantide run`."""
    say(f"serve: {s.rate:,.0f} queries a second while files arrive")
    rng, names = np.random.default_rng(43), np.array(key_names(s.keys))
    old, codes = rng.lognormal(3, 1, s.history_rows), rng.integers(0, s.keys, s.history_rows)
    with scratch() as folder:
        with History(folder / "data" / "latency", eps=s.eps, keys="endpoint") as history:  # older than all that arrives
            for some in np.array_split(np.arange(len(old)), 5):
                times = pa.array(np.full(len(some), BEGIN - 10**12), pa.timestamp("us", "UTC"))
                history.append(old[some], key=names[codes[some]], times=times)
                history.end_step()
        feed = Feed(folder, s)
        with server(folder, "run", s.eps) as running:
            feed.start()
            time.sleep(s.warm)
            rows = [_mix(running, *mix, s, feed) for mix in mixes(s)]
            feed.stop()
            holds = _right(running, feed, old, codes, s)
    return {"questions": [row | {"holds": holds} for row in rows]}


def mixes(s: Settings) -> list[tuple[str, float, list[str]]]:
    """Return mixes of paths with their rates; where no query repeats, every phi differs."""
    rng, names, count = np.random.default_rng(41), key_names(s.keys), int(s.rate * (s.seconds + WARM)) + 1
    keys = [names[i] for i in rng.integers(0, len(names), count)]
    windows = [WINDOWS[i] for i in rng.integers(0, len(WINDOWS), count)]
    phis = np.round(rng.uniform(0.01, 0.999, count), 7)
    boards = [f"{ROUTE}?phi=0.5&phi=0.9&phi=0.99&key={key}&window={window}" for window in WINDOWS for key in names[:10]]
    any_key = [f"{ROUTE}?phi={p}&key={k}&window={w}" for p, k, w in zip(phis, keys, windows, strict=True)]
    return [
        ("dashboards: 30 queries about windows, repeated", s.rate, boards[:30]),
        ("dashboards: those, and 10 about all of history", s.rate, boards),
        ("mode=quick about everything, no phi twice", s.rate, [f"{ROUTE}?phi={phi}&mode=quick" for phi in phis]),
        ("any key, window and phi, none twice", s.rate / 4, any_key),
    ]


def _mix(running: Server, mix: str, rate: float, paths: list[str], s: Settings, feed: "Feed") -> Row:
    request = {"port": running.port, "rate": rate, "connections": s.connections}
    warm = int(rate * WARM) if len(paths) > rate * WARM else 0
    exchange("bench.http_clients", request | {"seconds": WARM, "paths": paths[:warm] or paths})
    before, load = feed.rows, request | {"seconds": s.seconds, "paths": paths[warm:]}
    taken, found = clock(exchange, "bench.http_clients", load)
    row = {"mix": mix, "asked_rate": rate, "rate": len(found["took"]) / found["seconds"], "failed": found["failed"]}
    row |= {"failures": found["failures"], "rows_per_s": (feed.rows - before) / taken, **spread(found["took"])}
    say(f"serve: {mix}: {row['rate']:.0f}/s, median {row['median'] * 1e3:.2f} ms, p99 {row['p99'] * 1e3:.2f} ms")
    return row


class Feed:
    """Thread that writes one file after the other."""

    def __init__(self, folder: Path, s: Settings) -> None:
        self._folder, self._settings, self.files, self._end = folder, s, 0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.start = self._thread.start

    @property
    def rows(self) -> int:
        return self.files * self._settings.file_rows

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        s, names = self._settings, np.array(key_names(self._settings.keys), dtype=object)
        while not self._end.wait(s.file_every):
            number, path = self.files + 1, self._folder / "in" / f"{self.files:06}.parquet"
            keys = names[key_codes(number, s.file_rows, s.keys)]
            write_file(path, file_values(number, s.file_rows), number * s.file_rows, endpoint=keys)
            self.files += 1


def _right(running: Server, feed: Feed, old: Any, codes: Any, s: Settings) -> bool:
    """Return True if answers about three keys are right once all files are ingested."""
    running.wait_for(lambda: running.get("/api/streams/latency")["n"] >= len(old) + feed.rows)
    numbers, right = range(1, feed.files + 1), True
    values = np.concatenate([old, *(file_values(number, s.file_rows) for number in numbers)])
    keys = np.concatenate([codes, *(key_codes(number, s.file_rows, s.keys) for number in numbers)])
    for code, name in enumerate(key_names(s.keys)[:3]):
        exact = np.sort(values[keys == code])
        for phi in (0.01, 0.5, 0.99):
            [answer] = running.get(ROUTE, phi=phi, key=name)["answers"]
            low, high = (int(np.searchsorted(exact, answer["value"], side)) for side in ("left", "right"))
            right &= answer["n"] == len(exact) and low + 1 <= answer["rank_hi"] and high >= answer["rank_lo"]
            right &= bool(answer["error"] <= s.eps)
    return right


def events(s: Settings) -> dict[str, list[Row]]:
    """Measure registration in one body, subscription, commits, and a restart."""
    say(f"serve: {s.queries:,} continuous queries, {s.listeners:,} subscribers")
    rng, names = np.random.default_rng(47), np.array(key_names(s.query_keys))

    def commit() -> tuple[int, float]:
        """Append values that grow from commit to commit, so that quantiles change; return the version and the time."""
        number, rows = commit.number, s.commit_rows  # type: ignore[attr-defined]
        values, keys = rng.lognormal(3, 1, rows) * 1.2**number, names[rng.integers(0, len(names), rows)]
        writer.append(values, key=keys, times=30.0 * number + rng.uniform(0, 30, rows))
        commit.number += 1  # type: ignore[attr-defined]
        return int(writer.stats()["version"]), time.time()

    commit.number = 0  # type: ignore[attr-defined]
    with scratch() as folder, History(folder / "data" / "latency", eps=s.eps, keys="endpoint") as writer:
        for _ in range(5):
            commit()
        with server(folder, "serve", s.eps) as running:
            row: Row = {"queries": s.queries, "memory_before": running.memory_bytes()}
            body = json.dumps(_queries(s))
            headers = {"Content-Type": "application/json"}
            seconds, response = clock(running.client.post, "/api/queries", content=body, headers=headers)
            if response.status_code != 201:
                raise RuntimeError(f"the queries were refused: {response.text[:500]}")
            row |= {"body_bytes": len(body), "registering": seconds, "memory_registered": running.memory_bytes()}
            row |= _subscribed(running, commit, s)
        with server(folder, "serve", s.eps) as running:
            kept = running.get("/api/queries", limit=1)["queries"]
            return {"events": [row | {"ready_again": running.ready, "kept": bool(kept)}]}


def _queries(s: Settings) -> list[dict[str, Any]]:
    """Return queries whose labels share them out to subscribers."""
    rng, names, count = np.random.default_rng(53), key_names(s.query_keys), s.queries
    keys, windows = rng.integers(0, len(names), count).tolist(), rng.integers(0, len(QUERY_WINDOWS), count).tolist()
    phis, epss = np.round(rng.uniform(0.01, 1, count), 4).tolist(), rng.uniform(0.005, 0.05, count).tolist()
    columns = ([names[key] for key in keys], [QUERY_WINDOWS[window] for window in windows], phis, epss)
    labels = [f"client-{i % s.listeners}" for i in range(count)]
    rows = (
        zip(("key", "window", "phi", "eps", "label"), row, strict=True) for row in zip(*columns, labels, strict=True)
    )
    return [{"stream": "latency", **dict(row)} for row in rows]


def _subscribed(running: Server, commit: Any, s: Settings) -> Row:
    begun, pipe = time.time(), subprocess.PIPE
    command = [sys.executable, "-m", "bench.http_clients"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            labels = [f"client-{i}" for i in range(s.listeners)]
            process.stdin.write(json.dumps({"port": running.port, "labels": labels}).encode() + b"\n")
            process.stdin.flush()
            connecting, commits = json.loads(process.stdout.readline())["begun"] - begun, []
            for _ in range(WARM_COMMITS + s.commits):
                commits.append(commit())
                time.sleep(s.commit_every)
            time.sleep(min(20.0, 2 * s.commit_every))
            memory = running.memory_bytes()
            process.stdin.close()
            found = json.loads(process.stdout.readline())
            process.wait(PATIENCE)
        finally:
            process.kill()
    return {"connecting": connecting, "memory_listening": memory} | reached(commits[WARM_COMMITS:], found, s)


def reached(commits: list[tuple[int, float]], found: dict[str, Any], s: Settings) -> Row:
    """Return the times from a commit to its subscribers; a version of joined files may stand for several commits."""
    times, changes = (
        {int(version): value for version, value in found[name].items()} for name in ("reached", "changes")
    )
    seen = [(version, at) for version, at in commits if version in times]
    row = {"listeners": s.listeners, "commits": len(seen), "failed": found["failed"]}
    row["changes_median"] = float(np.median([changes[version] for version, _ in seen]))
    row["first_median"] = float(np.median([min(times[version]) - at for version, at in seen]))
    row["holds"] = not found["backwards"] and not found["failures"]
    return row | spread([max(times[version]) - at for version, at in seen], "last_")


PARTS = {"questions": questions, "events": events}
SUBJECT = Subject("the server: queries over HTTP, events to many clients", Settings, PARTS)
