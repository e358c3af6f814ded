"""A million continuous queries beside a bare sketch of the same stream, in one run."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.inputs import Floats, targets
from bench.report import Row, settings_at, show, sized
from bench.timing import blocks, clock
from quantide import Monitor, MonitorGroup, StreamSketch


@dataclass(frozen=True)
class Settings:
    """`checked`: queries, chosen at random at the end of every block, whose answers are compared with the values."""

    queries: int = sized(1_000_000, quick=2_000)
    values: int = sized(8_000_000, quick=60_000)
    block: int = sized(50_000, quick=5_000)
    eps: float = 0.001
    precisions: tuple[tuple[float, float], ...] = ((0.002, 0.05), (0.02, 0.05))
    rounds: int = sized(5, quick=1)
    singles: int = sized(20_000, quick=50)
    checked: int = sized(20_000, quick=200)
    keys: int = sized(100_000, quick=300)
    keyed_blocks: int = sized(100, quick=4)


class Case:
    """Queries with phi uniform in (0, 1] and precisions uniform in a range, and a stream of uniform values."""

    def __init__(self, precisions: tuple[float, float], s: Settings) -> None:
        rng, self.s = np.random.default_rng(20060504), s
        self.phis, self.epss = 1 - rng.random(s.queries), rng.uniform(*precisions, s.queries)
        self.values = rng.random(s.values)

    def blocks(self) -> Iterator[Floats]:
        return (self.values[part] for part in blocks(len(self.values), self.s.block))

    def clustered(self) -> Monitor:
        """Return a monitor whose queries are registered and clustered."""
        monitor = Monitor(self.s.eps)
        monitor.register_many(self.phis, self.epss)
        monitor.update(self.values[: int(2 / self.s.eps)])
        monitor.changes()
        return monitor

    def feed(self, sketch: Any, read: str) -> None:
        for block in self.blocks():
            sketch.update(block)
            if read in ("ids", "read"):
                changes = sketch.changes()
                len(changes.ids if read == "ids" else changes)

    def stream(self) -> Row:
        """Time all blocks in interleaved rounds; changes are read, read with their ids, or not read."""
        state, best = self.clustered().to_bytes(), dict.fromkeys(("bare", "unread", "ids", "read"), float("inf"))
        for _ in range(self.s.rounds):
            for way in best:
                sketch: Any = StreamSketch(self.s.eps) if way == "bare" else Monitor.from_bytes(state)
                best[way] = min(best[way], clock(self.feed, sketch, way)[0])
        row = {f"{way}_ratio": round(best[way] / best["bare"], 3) for way in ("ids", "unread")}
        row |= {"ratio": round(best["read"] / best["bare"], 3)} | {way: round(best[way], 6) for way in ("bare", "read")}
        return row | {name: sketch.stats()[name] for name in ("clusters", "evaluations")}

    def registering(self) -> Row:
        """Register all queries at once, with their clustering, then single ones among them."""
        many, monitor = min((clock(self.clustered) for _ in range(2)), key=lambda timed: timed[0])
        pairs = list(zip(self.phis[: self.s.singles], self.epss[: self.s.singles], strict=True))
        registering, ids = clock(lambda: [monitor.register(phi, eps) for phi, eps in pairs])
        dropping, _ = clock(lambda: [monitor.drop(one) for one in ids])
        each = {"register": round(registering / len(pairs), 9), "drop": round(dropping / len(pairs), 9)}
        return {"many": round(many, 6)} | each

    def checked(self) -> Row:
        """Compare answers with the values at the end of every block; return the largest part of a precision used."""
        monitor, rng, worst, end, answers = Monitor(self.s.eps), np.random.default_rng(7), 0.0, 0, 0
        ids = monitor.register_many(self.phis, self.epss)
        for block in self.blocks():
            monitor.update(block)
            end += len(block)
            ordered, some = np.sort(self.values[:end]), rng.integers(0, len(ids), min(len(ids), self.s.checked))
            found, target = monitor.answers(ids[some]).values, targets(self.phis[some], end)
            first, last = np.searchsorted(ordered, found) + 1, np.searchsorted(ordered, found, side="right")
            far = np.maximum(np.maximum(first - target, target - last), 0) / end
            worst, answers = max(worst, float((far / self.epss[some]).max())), answers + len(some)
        return {"answers": answers, "worst": worst, "holds": worst <= 1}


def measure(s: Settings) -> dict[str, list[Row]]:
    if s != (quick := settings_at(Settings, "quick")):
        measure(quick)  # load and compile before anything is timed
    rows: dict[str, list[Row]] = {"stream": [], "registering": [], "checked": [], "keys": [_keys(s)]}
    for low, high in s.precisions:
        show(f"queries: {s.queries:,} of precision {low:g}..{high:g}")
        case = Case((low, high), s)
        for part in ("stream", "registering", "checked"):
            rows[part].append({"precision": f"{low:g}..{high:g}"} | getattr(case, part)())
    return rows


def _keys(s: Settings) -> Row:
    """Measure three queries a key, over blocks of rows with uniform keys; changes are read after each."""
    rng, group, updating, reading = np.random.default_rng(3), MonitorGroup(0.01), 0.0, 0.0
    keys, phis = np.repeat(np.arange(s.keys), 3), np.tile([0.5, 0.9, 0.99], s.keys)
    show(f"queries: {len(keys):,} of {s.keys:,} keys")
    registering, _ = clock(group.register_many, keys, phis, 0.05)
    for _ in range(s.keyed_blocks):
        updating += clock(partial(group.update, rng.integers(0, s.keys, s.block), rng.random(s.block)))[0]
        reading += clock(group.changes)[0]
    rows = s.keyed_blocks * s.block
    row = {"keys": s.keys, "queries": len(keys), "rows": rows, "rows_per_s": round(rows / (updating + reading))}
    seconds = {"register": registering, "update": updating, "changes": reading}
    return row | {name: round(taken, 6) for name, taken in seconds.items()}


SUBJECT = Subject("a million continuous queries beside a bare sketch", Settings, {"all": measure})
