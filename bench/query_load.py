"""A million continuous queries beside a bare sketch of the same stream, in one run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.collection import Subject
from bench.inputs import Floats, targets
from bench.report import Row, say, sized
from bench.timing import blocks, clock, interleave
from quantide import Monitor, MonitorGroup, StreamSketch

WAYS = [(c, u) for c in ("online", "worst-case", "fewest") for u in ("triggers", "together")]
COUNTS = ("clusters", "evaluations", "summaries")


@dataclass(frozen=True)
class Settings:
    """`checked`: queries, chosen at random at the end of every block, whose answers are compared with the values."""

    queries: int = sized(1_000_000, quick=2_000)
    values: int = sized(8_000_000, quick=60_000)
    block: int = sized(50_000, quick=5_000)
    eps: float = 0.001
    precisions: tuple[tuple[float, float], ...] = ((0.002, 0.05), (0.02, 0.05))
    rounds: int = sized(5, quick=1)
    other_rounds: int = sized(2, quick=1)
    singles: int = sized(20_000, quick=50)
    checked: int = sized(20_000, quick=200)
    keys: int = sized(100_000, quick=300)
    keyed_blocks: int = sized(100, quick=4)


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

    def bare(self) -> StreamSketch:
        sketch = StreamSketch(self.settings.eps)
        for block in self.blocks():
            sketch.update(block)
        return sketch

    def clustered(self, *ways: str) -> Monitor:
        """Return a monitor whose queries are registered and clustered."""
        monitor, _ = self.monitor(*ways)
        monitor.update(self.values[: int(2 / self.settings.eps)])
        monitor.changes()
        return monitor


class Feed:
    """Feed of a monitor, a new copy in each round. `read`: nothing, the number of changed queries, or their ids."""

    def __init__(self, case: Case, read: str, *ways: str) -> None:
        self.case, self.read, self.monitor = case, read, case.clustered(*ways)
        self.state = self.monitor.to_bytes()

    def prepare(self) -> None:
        self.monitor = Monitor.from_bytes(self.state)

    def __call__(self) -> None:
        for block in self.case.blocks():
            self.monitor.update(block)
            if self.read != "nothing":
                changes = self.monitor.changes()
                len(changes.ids if self.read == "ids" else changes)


def measure(settings: Settings) -> dict[str, list[Row]]:
    _warm(settings)
    found: dict[str, list[Row]] = {"stream": [], "methods": [], "registering": [], "checked": []}
    for low, high in settings.precisions:
        case, name = Case.make((low, high), settings), {"precision": f"{low:g}..{high:g}"}
        say(f"queries: {settings.queries:,} of precision {name['precision']}")
        found["stream"].append(name | _stream(case))
        found["registering"].append(name | _registering(case))
        found["checked"].append(name | _checked(case))
    found["methods"] = _methods(Case.make(settings.precisions[0], settings))
    return found | {"keys": [_keys(settings)]}


def _warm(settings: Settings) -> None:
    """Compile and load everything before the clock runs."""
    for ways in WAYS:
        monitor = Monitor(settings.eps, *ways)
        ids = monitor.register_many(np.linspace(0.1, 1, 50), 0.05)
        for _ in range(4):
            monitor.update(np.arange(3000.0))
            monitor.drop(monitor.register(0.5, 0.02))
            len(monitor.changes().ids)
        monitor.answers(ids)


def _timed(bare: Callable[[], Any], jobs: dict[str, Feed], rounds: int) -> tuple[float, dict[str, float]]:
    """Return the best seconds of the bare sketch and of each job, in interleaved rounds."""
    plain, best = float("inf"), dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        plain = min(plain, clock(bare)[0])
        for name, job in jobs.items():
            job.prepare()
            best[name] = min(best[name], clock(job)[0])
    return plain, best


def _stream(case: Case) -> Row:
    jobs = {name: Feed(case, read) for name, read in (("read", "changes"), ("ids", "ids"), ("unread", "nothing"))}
    bare, best = _timed(case.bare, jobs, case.settings.rounds)
    stats = jobs["read"].monitor.stats()
    row = {"bare": round(bare, 6), "read": round(best["read"], 6), "unread": round(best["unread"], 6)}
    row |= {"ids_ratio": round(best["ids"] / bare, 3), "ratio": round(best["read"] / bare, 3)}
    return row | {"unread_ratio": round(best["unread"] / bare, 3)} | {name: stats[name] for name in COUNTS}


def _methods(case: Case) -> list[Row]:
    """Measure every clustering and every kind of update, with changes read after every block."""
    jobs = {", ".join(ways): Feed(case, "changes", *ways) for ways in WAYS}
    bare, best = _timed(case.bare, jobs, case.settings.other_rounds)
    rows = []
    for clustering, updates in WAYS:
        seconds, stats = best[f"{clustering}, {updates}"], jobs[f"{clustering}, {updates}"].monitor.stats()
        row: Row = {"clustering": clustering, "updates": updates, "seconds": round(seconds, 6)}
        row |= {"ratio": round(seconds / bare, 3)}
        rows.append(row | {name: stats[name] for name in COUNTS})
    return rows


def _registering(case: Case) -> Row:
    """Register all queries at once, with their clustering, then single ones among them."""
    timed = interleave({"": case.clustered}, case.settings.other_rounds)[""]
    monitor, few = timed.result, slice(case.settings.singles)
    pairs = list(zip(case.phis[few], case.epss[few], strict=True))
    registering, ids = clock(lambda: [monitor.register(phi, eps) for phi, eps in pairs])
    dropping, _ = clock(lambda: [monitor.drop(one) for one in ids])
    each = {"register": round(registering / len(pairs), 9), "drop": round(dropping / len(pairs), 9)}
    return {"many": round(timed.best, 6)} | each


def _checked(case: Case) -> Row:
    """Compare answers with the values at the end of every block; return the largest part of a precision used."""
    monitor, ids = case.monitor()
    rng, worst, end, answers = np.random.default_rng(7), 0.0, 0, 0
    for block in case.blocks():
        monitor.update(block)
        end += len(block)
        ordered, some = np.sort(case.values[:end]), rng.integers(0, len(ids), min(len(ids), case.settings.checked))
        found, target = monitor.answers(ids[some]).values, targets(case.phis[some], end)
        first, last = np.searchsorted(ordered, found) + 1, np.searchsorted(ordered, found, side="right")
        far = np.maximum(np.maximum(first - target, target - last), 0) / end
        worst, answers = max(worst, float((far / case.epss[some]).max())), answers + len(some)
    return {"answers": answers, "worst": worst, "holds": worst <= 1}


def _keys(settings: Settings) -> Row:
    """Measure three queries a key, over blocks of rows with uniform keys; changes are read after each."""
    rng, group = np.random.default_rng(3), MonitorGroup(0.01)
    keys, phis = np.repeat(np.arange(settings.keys), 3), np.tile([0.5, 0.9, 0.99], settings.keys)
    say(f"queries: {len(keys):,} of {settings.keys:,} keys")
    registering, _ = clock(lambda: group.register_many(keys, phis, 0.05))
    updating = reading = 0.0
    for _ in range(settings.keyed_blocks):
        own, values = rng.integers(0, settings.keys, settings.block), rng.random(settings.block)
        updating += clock(partial(group.update, own, values))[0]
        reading += clock(group.changes)[0]
    rows = settings.keyed_blocks * settings.block
    row = {"keys": settings.keys, "queries": len(keys), "rows": rows, "register": round(registering, 6)}
    row |= {"update": round(updating, 6), "changes": round(reading, 6)}
    row |= {"rows_per_s": round(rows / (updating + reading))}
    return row | {"evaluations": group.stats()["evaluations"]}


SUBJECT = Subject("a million continuous queries beside a bare sketch", Settings, {"all": measure})
