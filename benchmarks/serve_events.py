"""Many standing queries and many who listen: how long until all have heard of a commit, and what that takes."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ingest_data import key_names, parted
from benchmarks.process import ROOT
from benchmarks.report import Row, say
from benchmarks.serve_process import Started, configuration, own_memory, started
from benchmarks.serve_settings import Settings
from quantide import History

WINDOWS = ("last:1000", "within:1m")
WARM = 3  # commits that do not count
LATE = 20.0  # seconds after the last commit in which everything must have come


def events(settings: Settings) -> dict[str, list[Row]]:
    """Registered in one body, listened to, told of commits, and there again after a restart."""
    say(f"serve: {settings.queries:,} standing queries, {settings.listeners:,} listeners")
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as name:
        folder = Path(name)
        config = configuration(folder, settings.eps)
        with History(folder / "data" / "latency", eps=settings.eps, keys="endpoint") as writer:
            feed = Feed(writer, settings)
            for _ in range(5):
                feed.commit()
            with started("serve", config) as server:
                row = registered(server, settings)
                row |= listened(server, feed, settings)
            with started("serve", config) as server:
                again = server.client.get("/api/queries", params={"limit": 1}).json()
                row |= {"ready_again": server.ready, "kept": bool(again["queries"])}
    return {"events": [row]}


class Feed:
    """Commits; values grow from one to the next, so that quantiles must change."""

    def __init__(self, writer: History, settings: Settings) -> None:
        self._writer, self._settings = writer, settings
        self._rng = np.random.default_rng(47)
        self._names = np.array(key_names(settings.query_keys))
        self.number = 0

    def commit(self) -> tuple[int, float]:
        """The version that it made, and when it was there."""
        rows = self._settings.commit_rows
        values = self._rng.lognormal(3, 1, rows) * 1.2**self.number
        keys = self._names[self._rng.integers(0, len(self._names), rows)]
        times = 30.0 * self.number + self._rng.uniform(0, 30, rows)
        self._writer.append(values, key=keys, times=times)
        self.number += 1
        return int(self._writer.stats()["version"]), time.time()


def queries_of(settings: Settings) -> list[dict[str, Any]]:
    """Each listener's own, by its label."""
    rng, names = np.random.default_rng(53), key_names(settings.query_keys)
    count = settings.queries
    keys, windows = rng.integers(0, len(names), count).tolist(), rng.integers(0, len(WINDOWS), count).tolist()
    phis, epss = np.round(rng.uniform(0.01, 1, count), 4).tolist(), rng.uniform(0.005, 0.05, count).tolist()
    return [
        {
            "stream": "latency",
            "key": names[keys[i]],
            "window": WINDOWS[windows[i]],
            "phi": phis[i],
            "eps": epss[i],
            "label": label_of(i % settings.listeners),
        }
        for i in range(count)
    ]


def label_of(listener: int) -> str:
    return f"client-{listener}"


def registered(server: Started, settings: Settings) -> Row:
    before = own_memory(server.process.pid)
    body = json.dumps(queries_of(settings))
    begun = time.perf_counter()
    found = server.client.post("/api/queries", content=body, headers={"Content-Type": "application/json"})
    seconds = time.perf_counter() - begun
    if found.status_code != 201:
        raise RuntimeError(f"the queries were refused: {found.text[:500]}")
    memory = {"memory_before": before, "memory_registered": own_memory(server.process.pid)}
    return {"queries": settings.queries, "body_bytes": len(body), "registering": seconds} | memory


def listened(server: Started, feed: Feed, settings: Settings) -> Row:
    begun = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.serve_listen"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        labels = [label_of(i) for i in range(settings.listeners)]
        process.stdin.write(json.dumps({"port": server.port, "labels": labels}).encode() + b"\n")
        process.stdin.flush()
        connecting = json.loads(process.stdout.readline())["begun"] - begun
        commits: list[tuple[int, float]] = []
        for _ in range(WARM + settings.commits):
            commits.append(feed.commit())
            time.sleep(settings.commit_every)
        time.sleep(min(LATE, 2 * settings.commit_every))
        memory = own_memory(server.process.pid)
        process.stdin.close()
        found = json.loads(process.stdout.readline())
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    return {"connecting": connecting, "memory_listening": memory} | reached(commits[WARM:], found, settings)


def reached(commits: list[tuple[int, float]], found: dict[str, Any], settings: Settings) -> Row:
    """From a commit to the last that was told of it. When the writer joins files, that is a version of its own."""
    told = {int(version): times for version, times in found["told"].items()}
    changes = {int(version): count for version, count in found["changes"].items()}
    heard = [(version, at) for version, at in commits if version in told]
    last = [max(told[version]) - at for version, at in heard]
    return {
        "listeners": settings.listeners,
        "commits": len(heard),
        "commits_joined": len(commits) - len(heard),
        "events_median": float(np.median([len(told[version]) for version, _ in heard])),
        "changes_median": float(np.median([changes[version] for version, _ in heard])),
        "first_median": float(np.median([min(told[version]) - at for version, at in heard])),
        "holds": not found["backwards"] and not found["failures"],
        "failed": found["failed"],
    } | {f"last_{name}": value for name, value in parted(last).items()}
