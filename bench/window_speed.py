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
from bench.inputs import Floats, rank_error, targets
from bench.report import Report, Row, say, sized
from bench.timing import blocks, clock, interleave
from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, last, where

PASSING, PHI, AGAIN, FEW = 0.6, 0.99, 20, 64  # part that passes the filter; phi; repetitions; values a time check
PHIS = np.array([0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])
TUPLE_BYTES = 16  # a float64 and two numbers of 32 bits, the least that a tuple of the papers takes
EVERY, BLOCK = "every value", "every block"
Answer = tuple[int, float]  # the number of values before it, and the answer


@dataclass(frozen=True)
class Settings:
    """`size`: the window that is fed `values` in blocks or `singles` one by one; `space_*`: the one that is counted.

    `peer_sizes`: windows beside peers, each for `seconds`, river for `slow_seconds`; peers that need a whole column
    get at least `column` values; river and pandas get windows up to `slow_size`.
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
    peer_eps: float = 0.01
    peer_rounds: int = sized(2, 1, 1)
    seconds: float = sized(1.0, quick=0.02)
    slow_seconds: float = sized(5.0, quick=0.02)
    column: int = sized(1_000_000, quick=50_000)
    checked: int = sized(20, quick=3)


def rates(settings: Settings) -> list[Row]:
    """Measure updates in blocks, one by one and as tables; `bar`: the required rate."""
    say(f"windows: {settings.values:,} values in blocks, {settings.singles:,} one by one")
    streams = [_stream(settings, n) for n in (min(settings.values, 300_000), settings.values)]
    kept, size = last(settings.size) & where(pc.field("key") < PASSING), settings.size
    jobs: dict[tuple[str, float, str], Callable[[list[Any]], Any]] = {}
    for eps in settings.epsilons:
        sliding, recent = partial(SlidingWindow, size, eps), partial(RecentWindow, eps, max_items=size)
        jobs["SlidingWindow", eps, "blocks"] = jobs["SlidingWindow", eps, "one by one"] = partial(_feed, sliding)
        for fed in ("blocks", "blocks, times", "one by one", "one by one, times"):
            jobs["RecentWindow", eps, fed] = partial(_feed, recent)
        jobs["ConstrainedWindow", eps, "tables"] = partial(_feed, partial(ConstrainedWindow, kept, eps))
    for name, job in jobs.items():
        job(streams[0][name[2]])
    runs = {name: partial(job, streams[1][name[2]]) for name, job in jobs.items()}
    rows = []
    for (window, eps, fed), one in interleave(runs, settings.rounds).items():
        single = fed.startswith("one")
        n, bar = min(settings.values, settings.singles) if single else settings.values, 10e6 if eps >= 0.01 else 2e6
        row = {"window": window, "eps": eps, "fed": fed, "values": n, "values_per_s": round(n / one.best)}
        row |= {"values_per_s_median": round(n / one.median), "bar": 5e5 if single else bar}
        rows.append(row | {"tuples": one.result.tuples, "bytes": one.result.nbytes})
    return rows


def _stream(settings: Settings, n: int) -> dict[str, list[Any]]:
    """Return the arguments of updates for every way of feeding."""
    values, times, parts = np.random.default_rng(5).random(n), np.arange(n) / 1e6, list(blocks(n, settings.block))
    keys = [np.random.default_rng(part.stop - part.start).random(part.stop - part.start) for part in parts]
    tables = [pa.table({"time": times[p], "key": key, "value": values[p]}) for p, key in zip(parts, keys, strict=True)]
    singles = [(value,) for value in values[: settings.singles].tolist()]
    timed = list(zip(values[: settings.singles].tolist(), times[: settings.singles].tolist(), strict=True))
    both: dict[str, list[Any]] = {
        "blocks": [(values[p],) for p in parts],
        "blocks, times": [(values[p], times[p]) for p in parts],
    }
    return both | {"tables": [(one,) for one in tables], "one by one": singles, "one by one, times": timed}


def _feed(make: Callable[[], Any], stream: list[Any]) -> Any:
    window = make()
    update = window.update
    for arguments in stream:
        update(*arguments)
    return window


def questions(settings: Settings) -> list[Row]:
    """Measure queries after a change, and the same query again, for each window, span and kind of change."""
    say(f"windows: {settings.questions} queries about each span")
    values, rows = np.random.default_rng(6).random(3 * settings.size), []
    for eps in settings.epsilons:
        recent, sliding = RecentWindow(eps, max_items=settings.size), SlidingWindow(settings.size, eps)
        for part in blocks(len(values), settings.block):
            recent.update(values[part])
            sliding.update(values[part])
        for change, more in ("a block", values[: settings.block]), ("one value", float(values[0])):
            about = {"eps": eps, "change": change}
            for span in settings.spans:
                found = _asked(recent, more, {"last": span}, settings.questions)
                rows.append({"window": "RecentWindow", **about, "span": span, **found})
            found = _asked(sliding, more, {}, settings.questions)
            rows.append({"window": "SlidingWindow", **about, "span": settings.size, **found})
    return rows


def _asked(window: Any, more: Any, asked: dict[str, int], count: int) -> Row:
    first, again = [], []
    for _ in range(count + 1):
        window.update(more)
        first.append(clock(window.quantile, PHI, **asked)[0])
        again.append(clock(lambda: [window.quantile(PHI, **asked) for _ in range(AGAIN)])[0] / AGAIN)
    spread = {"median": float(np.median(first[1:])), "worst": max(first[1:])}
    return spread | {"again_median": float(np.median(again[1:])), "again_worst": max(again[1:])}


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

    def ask(self) -> Any:
        return np.partition(self.room, self.rank)[self.rank]


@dataclass
class Rolling:
    """A method that takes values as they arrive; `size`: bytes held by ours; `at`: the number of values so far."""

    name: str
    one: Callable[[Any], Any]
    ask: Callable[[], Any]
    many: Callable[[Floats], Any] | None = None
    size: Callable[[], int] | None = None
    at: int = 0
    answers: dict[str, list[Answer]] = field(default_factory=lambda: {EVERY: [], BLOCK: []})

    def take(self, values: Floats) -> None:
        if self.many:
            self.many(values)
        else:
            for value in values.tolist():
                self.one(value)
        self.at += len(values)

    def run(self, asked: str, stream: Floats, block: int) -> int:
        """Take the next values of the stream, which repeats, and ask."""
        part = stream[(at := self.at % len(stream)) : at + (block if asked == BLOCK else FEW)]
        if asked == BLOCK:
            self.take(part)
            self.answers[asked].append((self.at, self.ask()))
            return len(part)
        for value in part.tolist():
            self.one(value)
            answer = self.ask()
        self.at += len(part)
        self.answers[asked].append((self.at, answer))
        return len(part)


def _rolling(size: int, settings: Settings) -> list[Rolling]:
    sliding, recent = SlidingWindow(size, settings.peer_eps), RecentWindow(settings.peer_eps, max_items=size)
    ring = Ring(size)
    pairs: list[tuple[str, Any]] = [("SlidingWindow", sliding), ("RecentWindow", recent)]
    found = [
        Rolling(name, w.update, partial(w.quantile, PHI), w.update, partial(getattr, w, "nbytes")) for name, w in pairs
    ]
    found.append(Rolling("numpy ring", ring.one, ring.ask, ring.many))
    if (stats := load("river.stats")) and size <= settings.slow_size:
        rolling = stats.RollingQuantile(PHI, window_size=size)
        found.append(Rolling("river", rolling.update, rolling.get))
    return found


def peers(settings: Settings) -> list[Row]:
    """Measure one quantile of the last values beside exact peers, for every window size."""
    stream = np.random.default_rng(9).normal(size=max(4 * settings.block, 2 * max(settings.peer_sizes)))
    rows = []
    for size in settings.peer_sizes:
        say(f"windows: {size:,} values beside peers")
        chosen, best = _rolling(size, settings), dict[tuple[str, str], Row]()
        for method in chosen:  # full before anything is timed
            for part in blocks(size, settings.block):
                method.take(stream[part])
            method.ask()
        for _ in range(settings.peer_rounds):
            found = [(m.name, asked, *_timed(m, asked, stream, settings)) for m in chosen for asked in (EVERY, BLOCK)]
            for name, asked, row, answers in [*found, *_columns(stream, size, settings)]:
                if (name, asked) not in best or best[name, asked]["values_per_s"] < row["values_per_s"]:
                    best[name, asked] = {**row, "answers": answers}
        held = {method.name: int(method.size()) for method in chosen if method.size}
        for (name, asked), row in best.items():
            error = _worst(row.pop("answers"), stream, size, settings.checked)
            about = {"size": size, "asked": asked, "method": name}
            rows.append(about | row | {"error": error, "bytes": held.get(name, stream.itemsize * size)})
    return rows


def _timed(method: Rolling, asked: str, stream: Floats, settings: Settings) -> tuple[Row, list[Answer]]:
    limit, values, start = settings.slow_seconds if method.name == "river" else settings.seconds, 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < limit or not values:
        values += method.run(asked, stream, settings.block)
    return {"values_per_s": round(values / taken), "values": values}, method.answers[asked]


def _columns(stream: Floats, size: int, settings: Settings) -> Iterator[tuple[str, str, Row, list[Answer]]]:
    """Measure pandas and polars, which take a whole column at once."""
    n, block = max(settings.column, 2 * size), settings.block
    values, jobs = np.resize(stream, n), list[tuple[str, str, Callable[[], Any], range]]()
    if (pd := load("pandas")) and size <= settings.slow_size:
        for asked, step in ((EVERY, 1), (BLOCK, block)):
            rolled = pd.Series(values).rolling(size, step=step)
            jobs.append(("pandas", asked, partial(rolled.quantile, PHI, interpolation="lower"), range(1, n + 1, step)))
    if pl := load("polars"):
        series, ends = pl.Series(values), range(block, n + 1, block)
        jobs.append(
            ("polars", EVERY, partial(series.rolling_quantile, PHI, "lower", window_size=size), range(1, n + 1))
        )
        slices = lambda: [series.slice(max(0, end - size), min(end, size)).quantile(PHI, "lower") for end in ends]  # noqa: E731
        jobs.append(("polars", BLOCK, slices, ends))
    for name, asked, job, ends in jobs:
        seconds, found = clock(job)
        first = max(0, -((ends.start - size) // ends.step))  # full windows
        some = range(first, len(ends), max(1, (len(ends) - first) // settings.checked))
        row = {"values_per_s": round(n / seconds), "values": n}
        yield name, asked, row, [(ends[i], float(np.asarray(found)[i])) for i in some]


def _worst(answers: list[Answer], stream: Floats, size: int, count: int) -> float:
    """Return the largest rank error of some of the answers, as a fraction of the window."""
    chosen = [answers[i] for i in np.linspace(0, len(answers) - 1, min(count, len(answers))).astype(int)]
    windows = [(np.sort(stream.take(range(at - size, at), mode="wrap")), answer) for at, answer in chosen]
    return max(rank_error(ordered, np.array([PHI]), np.array([answer])) for ordered, answer in windows)


def space(settings: Settings) -> list[Row]:
    """Measure the most tuples and bytes of a full window beside the papers' bounds; recount the answers."""
    size, fed = settings.space_size, 0
    say(f"windows: {settings.space_values:,} values through windows of {size:,}")
    held: list[tuple[Row, Any]] = []
    for eps in settings.epsilons:
        for name, window, bound in (
            ("SlidingWindow", SlidingWindow(size, eps), sliding_bound(eps, size)),
            ("RecentWindow", RecentWindow(eps, max_items=size), recent_bound(eps, size)),
        ):
            row: Row = {"window": name, "eps": eps, "size": size, "paper_tuples": bound}
            held.append((row | {"tuples": 0, "bytes": 0, "error": 0.0}, window))
    for values in _space_values(settings):
        fed += len(values)
        for row, window in held:
            window.update(values)
            if fed >= size:
                row["tuples"], row["bytes"] = max(row["tuples"], window.tuples), max(row["bytes"], window.nbytes)
    for row, _ in held:
        row["paper_bytes"] = row["paper_tuples"] * TUPLE_BYTES
        row |= {"ratio": row["tuples"] / row["paper_tuples"], "bytes_ratio": row["bytes"] / row["paper_bytes"]}
    asked = [(row, size, np.asarray(w.quantiles(PHIS))) for row, w in held if row["window"] == "SlidingWindow"]
    recent = [one for one in held if one[0]["window"] == "RecentWindow"]
    asked += [
        (row, span, np.asarray(w.quantiles(PHIS, last=span))) for row, w in recent for span in settings.space_spans
    ]
    _recount(asked, settings)
    return [row for row, _ in held]


