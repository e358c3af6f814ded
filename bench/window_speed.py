"""Windows of the most recent values: speed of updates and queries, space, and peers."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.collection import Subject
from bench.environment import load
from bench.inputs import Floats, rank_error
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.timing import blocks, clock, interleave
from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, last, where

PASSING, PHI, AGAIN, FEW = 0.6, 0.99, 20, 64  # part that passes the filter; phi; repetitions; values a time check
PHIS = np.array([0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])
TUPLE_BYTES = 16  # a float64 and two numbers of 32 bits, the least that a tuple of the papers takes
EVERY, BLOCK = "every value", "every block"
SLIDING, RECENT, CONSTRAINED = "SlidingWindow", "RecentWindow", "ConstrainedWindow"
BOTH, TIMED = (SLIDING, RECENT), (RECENT,)
FED = {"blocks": BOTH, "blocks, times": TIMED, "tables": (CONSTRAINED,), "one by one": BOTH, "one by one, times": TIMED}
Answer = tuple[int, float]  # the number of values before it, and the answer


@dataclass(frozen=True)
class Settings:
    """`size`: the window that is fed `values` in blocks or `singles` one by one; `space_*`: the one that is counted.

    `peer_sizes`: windows beside peers, for `seconds`; river and pandas get windows up to `slow_size`.
    """

    size: int = sized(1_000_000, quick=200_000)
    block: int = sized(65_536, quick=16_384)
    values: int = sized(16_777_216, quick=400_000)
    singles: int = sized(2_000_000, quick=2_000)
    rounds: int = sized(4, quick=1)
    epsilons: tuple[float, ...] = sized((0.01, 0.001), quick=(0.01,))
    spans: tuple[int, ...] = sized((1_000, 10_000, 100_000, 300_000, 1_000_000), quick=(1_000, 200_000))
    questions: int = sized(100, quick=3)
    space_size: int = sized(100_000_000, 10_000_000, 400_000)
    space_values: int = sized(250_000_000, 25_000_000, 900_000)
    space_spans: tuple[int, ...] = sized((10**6, 10**7, 10**8), (10**6, 10**7), (100_000, 400_000))
    peer_sizes: tuple[int, ...] = sized((10**3, 10**4, 10**5, 10**6, 10**7), (10**3, 10**5, 10**6), (1_000, 150_000))
    slow_size: int = 1_000_000
    peer_block: int = sized(50_000, quick=16_384)
    peer_eps: float = 0.01
    peer_rounds: int = sized(2, 1, 1)
    seconds: float = sized(1.0, quick=0.02)
    slow_seconds: float = sized(5.0, quick=0.02)
    column: int = sized(1_000_000, quick=50_000)
    checked: int = sized(20, quick=3)


def make(name: str, eps: float, size: int) -> Any:
    if name == CONSTRAINED:
        return ConstrainedWindow(last(size) & where(pc.field("key") < PASSING), eps)
    return SlidingWindow(size, eps) if name == SLIDING else RecentWindow(eps, max_items=size)


def rates(s: Settings) -> list[Row]:
    """Measure updates in blocks, one by one and as tables."""
    show(f"windows: {s.values:,} values in blocks, {s.singles:,} one by one")
    rng, parts = np.random.default_rng(5), list(blocks(s.values, s.block))
    values, times, keys = rng.random(s.values), np.arange(s.values) / 1e6, rng.random(s.values)
    tables = [pa.table({"time": times[part], "key": keys[part], "value": values[part]}) for part in parts]
    stream: dict[str, list[tuple[Any, ...]]] = {"blocks": [(values[part],) for part in parts]}
    stream |= {"blocks, times": [(values[part], times[part]) for part in parts], "tables": [(one,) for one in tables]}
    singles, dated = values[: s.singles].tolist(), times[: s.singles].tolist()
    stream |= {"one by one": [(x,) for x in singles], "one by one, times": list(zip(singles, dated, strict=True))}

    def feed(name: str, eps: float, fed: str) -> Any:
        window = make(name, eps, s.size)
        update = window.update
        for arguments in stream[fed]:
            update(*arguments)
        return window

    chosen = [(name, eps, fed) for eps in s.epsilons for fed, names in FED.items() for name in names]
    jobs, rows = {job: partial(feed, *job) for job in chosen}, []
    for (name, eps, fed), one in interleave(jobs, s.rounds).items():
        n = min(s.values, s.singles) if fed.startswith("one") else s.values
        row = {"window": name, "eps": eps, "fed": fed, "values_per_s": round(n / one.best)}
        rows.append(row | {"tuples": one.result.tuples, "bytes": one.result.nbytes})
    return rows


def questions(s: Settings) -> list[Row]:
    """Measure queries after a change, and the same query again, for each window, span and kind of change."""
    show(f"windows: {s.questions} queries about each span")
    values, rows = np.random.default_rng(6).random(3 * s.size), []
    scopes: list[tuple[str, Row]] = [*((RECENT, {"last": span}) for span in s.spans), (SLIDING, {})]
    for eps in s.epsilons:
        windows = {name: make(name, eps, s.size) for name in (RECENT, SLIDING)}
        for part in blocks(len(values), s.block):
            for window in windows.values():
                window.update(values[part])
        for change, more in ("a block", values[: s.block]), ("one value", float(values[0])):
            for name, scope in scopes:
                row = {"window": name, "eps": eps, "change": change, "span": scope.get("last", s.size)}
                rows.append(row | _query(windows[name], more, scope, s.questions))
    return rows


def _query(window: Any, more: Any, scope: Row, count: int) -> Row:
    first, again = [], []
    for _ in range(count + 1):
        window.update(more)
        first.append(clock(window.quantile, PHI, **scope)[0])
        again.append(clock(lambda: [window.quantile(PHI, **scope) for _ in range(AGAIN)])[0] / AGAIN)
    return {"median": float(np.median(first[1:])), "worst": max(first[1:]), "again_median": float(np.median(again[1:]))}


class Ring:
    """The last values in a circular array; an answer is a partition of it."""

    def __init__(self, size: int) -> None:
        self.room, self.at, self.rank = np.zeros(size), 0, int(np.ceil(PHI * size - 1e-9)) - 1

    def one(self, value: float) -> None:
        self.room[self.at] = value
        self.at = (self.at + 1) % len(self.room)

    def many(self, values: Floats) -> None:
        values = values[-len(self.room) :]
        first = min(len(values), len(self.room) - self.at)
        self.room[self.at : self.at + first] = values[:first]
        self.room[: len(values) - first] = values[first:]
        self.at = (self.at + len(values)) % len(self.room)

    def query(self) -> Any:
        return np.partition(self.room, self.rank)[self.rank]


@dataclass
class Rolling:
    """A method that takes values as they arrive; `at`: the number of values so far."""

    name: str
    one: Callable[[Any], Any]
    many: Callable[[Floats], Any]
    query: Callable[[], Any]
    window: Any = None
    at: int = 0
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {EVERY: [], BLOCK: []})

    def run(self, frequency: str, stream: Floats, block: int) -> int:
        """Take the next values of the stream, which repeats, and query."""
        part = stream[(at := self.at % len(stream)) : at + (block if frequency == BLOCK else FEW)]
        if frequency == BLOCK:
            self.many(part)
            answer = self.query()
        else:
            for value in part.tolist():
                self.one(value)
                answer = self.query()
        self.at += len(part)
        self.answers[frequency].append((self.at, answer))
        return len(part)


def _rolling(size: int, s: Settings) -> Iterator[Rolling]:
    for name in (SLIDING, RECENT):
        window = SlidingWindow(size, s.peer_eps, tail=None) if name == SLIDING else make(name, s.peer_eps, size)
        yield Rolling(name, window.update, window.update, partial(window.quantile, PHI), window)
    ring = Ring(size)
    yield Rolling("numpy ring", ring.one, ring.many, ring.query)
    if (stats := load("river.stats")) and size <= s.slow_size:
        rolling = stats.RollingQuantile(PHI, window_size=size)
        yield Rolling("river", rolling.update, lambda part: [rolling.update(x) for x in part.tolist()], rolling.get)


def peers(s: Settings) -> list[Row]:
    """Measure one quantile of the last values beside exact peers, for every window size."""
    stream, rows = np.random.default_rng(9).normal(size=max(4 * s.peer_block, 2 * max(s.peer_sizes))), []
    for size in s.peer_sizes:
        show(f"windows: {size:,} values beside peers")
        chosen, best = list(_rolling(size, s)), dict[tuple[str, str], tuple[Row, list[Answer]]]()
        for method in chosen:  # full before anything is timed
            while method.at < size:
                method.run(BLOCK, stream[:size], s.peer_block)
            method.answers[BLOCK].clear()
        for _ in range(s.peer_rounds):
            found = [
                (m.name, frequency, *_timed(m, frequency, stream, s)) for m in chosen for frequency in (EVERY, BLOCK)
            ]
            for name, frequency, row, answers in [*found, *_columns(stream, size, s)]:
                if (name, frequency) not in best or best[name, frequency][0]["values_per_s"] < row["values_per_s"]:
                    best[name, frequency] = row, answers
        sizes = {method.name: int(method.window.nbytes) for method in chosen if method.window}
        for (name, frequency), (row, answers) in best.items():
            error = _worst(answers, stream, size, s.checked)
            about = {"size": size, "asked": frequency, "method": name}
            rows.append(about | row | {"error": error, "bytes": sizes.get(name, stream.itemsize * size)})
    return rows


def _timed(method: Rolling, frequency: str, stream: Floats, s: Settings) -> tuple[Row, list[Answer]]:
    limit, values, start = s.slow_seconds if method.name == "river" else s.seconds, 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < limit or not values:
        values += method.run(frequency, stream, s.peer_block)
    return {"values_per_s": round(values / taken), "values": values}, method.answers[frequency]


def _columns(stream: Floats, size: int, s: Settings) -> Iterator[tuple[str, str, Row, list[Answer]]]:
    """Measure pandas and polars, which take a whole column at once."""
    n, jobs = max(s.column, 2 * size), list[tuple[str, str, Callable[[], Any], range]]()
    values, every, ends = np.resize(stream, n), range(1, n + 1), range(s.peer_block, n + 1, s.peer_block)
    if (pd := load("pandas")) and size <= s.slow_size:
        for frequency, step in ((EVERY, 1), (BLOCK, s.peer_block)):
            rolled = pd.Series(values).rolling(size, step=step)
            jobs.append(("pandas", frequency, partial(rolled.quantile, PHI, interpolation="lower"), every[::step]))
    if pl := load("polars"):
        series = pl.Series(values)
        jobs.append(("polars", EVERY, partial(series.rolling_quantile, PHI, "lower", window_size=size), every))
        slices = lambda: [series.slice(max(0, end - size), min(end, size)).quantile(PHI, "lower") for end in ends]  # noqa: E731
        jobs.append(("polars", BLOCK, slices, ends))
    for name, frequency, job, at in jobs:
        seconds, found = clock(job)
        full = [(end, float(one)) for end, one in zip(at, np.asarray(found), strict=True) if end >= size]
        yield name, frequency, {"values_per_s": round(n / seconds), "values": n}, full


def _worst(answers: list[Answer], stream: Floats, size: int, count: int) -> float:
    """Return the largest rank error of some of the answers, as a fraction of the window."""
    chosen = [answers[i] for i in np.linspace(0, len(answers) - 1, min(count, len(answers))).astype(int)]
    windows = [(np.sort(stream.take(range(at - size, at), mode="wrap")), answer) for at, answer in chosen]
    return max(rank_error(ordered, np.array([PHI]), np.array([answer])) for ordered, answer in windows)


def space(s: Settings) -> list[Row]:
    """Measure the most tuples and bytes of a full window beside the papers' bounds, and the error of its answers."""
    size, parts, rows = s.space_size, list(blocks(s.space_values, s.block)), list[Row]()
    show(f"windows: {s.space_values:,} values through windows of {size:,}")
    made = [(np.random.default_rng([8, part.start]), part.start, part.stop - part.start) for part in parts]
    values = np.concatenate([rng.normal(np.sin(start / 3e7), size=n) for rng, start, n in made])
    ordered = {span: np.sort(values[-span:]) for span in {size, *s.space_spans}}
    for eps in s.epsilons:
        for name, bound in (SLIDING, sliding_bound(eps, size)), (RECENT, recent_bound(eps, size)):
            window, counts = make(name, eps, size), list[tuple[int, int]]()
            for part in parts:
                window.update(values[part])
                counts += [(window.tuples, window.nbytes)] if part.stop >= size else []
            scopes: list[Row] = [{"last": span} for span in s.space_spans] if name == RECENT else [{}]
            errors = [_space_error(window, ordered[scope.get("last", size)], scope) for scope in scopes]
            tuples, most = (max(column) for column in zip(*counts, strict=True))
            row = {"window": name, "eps": eps, "size": size, "tuples": tuples, "bytes": most, "error": max(errors)}
            rows.append(row | {"paper_tuples": bound, "paper_bytes": bound * TUPLE_BYTES})
    return rows


