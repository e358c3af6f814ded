"""History and stream: figures 4 to 13 of the paper by Singh, Srivastava and Tirthapura (PVLDB 10(4), 2016).

All times are processor time, of all threads.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from time import thread_time
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.collection import Subject
from bench.history_load import opened
from bench.inputs import Floats, Truth, Values
from bench.plots import Points
from bench.qdigest import QDigest
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.timing import processor_clock as clock
from bench.timing import scratch
from quantide import GKSketch
from quantide.history import History
from quantide.history.chunk_sort import SortedChunk, sort_chunk
from quantide.kernels.warm_up import warm
from quantide.store.data_file import BLOCK, DataFiles, DataWriter, write_data
from quantide.store.index_builder import IndexBuilder
from quantide.store.writable_table import WritableTable

PARTS_OF_STEP = ("load", "sort", "summary", "merge", "commit")
COSTS, SHOWN = (*PARTS_OF_STEP, "read", "written"), "normal"  # of a step; the data set of large steps
COLUMNS = {"error, accurate": "accurate_mean_error", "certified, accurate": "accurate_certified"}
COLUMNS |= {"error, quick": "quick_mean_error", "certified, quick": "quick_certified", "first query": "first"}
COLUMNS |= {"time, accurate": "accurate_seconds", "time, quick": "quick_seconds", "blocks read": "accurate_reads"}
COLUMNS |= {"all of a step": "step", "an append": "append", "opening": "opening", "index": "bytes"}
Amounts = defaultdict[str, float]
CLOSE = 0.15  # how far from its memory a peer may be


@dataclass(frozen=True)
class Settings:
    """Large steps for time and blocks, small ones beside the peers, which take values one by one."""

    steps: int = sized(100, quick=5)
    step_values: int = sized(262_144, quick=2_000)  # four blocks
    small_values: int = sized(20_000, quick=500)
    memories: tuple[int, ...] = sized((25_000, 50_000, 100_000, 200_000), quick=(25_000, 50_000))
    small_memory: int = 100_000
    memory: int = 1_000_000
    data_kappas: tuple[int, ...] = sized((2, 3, 5, 10, 30), quick=(2, 3))
    kappas: tuple[int, ...] = sized((3, 9, 10, 30), quick=(2, 3))
    kappa: int = sized(10, quick=2)
    history_steps: tuple[int, ...] = sized((5, 10, 20, 50, 100, 200), quick=(2, 4))
    stream_steps: int = sized(50, quick=2)
    streams: tuple[int, ...] = sized(tuple(65_536 << i for i in range(7)), quick=(1_000, 2_000))
    chunk: int = sized(65_536, quick=500)
    questions: int = sized(33, quick=5)
    clock: str = "processor"  # before it was stored, times were those on the clock


def _network(rng: np.random.Generator, _step: int, size: int) -> Floats:
    """Return bytes of flows: packets of five sizes or of any, numbers of packets with a heavy tail; many are equal."""
    usual = rng.choice(np.array([40.0, 52.0, 576.0, 1420.0, 1500.0]), size, p=(0.30, 0.15, 0.05, 0.15, 0.35))
    packet = np.where(rng.random(size) < 0.6, usual, rng.integers(41, 1500, size).astype(np.float64))
    return np.asarray(packet * (np.floor(np.minimum(rng.pareto(1.2, size), 1e6)) + 1))


def _latency(rng: np.random.Generator, step: int, size: int) -> Floats:
    """Return milliseconds of requests: fast, slow and very slow ones, slower and more in the daytime."""
    load, kind = 1 + 0.5 * np.sin(2 * np.pi * step / 24), rng.random(size)
    median = np.where(kind < 0.02 * load, 900.0, np.where(kind < 0.25 * load, 45.0 * load, 2.5))
    return np.round(median * np.exp(rng.normal(0, 0.5, size)), 3)


SETS: dict[str, Callable[[np.random.Generator, int, int], Floats]] = {
    "normal": lambda rng, _, size: rng.normal(1e8, 1e7, size),
    "uniform": lambda rng, _, size: rng.integers(10**8, 10**9, size).astype(np.float64),
    "network": _network,
    "latency": _latency,
}


def step_values(name: str, step: int, size: int) -> Floats:
    """Return the values of a step of a data set, the same every time."""
    return SETS[name](np.random.default_rng([list(SETS).index(name), step]), step, size)


def small_steps(name: str, s: Settings) -> list[Values]:
    """Return steps of float32: q-digest needs a universe of 32 bits."""
    return [step_values(name, step, s.small_values).astype(np.float32) for step in range(s.steps + 1)]


class Trial:
    """A history, the truth about its values, and the seconds and blocks of each ended step, found by patching.

    load: data files; sort; summary: index files; merge: end_step without commits; commit: commits and the rest.
    """

    def __init__(self, path: Path, history: History, phis: Floats) -> None:
        self.path, self.history, self.phis, self.truth, self._lock = path, history, phis, Truth(), Lock()
        self.costs, self._open, self._spent = list[Amounts](), Amounts(float), Amounts(float)

    def append(self, values: Values) -> float:
        self.truth.add(values)
        return self._charge("commit", ("load", "sort", "summary", "written"), self.history.append, values)

    def end(self) -> None:
        self._charge("merge", ("commit", "read", "written"), self.history.end_step)
        self.costs.append(self._open)
        self._open = Amounts(float)
        if len(self.costs) % 10 == 0:
            self.history.vacuum(older_than_hours=0)

    def _charge(self, rest: str, names: Sequence[str], job: Callable[..., Any], *arguments: Any) -> float:
        """Run a job; add the amounts that it spent, and the rest of its seconds, to those of the open step."""
        self._spent.clear()
        taken, _ = clock(job, *arguments)
        found = {name: self._spent[name] for name in names}
        found[rest] = taken - sum(found[name] for name in names if name in PARTS_OF_STEP)
        for name, amount in found.items():
            self._open[name] += amount
        return taken

    def fill(self, steps: Iterable[Values]) -> None:
        """Append all steps; the last stays open."""
        for number, values in enumerate(steps):
            if number:
                self.end()
            self.append(values)

    def cost(self) -> Row:
        """Return the average of a step."""
        return {name: round(sum(cost[name] for cost in self.costs) / len(self.costs), 6) for name in COSTS}

    def query(self, mode: str, prefix: str = "", history: History | None = None) -> Row:
        """Query every phi after a warm-up; errors are in ranks, observed and certified."""
        handle = history or self.history
        handle.answer(0.5, mode)
        found = [clock(handle.answer, phi, mode) for phi in self.phis.tolist()]
        certified, reads = max(one.error * one.n for _, one in found), [one.blocks_read for _, one in found]
        row = answers_row(self.truth, self.phis, [(taken, one.value) for taken, one in found], certified, reads)
        return {prefix + name: value for name, value in row.items()}

    def both(self, history: History | None = None) -> Row:
        return self.query("accurate", "accurate_", history) | self.query("quick", "quick_", history)

    @contextmanager
    def patched(self) -> Iterator[None]:
        def spend(name: str, amount: float) -> None:
            with self._lock:
                self._spent[name] += amount

        def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any, **named: Any) -> Any:
                begun = thread_time()
                result = function(*arguments, **named)
                spend(part, thread_time() - begun)
                return result

            return run

        def sort(*arguments: Any) -> SortedChunk:
            chunk = sort_chunk(*arguments)  # partitions are sorted when they are written
            return replace(chunk, partitions=[timed("sort", partition) for partition in chunk.partitions])

        def write(storage: Any, name: str, pieces: Iterable[Any], keys: Sequence[str]) -> Any:
            rows = 0

            def count() -> Iterator[Any]:
                nonlocal rows
                for piece in pieces:
                    rows += len(piece)
                    yield piece

            written = write_data(storage, name, count(), keys)
            spend("written", -(-rows // BLOCK))
            return written

        def read(files: DataFiles, path: str, groups: list[int]) -> Any:
            spend("read", len(groups))
            return read_blocks(files, path, groups)

        read_blocks, tasks = DataFiles.read_blocks, "quantide.history.compaction_tasks"
        with (
            patch("quantide.history.history.sort_chunk", timed("sort", sort)),
            patch(f"{tasks}.write_data", write),
            patch.object(DataWriter, "append", timed("load", DataWriter.append)),
            patch.object(DataWriter, "__exit__", timed("load", DataWriter.__exit__)),
            patch.object(IndexBuilder, "add", timed("summary", IndexBuilder.add)),
            patch.object(IndexBuilder, "finish", timed("summary", IndexBuilder.finish)),
            patch.object(WritableTable, "commit", timed("commit", WritableTable.commit)),
            patch.object(DataFiles, "read_blocks", read),
        ):
            yield


def answers_row(truth: Truth, phis: Floats, found: Sequence[Any], certified: float, reads: Sequence[int]) -> Row:
    """Return the errors and the times of answers, given as pairs of seconds and values."""
    errors = truth.rank_errors(phis, [value for _, value in found])
    row: Row = {"n": truth.n(), "mean_error": float(errors.mean()), "worst_error": float(errors.max())}
    row |= {"certified": round(certified, 3), "seconds": round(float(np.median([taken for taken, _ in found])), 7)}
    return row | {"reads": float(np.mean(reads)), "most_reads": max(reads)}


@contextmanager
def trial(s: Settings, memory: int, kappa: int, value_type: str = "float64") -> Iterator[Trial]:
    more: Row = {"memory": memory, "kappa": kappa, "value_type": value_type, "window": 0}
    with scratch() as path, History(path, **more) as history:
        found = Trial(path, history, (np.arange(s.questions) + 0.5) / s.questions)
        with found.patched():
            yield found


@dataclass(frozen=True)
class Peer:
    """Sketch over the whole stream; `nbytes`: without room to grow."""

    name: str
    make: Callable[[float], Any]
    nbytes: Callable[[Any], int]
    certified: Callable[[Any, float], float]

    def measure(self, steps: Sequence[Values], memory: int, t: Trial) -> tuple[float, Row]:
        """Return the seconds of a step, and the answers of a sketch of about so many bytes, beside a trial."""
        taken, (sketch, used) = self.fit_memory(steps, memory)
        found = [clock(sketch.quantile, phi) for phi in t.phis.tolist()]
        certified = max(self.certified(sketch, phi) for phi in t.phis.tolist())
        return round(taken / len(steps), 6), {"bytes": used} | answers_row(t.truth, t.phis, found, certified, [0])

    def fit_memory(self, steps: Sequence[Values], memory: int) -> tuple[float, tuple[Any, int]]:
        """Return a sketch of all steps of about so many bytes, with the seconds to fill it."""
        eps = 0.01
        for _ in range(6):
            sketch = self.make(eps)
            taken = sum(clock(sketch.update, values)[0] for values in steps)
            used = self.nbytes(sketch)
            if abs(used / memory - 1) <= CLOSE:
                break
            eps = min(0.4, max(5e-5, eps * used / memory))
        return taken, (sketch, used)


def _gk_bytes(sketch: GKSketch) -> int:
    return len(sketch.summary()) * (sketch.summary().carried.itemsize + 16)


PEERS = (
    Peer("GK", GKSketch, _gk_bytes, lambda sketch, phi: float(sketch.answer(phi).error * sketch.n)),
    Peer("q-digest", QDigest, lambda digest: digest.nodes * 12, lambda digest, _: digest.eps * digest.n),
)


def by_memory(s: Settings) -> dict[str, list[Row]]:
    """Measure errors, updates and queries by memory, beside the peers in equal memory: Figures 4, 6 and 9."""
    errors, updates = list[Row](), list[Row]()
    for _ in warm():  # load and compile before anything is timed
        pass
    for name in SETS:
        steps = small_steps(name, s)
        for memory in s.memories:
            show(f"history: {name}, {memory:,} bytes, beside GK and q-digest")
            about = {"data": name, "memory": memory}
            with trial(s, memory, s.kappa, "float32") as t:
                t.fill(steps)
                used, cost = t.history.index_nbytes, t.cost()
                errors += [about | {"method": mode, "bytes": used} | t.query(mode) for mode in ("accurate", "quick")]
            for peer in PEERS:
                cost[peer.name], row = peer.measure(steps, used, t)
                errors.append(about | {"method": peer.name} | row)
            updates.append(about | cost)
    return {"memory": errors, "memory_updates": updates}


def by_kappa(s: Settings) -> dict[str, list[Row]]:
    """Measure errors, updates, queries and windows by kappa: Figures 5, 7, 8, 10 and 11."""
    found: dict[str, list[Row]] = {name: [] for name in ("data_kappas", "kappas", "accesses", "spans")}
    for name in SETS:
        steps = small_steps(name, s)
        for kappa in s.data_kappas:
            show(f"history: {name}, kappa = {kappa}")
            with trial(s, s.small_memory, kappa, "float32") as t:
                t.fill(steps)
                about = {"data": name, "kappa": kappa, "bytes": t.history.index_nbytes, "eps": t.history.eps}
                found["data_kappas"].append(about | {"mode": "accurate"} | t.query("accurate"))
    for kappa in s.kappas:
        show(f"history: large steps, kappa = {kappa}")
        with trial(s, s.memory, kappa) as t:
            for step in range(s.steps):
                t.append(step_values(SHOWN, step, s.step_values))
                t.end()
                spans = " ".join(str(span.last_steps) for span in t.history.spans())
                found["spans"].append({"kappa": kappa, "step": step + 1, "last_steps": spans})
            t.append(step_values(SHOWN, s.steps, s.step_values))
            about = {"kappa": kappa, "runs": t.history.stats()["runs"], "bytes": t.history.index_nbytes}
            found["kappas"].append(about | t.cost() | t.both())
            counted = sorted(Counter(int(cost["read"] + cost["written"]) for cost in t.costs).items())
            found["accesses"] += [{"kappa": kappa, "blocks": blocks, "steps": steps} for blocks, steps in counted]
    return found


def by_growth(s: Settings) -> dict[str, list[Row]]:
    """Measure more history over the same stream, and a larger stream over the same history: Figures 12 and 13."""
    rows, streams = list[Row](), list[Row]()
    with trial(s, s.memory, s.kappa) as t:
        for step in range(max(s.history_steps) + 1):
            t.append(step_values(SHOWN, step, s.step_values))
            if step in s.history_steps:
                show(f"history: {step} steps")
                opening, history = clock(opened, t.path)
                with history:
                    rows.append({"steps": step, **t.cost(), "opening": round(opening, 6), **_query(t, history)})
            t.end()
    with trial(s, s.memory, s.kappa) as t:
        for step in range(s.stream_steps):
            t.append(step_values(SHOWN, step, s.step_values))
            t.end()
        before = t.truth.n()
        for stream in s.streams:
            show(f"history: {stream:,} values in the stream")
            taken = []
            while (used := t.truth.n() - before) < stream:
                values = step_values(SHOWN, s.stream_steps + used // s.chunk, min(s.chunk, stream - used))
                taken.append(t.append(values))
            streams.append({"stream": stream, "append": round(float(np.mean(taken)), 6), **_query(t, t.history)})
    return {"history": rows, "stream": streams}


def _query(t: Trial, history: History) -> Row:
    """Query a handle; the first query feeds the sketch of the open step."""
    first, answers, stats = clock(history.answer, 0.5)[0], t.both(history), history.stats()
    row = {name: stats[name] for name in ("values", "stream_values", "runs")} | {"bytes": history.index_nbytes}
    return row | {"allowed": history.eps * stats["stream_values"], "first": round(first, 6)} | answers


def exponent(found: Points) -> float:
    """Return the slope of the best line through the logarithms: c of y ~ x^c."""
    if len({x for x, _ in found}) < 2:
        raise ValueError("growth needs points at two different places")
    x, y = np.log(np.array(found, dtype=np.float64)).T
    return round(float(np.polyfit(x, y, 1)[0]), 9) + 0.0  # no -0.0


def growth(rows: Sequence[Row], by: str, columns: Mapping[str, str], least: float = 0.0) -> list[Row]:
    """Return exponents of columns over all rows and over the last two; no value counts as less than `least`."""
    out = []
    for name, column in columns.items():
        if column in rows[0]:
            found = [(row[by], max(row[column], least)) for row in rows]
            out.append({"name": name, "exponent": exponent(found), "last": exponent(found[-2:])})
    return out


def step_seconds(row: Row) -> float:
    return sum(float(row[part]) for part in PARTS_OF_STEP)


def context(report: Report) -> Row:
    """Return tables of methods side by side and of growth; an error of no rank counts as that of one query."""
    rows, least, memory = report.rows, 1 / report.settings["questions"], []
    for some in group([row | {"of": (row["data"], row["memory"])} for row in rows["memory"]], "of").values():
        of = {row["method"]: row for row in some}
        errors = {name: max(row["mean_error"], least) for name, row in of.items()}
        memory.append({"of": of, "times": {name: error / errors["accurate"] for name, error in errors.items()}})
    steps = [row | {"step": step_seconds(row)} for row in rows["history"]]
    found: Row = {"history": growth(steps, "steps", COLUMNS, least)}
    found["stream"] = growth(rows["stream"], "stream", COLUMNS, least)
    return {"memory": memory, "growth": found, "step": step_seconds}


PARTS = {"memory": by_memory, "kappa": by_kappa, "growth": by_growth}
ABOUT = "history and stream, the figures of the paper: memory, kappa, updates, queries, windows, growth"
SUBJECT = Subject(ABOUT, Settings, PARTS, context)