def _space_values(settings: Settings) -> Iterator[Floats]:
    for part in blocks(settings.space_values, settings.block):
        yield np.random.default_rng([8, part.start]).normal(np.sin(part.start / 3e7), size=part.stop - part.start)


def _recount(asked: list[tuple[Row, int, Floats]], settings: Settings) -> None:
    """Count every value again, and record the largest rank error of each row as a fraction of its span."""
    below, upto, at = (*(np.zeros((len(asked), len(PHIS)), dtype=np.int64) for _ in range(2)), 0)
    for values in _space_values(settings):
        for i, (_, span, found) in enumerate(asked):
            if (outside := settings.space_values - span - at) < len(values):
                kept = np.sort(values[max(0, outside) :])
                below[i] += np.searchsorted(kept, found, side="left")
                upto[i] += np.searchsorted(kept, found, side="right")
        at += len(values)
    for (row, span, _), less, most in zip(asked, below, upto, strict=True):
        if not (most > less).all():
            raise AssertionError(f"an answer about the last {span} values is none of them")
        target = targets(PHIS, span)
        row["error"] = max(row["error"], float(np.maximum(less + 1 - target, target - most).max(initial=0) / span))


def gk_bound(eps: float, n: Any) -> Any:
    """Return the tuples of Greenwald and Khanna: 11/(2 eps) * log2(2 eps n), and at most n."""
    bound = 11 / (2 * eps) * np.log2(np.maximum(2 * eps * n, 1.0))
    return np.where(2 * eps * n < 2, n, np.minimum(bound, n))