def _space_error(window: Any, ordered: Floats, scope: Row) -> float:
    answers = np.asarray(window.quantiles(PHIS, **scope))
    if not np.isin(answers, ordered).all():
        raise AssertionError(f"an answer about the last {len(ordered)} values is none of them")
    return rank_error(ordered, PHIS, answers)


def gk_bound(eps: float, n: Any) -> Any:
    """Return the tuples of Greenwald and Khanna: 11/(2 eps) * log2(2 eps n), and at most n."""
    bound = 11 / (2 * eps) * np.log2(np.maximum(2 * eps * n, 1.0))
    return np.where(2 * eps * n < 2, n, np.minimum(bound, n))


def sliding_bound(eps: float, n: int) -> int:
    """Return the tuples of RECENT's SW: 2/eps buckets of 2/eps + 2, and an open one, a GK sketch for eps/4."""
    return math.ceil(math.ceil(2 / eps) * (math.ceil(2 / eps) + 2) + float(gk_bound(eps / 4, math.ceil(eps * n / 2))))


def recent_bound(eps: float, n: int) -> int:
    """Return the tuples of RECENT's nN and CONSTRAINED: a GK sketch for eps/2 from the start of each bucket on."""
    covered, tuples, size = 0, 0.0, 1
    while covered < n:
        starts = covered + size * np.arange(1, math.ceil(2 / eps) + 2)
        starts = starts[: 1 + int(np.searchsorted(starts, n))]
        tuples += float(gk_bound(eps / 2, np.minimum(starts, n)).sum())
        covered, size = int(starts[-1]), 2 * size
    return math.ceil(tuples)


def context(report: Report) -> Row:
    """Return the two query frequencies of each window size and method in one row, and the slowest query."""
    pairs, peers = list[Row](), [row | {"of": (row["size"], row["method"])} for row in report.rows.get("peers", [])]
    for rows in group(peers, "of").values():
        rates = {row["asked"].removeprefix("every "): row["values_per_s"] for row in rows}
        pairs.append(rows[-1] | {"rates": rates, "error": max(row["error"] for row in rows)})
    slow = [row for row in report.rows.get("questions", []) if row["window"] == RECENT and row["eps"] >= 0.01]
    return {"pairs": pairs, "slowest": max(slow, key=lambda row: float(row["median"]), default=None)}


PARTS = {"rates": rates, "questions": questions, "peers": peers, "space": space}
PACKAGES = ("polars", "pandas", "river")
SUBJECT = Subject("the most recent values: speed, space, peers", Settings, PARTS, context, packages=PACKAGES)
