"""Streams of every kind for a server, with all their rows, so that tests can count exact answers."""

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from quantide import History
from quantide.config import Config
from tests.oracle import bound_faults, count_at_most
from tests.server.running_server import configure

EPS = 0.02
STEP = 10.0  # seconds of a step
TEN = "2026-01-31T10:00:00"


@dataclass
class Rows:
    """All rows of a store, in order."""

    kind: str = "float64"
    values: list[Any] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    errors: list[bool] = field(default_factory=list)
    steps: list[int] = field(default_factory=lambda: [0])

    def chosen(self, key: Any = None, **window: Any) -> Any:
        """Return the values that a query covers, in order; `within` and `now` are seconds."""
        rows = [i for i in range(len(self.values)) if key is None or self.keys[i] == key]
        if "last" in window:
            rows = rows[-window["last"] :]
        if "within" in window:
            until = window.get("now", max(self.times))
            rows = [i for i in rows if until - window["within"] < self.times[i] <= until]
        if "steps" in window:
            begin = self.steps[max(0, len(self.steps) - 1 - window["steps"])]
            rows = [i for i in rows if i >= begin]
        if window.get("errors"):
            rows = [i for i in rows if self.errors[i]]
        return self.in_order([self.values[i] for i in rows])

    def in_order(self, values: list[Any]) -> Any:
        return sorted(values) if self.kind.startswith("decimal") else np.sort(np.array(values))

    def read(self, shown: Any) -> Any:
        """Parse a value of a response, to compare it with these."""
        if self.kind.startswith("decimal"):
            return Decimal(shown)
        if self.kind.startswith("duration"):
            return np.timedelta64(int(shown.removesuffix(" ms")), "ms")
        return np.datetime64(shown) if self.kind.startswith("timestamp") else float(shown)

    def faults(self, data: Any, answer: dict[str, Any], eps: float = EPS) -> list[str]:
        """Return the faults of an answer of a response."""
        result = SimpleNamespace(**answer | {"value": self.read(answer["value"]), "n_lo": len(data), "n_hi": len(data)})
        far = [f"the error {result.error} is above {eps}"] if result.error > eps else []
        return far + bound_faults(data, result)

    def rank_faults(self, data: Any, rank: dict[str, Any], eps: float = EPS) -> list[str]:
        """Return the faults of a rank of a response."""
        true = count_at_most(data, self.read(rank["value"]))
        wide = rank["rank_hi"] - rank["rank_lo"] > 2 * eps * len(data) + 1
        result = rank["rank_lo"] <= true <= rank["rank_hi"] and rank["n"] == len(data)
        return [] if result and not wide else [f"{true} of {len(data)} are at most that: {rank}"]


STREAMS: dict[str, dict[str, Any]] = {
    "latency": {"keys": "endpoint", "filters": ["errors"]},
    "plain": {},
    "counts": {"value_type": "int64"},
    "moments": {"value_type": "timestamp[us]"},
    "zoned": {"value_type": "timestamp[ms, tz=UTC]"},
    "spans": {"value_type": "duration[ms]"},
    "prices": {"value_type": "decimal[2]", "keys": ["region", "symbol"]},
}
CONFIG = "".join(
    f'[streams.{name}]\nsource = {{ format = "parquet", path = "in" }}\nvalue = "v"\ntime = "ts"\n' for name in STREAMS
)


class Served:
    """Stores of all kinds, with the rows of each."""

    def __init__(self, folder: Path, server: str = "", seed: int = 5) -> None:
        self.rng = np.random.default_rng(seed)
        self.config: Config = configure(folder, server, CONFIG)
        self.rows = {name: Rows(str(settings.get("value_type", "float64"))) for name, settings in STREAMS.items()}
        self.stores = {
            name: History(folder / "data" / name, eps=EPS, window="1 hour", **settings)
            for name, settings in STREAMS.items()
        }

    def append(self, name: str, count: int) -> None:
        """Append some rows of ten seconds."""
        rows, rng = self.rows[name], self.rng
        values = self._values(name, count)
        keys: Any = None
        if name == "latency":
            keys = [str(key) for key in rng.choice(["/pay", "/cart", "@last:5"], count)]
        elif name == "prices":
            keys = [
                (str(a), int(b))
                for a, b in zip(rng.choice(["eu", "us"], count), rng.integers(0, 3, count), strict=True)
            ]
        times = (len(rows.steps) - 1) * STEP + np.round(rng.uniform(0, STEP, count), 3)
        errors = rng.random(count) < 0.2
        result: dict[str, Any] = {"filters": {"errors": errors}} if name == "latency" else {}
        given = pa.array(values).cast(pa.timestamp("ms", "UTC")) if name == "zoned" else values
        self.stores[name].append(given, key=keys, times=self._times(name, times), **result)
        rows.values += list(values)
        rows.keys += keys or [None] * count
        rows.times += times.tolist()
        rows.errors += errors.tolist()

    def end_step(self, name: str) -> None:
        self.stores[name].end_step()
        self.rows[name].steps.append(len(self.rows[name].values))

    def fill(self, steps: int = 3, count: int = 600) -> None:
        """Append some ended steps and an open one."""
        for name in STREAMS:
            for step in range(steps + 1):
                self.append(name, count)
                if step < steps:
                    self.end_step(name)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def _values(self, name: str, count: int) -> Any:
        if name == "counts":
            return self.rng.integers(-50, 50, count)
        if name in ("moments", "zoned"):
            moments = np.datetime64("2026-01-01", "us") + self.rng.integers(0, 10**9, count)
            return moments if name == "moments" else moments.astype("M8[ms]")
        if name == "prices":
            return [Decimal(int(cents)) / 100 for cents in self.rng.integers(0, 5_000, count)]
        if name == "spans":
            return self.rng.integers(1, 10**4, count).astype("m8[ms]")
        values = self.rng.lognormal(3, 1, count)
        if name == "plain":
            values[: count // 50] = -np.inf
            values[count // 50 : count // 20] = np.inf
        return values

    def _times(self, name: str, seconds: Any) -> Any:
        """Streams differ in their clocks: seconds, timestamps, timestamps with a zone."""
        moments = np.datetime64(TEN, "us") + (seconds * 1e6).astype("m8[us]")
        if name == "moments":
            return moments
        return pa.array(moments).cast(pa.timestamp("us", "UTC")) if name == "prices" else seconds
