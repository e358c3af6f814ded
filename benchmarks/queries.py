"""A million standing queries beside a bare sketch of the same stream, in one run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Report, Row, say
from benchmarks.timing import blocks, clock, interleave
from quantide import Monitor, MonitorGroup, StreamSketch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """`checked`: queries, taken at random at the end of every block, whose answers are compared with the values."""

    queries: int = 1_000_000
    values: int = 8_000_000
    block: int = 50_000
    eps: float = 0.001
    precisions: tuple[tuple[float, float], ...] = ((0.002, 0.05), (0.02, 0.05))
    rounds: int = 5
    other_rounds: int = 2
    singles: int = 20_000
    checked: int = 20_000
    keys: int = 100_000
    keyed_blocks: int = 100


HOUR = Settings()
QUICK = Settings(
    queries=2_000,
    values=60_000,
    block=5_000,
    rounds=1,
    other_rounds=1,
    singles=50,
    checked=200,
    keys=300,
    keyed_blocks=4,
)


@dataclass(frozen=True)
class Case:
    """Queries with phi uniform in (0, 1] and precisions uniform in a range, and a stream of uniform values."""

    phis: Floats
    epss: Floats
    values: Floats
    settings: Settings

    @classmethod
    def make(cls, precisions: tuple[float, float], settings: Settings) -> "Case":
        rng = np.random.default_rng(20060504)
        phis = 1 - rng.random(settings.queries)
        return cls(phis, rng.uniform(*precisions, settings.queries), rng.random(settings.values), settings)

    def blocks(self) -> Iterator[Floats]:
        return (self.values[part] for part in blocks(len(self.values), self.settings.block))

    def monitor(self, clustering: str = "online", updates: str = "triggers") -> tuple[Monitor, NDArray[np.int64]]:
        monitor = Monitor(self.settings.eps, clustering, updates)
        return monitor, monitor.register_many(self.phis, self.epss)


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("queries", settings, {"all": _measure}, command, folder, missing=[])


def _measure(settings: Settings) -> dict[str, list[Row]]:
    cases = {precisions: Case.make(precisions, settings) for precisions in settings.precisions}
    _warm(settings)
    found: dict[str, list[Row]] = {"stream": [], "methods": [], "registering": [], "checked": []}
    for precisions, case in cases.items():
        name = f"{precisions[0]:g}..{precisions[1]:g}"
        say(f"queries: {settings.queries:,} of precision {name}")
        found["stream"].append({"precision": name, **_stream(case)})
        found["registering"].append({"precision": name, **_registering(case)})
        found["checked"].append({"precision": name, **_checked(case)})
    found["methods"] = _methods(cases[settings.precisions[0]])
    found["keys"] = [_keys(settings)]
    return found


def _warm(settings: Settings) -> None:
    """Compile and load everything before the clock runs."""
    for clustering in ("online", "worst-case", "fewest"):
        for updates in ("triggers", "together"):
            monitor = Monitor(settings.eps, clustering, updates)
            ids = monitor.register_many(np.linspace(0.1, 1, 50), 0.05)
            for _ in range(4):
                monitor.update(np.arange(3000.0))
                monitor.drop(monitor.register(0.5, 0.02))
                len(monitor.changes().ids)
            monitor.answers(ids)


def _bare(case: Case) -> StreamSketch:
    sketch = StreamSketch(case.settings.eps)
    for block in case.blocks():
        sketch.update(block)
    return sketch


class Watched:
    """Feeding a monitor on which all queries are registered and clustered; each round a new one, made beforehand.

    `read`: nothing ("no"), how many queries changed ("changes"), or which ("ids").
    """

    def __init__(self, case: Case, read: str, clustering: str = "online", updates: str = "triggers") -> None:
        self.case, self.read = case, read
        monitor, _ = case.monitor(clustering, updates)
        monitor.update(case.values[: int(2 / case.settings.eps)])
        monitor.changes()
        self.state = monitor.to_bytes()
        self.monitor = monitor

    def prepare(self) -> None:
        self.monitor = Monitor.from_bytes(self.state)

    def __call__(self) -> Monitor:
        for block in self.case.blocks():
            self.monitor.update(block)
            if self.read != "no":
                changes = self.monitor.changes()
                len(changes.ids if self.read == "ids" else changes)
        return self.monitor


def _timed(bare: Callable[[], Any], jobs: dict[str, Watched], rounds: int) -> tuple[float, dict[str, float]]:
    """Best seconds of the bare sketch and of each job, in interleaved rounds."""
    plain, best = float("inf"), dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        plain = min(plain, clock(bare)[0])
        for name, job in jobs.items():
            job.prepare()
            best[name] = min(best[name], clock(job)[0])
    return plain, best


def _stream(case: Case) -> Row:
    jobs = {name: Watched(case, read) for name, read in (("read", "changes"), ("ids", "ids"), ("unread", "no"))}
    bare, best = _timed(lambda: _bare(case), jobs, case.settings.rounds)
    stats = jobs["read"].monitor.stats()
    return {
        "bare": round(bare, 6),
        "read": round(best["read"], 6),
        "unread": round(best["unread"], 6),
        "ids_ratio": round(best["ids"] / bare, 3),
        "ratio": round(best["read"] / bare, 3),
        "unread_ratio": round(best["unread"] / bare, 3),
        **{name: stats[name] for name in ("clusters", "evaluations", "summaries")},
    }


def _methods(case: Case) -> list[Row]:
    """Every way to cluster and to update, read after every block."""
    ways = [(c, u) for c in ("online", "worst-case", "fewest") for u in ("triggers", "together")]
    jobs = {f"{c}, {u}": Watched(case, "changes", c, u) for c, u in ways}
    bare, best = _timed(lambda: _bare(case), jobs, case.settings.other_rounds)
    rows = []
    for clustering, updates in ways:
        name = f"{clustering}, {updates}"
        stats = jobs[name].monitor.stats()
        rows.append(
            {
                "clustering": clustering,
                "updates": updates,
                "seconds": round(best[name], 6),
                "ratio": round(best[name] / bare, 3),
                **{name: stats[name] for name in ("clusters", "evaluations", "summaries")},
            }
        )
    return rows


def _registering(case: Case) -> Row:
    """All queries at once, with their clustering; then single ones among them."""
    timed = interleave([(lambda: _registered(case), case.settings.other_rounds)])[0]
    monitor = timed.result
    some = list(zip(case.phis[: case.settings.singles], case.epss[: case.settings.singles], strict=True))
    registering, ids = clock(lambda: [monitor.register(phi, eps) for phi, eps in some])
    dropping, _ = clock(lambda: [monitor.drop(one) for one in ids])
    return {
        "many": round(timed.best, 6),
        "register": round(registering / len(some), 9),
        "drop": round(dropping / len(some), 9),
    }


def _registered(case: Case) -> Monitor:
    monitor, _ = case.monitor()
    monitor.update(case.values[: int(2 / case.settings.eps)])
    monitor.changes()
    return monitor


def _checked(case: Case) -> Row:
    """At the end of every block, whether answers have the precision of their queries; the largest part of it used."""
    monitor, ids = case.monitor()
    rng = np.random.default_rng(7)
    worst, end, asked = 0.0, 0, 0
    for block in case.blocks():
        monitor.update(block)
        end += len(block)
        ordered = np.sort(case.values[:end])
        some = rng.integers(0, len(ids), min(len(ids), case.settings.checked))
        found = monitor.answers(ids[some]).values
        target = np.maximum(1, np.ceil(case.phis[some] * end - 1e-9))
        first, last = np.searchsorted(ordered, found) + 1, np.searchsorted(ordered, found, side="right")
        far = np.maximum(np.maximum(first - target, target - last), 0) / end
        worst = max(worst, float((far / case.epss[some]).max()))
        asked += len(some)
    return {"answers": asked, "worst": worst, "holds": worst <= 1}


def _keys(settings: Settings) -> Row:
    """Three queries a key; blocks of rows whose keys are uniform, changes read after each."""
    rng = np.random.default_rng(3)
    group = MonitorGroup(0.01)
    keys = np.repeat(np.arange(settings.keys), 3)
    phis = np.tile([0.5, 0.9, 0.99], settings.keys)
    say(f"queries: {len(keys):,} of {settings.keys:,} keys")
    registering, _ = clock(lambda: group.register_many(keys, phis, 0.05))
    updating = reading = 0.0
    for _ in range(settings.keyed_blocks):
        own, values = rng.integers(0, settings.keys, settings.block), rng.random(settings.block)
        updating += clock(partial(group.update, own, values))[0]
        reading += clock(group.changes)[0]
    rows = settings.keyed_blocks * settings.block
    return {
        "keys": settings.keys,
        "queries": len(keys),
        "rows": rows,
        "register": round(registering, 6),
        "update": round(updating, 6),
        "changes": round(reading, 6),
        "rows_per_s": round(rows / (updating + reading)),
        "evaluations": group.stats()["evaluations"],
    }
