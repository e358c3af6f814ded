"""One quantile of the last values, after every value and after every block, beside peers that are exact."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import rank_error
from benchmarks.peers import load
from benchmarks.report import Row, say
from benchmarks.windows_columns import BLOCK, EVERY, Answer, columns
from benchmarks.windows_settings import Settings
from quantide import RecentWindow, SlidingWindow

Array = NDArray[np.float64]
PHI = 0.99
FEW = 64  # values between two looks at the clock


class Ring:
    """The last values in an array that is written around; an answer is a partition of it."""

    def __init__(self, size: int) -> None:
        self.room, self.at, self.rank = np.zeros(size), 0, int(np.ceil(PHI * size - 1e-9)) - 1

    def one(self, value: float) -> None:
        self.room[self.at] = value
        self.at = (self.at + 1) % len(self.room)

    def many(self, values: Array) -> None:
        values = values[-len(self.room) :]
        first = min(len(values), len(self.room) - self.at)
        self.room[self.at : self.at + first] = values[:first]
        self.room[: len(values) - first] = values[first:]
        self.at = (self.at + len(values)) % len(self.room)

    def ask(self) -> Any:
        return np.partition(self.room, self.rank)[self.rank]


@dataclass
class Method:
    """Something that takes values as they come: one, or many at once where it can."""

    name: str
    one: Callable[[Any], Any]
    ask: Callable[[], Any]
    many: Callable[[Array], Any] | None = None
    slow: bool = False
    size: Callable[[], int] | None = None  # bytes held, where they are known; such a method is ours
    at: int = 0  # how many values it was given
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {EVERY: [], BLOCK: []})

    def take(self, values: Array) -> None:
        if self.many:
            self.many(values)
        else:
            for value in values.tolist():
                self.one(value)


def methods(size: int, settings: Settings) -> list[Method]:
    eps = settings.peer_eps
    sliding, recent, ring = SlidingWindow(size, eps), RecentWindow(eps, max_items=size), Ring(size)
    found = [
        _ours("SlidingWindow", sliding),
        _ours("RecentWindow", recent),
        Method("numpy ring", ring.one, ring.ask, ring.many),
    ]
    stats = load("river.stats")
    if stats and size <= settings.slow_size:
        rolling = stats.RollingQuantile(PHI, window_size=size)
        found.append(Method("river", rolling.update, rolling.get, slow=True))
    return found


def _ours(name: str, window: Any) -> Method:
    return Method(name, window.update, lambda: window.quantile(PHI), window.update, size=lambda: int(window.nbytes))


def peers(settings: Settings) -> list[Row]:
    """Every window size; a round is every method once, and the best round counts."""
    stream = np.random.default_rng(9).normal(size=max(4 * settings.block, 2 * max(settings.peer_sizes)))
    rows = []
    for size in settings.peer_sizes:
        say(f"windows: {size:,} values beside peers")
        chosen = methods(size, settings)
        for method in chosen:
            _fill(method, stream, size, settings.block)
        best: dict[tuple[str, str], Row] = {}
        for _ in range(settings.peer_rounds):
            for method in chosen:
                for asked, run in ((EVERY, _every), (BLOCK, _blocks)):
                    found = _timed(run, method, stream, settings)
                    _keep(best, method.name, asked, found, method.answers[asked])
            for name, asked, found, answers in columns(stream, size, PHI, settings):
                _keep(best, name, asked, found, answers)
        held = {method.name: method.size() for method in chosen if method.size}
        for (name, asked), row in best.items():
            error = _error(row.pop("answers"), stream, size, settings.checked)
            known = {"error": error, "bytes": held.get(name, stream.itemsize * size)}
            rows.append({"size": size, "asked": asked, "method": name, **row, **known})
    return rows


def _keep(best: dict[tuple[str, str], Row], name: str, asked: str, found: Row, answers: list[Answer]) -> None:
    if (name, asked) not in best or best[name, asked]["values_per_s"] < found["values_per_s"]:
        best[name, asked] = {**found, "answers": answers}


def _fill(method: Method, stream: Array, size: int, block: int) -> None:
    """The window is full before anything is timed."""
    for at in range(0, size, block):
        method.take(stream[at : min(at + block, size)])
    method.at = size
    method.ask()


Run = Callable[[Method, Array, int], int]


def _timed(run: Run, method: Method, stream: Array, settings: Settings) -> Row:
    seconds, values = settings.slow_seconds if method.slow else settings.seconds, 0
    start = time.perf_counter()
    while (taken := time.perf_counter() - start) < seconds or not values:
        values += run(method, stream, settings.block)
    return {"values_per_s": round(values / taken), "values": values}


def _every(method: Method, stream: Array, block: int) -> int:
    part = _next(method, stream, FEW).tolist()
    for value in part:
        method.one(value)
        answer = method.ask()
    method.at += len(part)
    method.answers[EVERY].append((method.at, answer))
    return len(part)


def _blocks(method: Method, stream: Array, block: int) -> int:
    part = _next(method, stream, block)
    method.take(part)
    method.at += len(part)
    method.answers[BLOCK].append((method.at, method.ask()))
    return len(part)


def _next(method: Method, stream: Array, count: int) -> Array:
    """The stream goes round and round."""
    at = method.at % len(stream)
    return stream[at : at + count]


def _error(answers: list[Answer], stream: Array, size: int, count: int) -> float:
    """The largest rank error of some of the answers, as a fraction of the window."""
    chosen = [answers[i] for i in np.linspace(0, len(answers) - 1, min(count, len(answers))).astype(int)]
    return max(
        rank_error(np.sort(stream.take(range(at - size, at), mode="wrap")), np.array([PHI]), np.array([answer]))
        for at, answer in chosen
    )