def sliding_bound(eps: float, n: int) -> int:
    """Return the tuples of RECENT's SW: 2/eps buckets of 2/eps + 2, and an open one, a GK sketch for eps/4."""
    return math.ceil(math.ceil(2 / eps) * (math.ceil(2 / eps) + 2) + float(gk_bound(eps / 4, math.ceil(eps * n / 2))))


def recent_bound(eps: float, n: int) -> int:
    """Return the tuples of RECENT's nN and CONSTRAINED: a GK sketch for eps/2 from the start of each bucket on.

    Buckets have 1, 2, 4, ... values, up to ceil(2/eps) + 1 of each size, and reach back n values. Each sketch counts
    with the values that it covers; with all n, as in the papers' O(), the bound would be about twice as large.
    """
    covered, tuples, size = 0, 0.0, 1
    while covered < n:
        starts = covered + size * np.arange(1, math.ceil(2 / eps) + 2)
        starts = starts[: 1 + int(np.searchsorted(starts, n))]
        tuples += float(gk_bound(eps / 2, np.minimum(starts, n)).sum())
        covered, size = int(starts[-1]), 2 * size
    return math.ceil(tuples)


def peer_pairs(rows: list[Row]) -> list[Row]:
    """Join the two ways of asking of each window size and method."""
    out: dict[tuple[int, str], Row] = {}
    for row in rows:
        pair = out.setdefault(
            (row["size"], row["method"]), {"size": row["size"], "method": row["method"], "every": None}
        )
        pair |= {"every" if row["asked"] == EVERY else "block": row["values_per_s"], "bytes": row["bytes"]}
        pair["error"] = max(row["error"], pair.get("error", 0.0))
    return list(out.values())


def context(report: Report) -> Row:
    pairs = peer_pairs(report.rows.get("peers", []))
    slow = [row for row in report.rows.get("questions", []) if row["window"] == "RecentWindow" and row["eps"] >= 0.01]
    return {"pairs": pairs, "slowest": max(slow, key=lambda row: float(row["median"]), default=None)}


PARTS = {"rates": rates, "questions": questions, "peers": peers, "space": space}
PACKAGES = ("polars", "pandas", "river")
SUBJECT = Subject("the most recent values: speed, space, peers", Settings, PARTS, context, packages=PACKAGES)
