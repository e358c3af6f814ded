"""History and stream: figures 4 to 13 of the paper, for quantide.history.

Singh, Srivastava, Tirthapura: Estimating quantiles from the union of historical and streaming data, PVLDB 10(4), 2016.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats, Truth, Values
from bench.plots import Curve, Points, points
from bench.qdigest import QDigest
from bench.rendering import group
from bench.report import Report, Row, say, settings_at, sized
from bench.tables import ratio
from bench.timing import clock, scratch
from quantide import GKSketch
from quantide.history import History
from quantide.history.chunk_sort import SortedChunk, sort_chunk
from quantide.store.data_file import BLOCK, DataFiles, write_data
from quantide.store.index_file import build_index_file
from quantide.store.writable_table import WritableTable

PARTS_OF_STEP, MODES = ("load", "sort", "summary", "merge", "commit"), ("accurate", "quick")
METHODS, SHOWN = ("accurate", "GK", "quick", "q-digest"), "normal"  # methods by colour; data of updates and queries
CERTIFIED, PEER_NAMES = "certified at most", ("GK", "q-digest")
CLOSE, LEAST_EPS, MOST_EPS = 0.15, 5e-5, 0.4  # how far from its memory a peer may be; range of its eps


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
    kappas: tuple[int, ...] = sized((2, 3, 5, 7, 9, 10, 15, 30), quick=(2, 3))
    access_kappas: tuple[int, ...] = sized((7, 9, 10), quick=(2, 3))
    window_kappas: tuple[int, ...] = sized((3, 10), quick=(2, 3))
    kappa: int = sized(10, quick=2)
    history_steps: tuple[int, ...] = sized((5, 10, 20, 50, 100, 200), quick=(2, 4))
    stream_steps: int = sized(50, quick=2)
    streams: tuple[int, ...] = sized(tuple(65_536 << i for i in range(7)), quick=(1_000, 2_000))
    chunk: int = sized(65_536, quick=500)
    questions: int = sized(33, quick=5)

    def phis(self) -> Floats:
        return (np.arange(self.questions) + 0.5) / self.questions


# Data


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


# Trials


@dataclass(frozen=True)
class Cost:
    """Seconds of the parts of a step, and blocks read and written.

    load: data files; sort; summary: index files; merge: end_step without commits; commit: commits and the rest.
    """

    load: float = 0.0
    sort: float = 0.0
    summary: float = 0.0
    merge: float = 0.0
    commit: float = 0.0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def seconds(self) -> float:
        return sum(float(getattr(self, part)) for part in PARTS_OF_STEP)


class Recorder:
    """Times and block counts of functions of the product, while they are patched."""

    def __init__(self) -> None:
        self._lock, self.found = Lock(), defaultdict[str, float](float)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            begun = perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.add(part, perf_counter() - begun)

        return run

    def add(self, name: str, amount: float) -> None:
        with self._lock:
            self.found[name] += amount

    def clock(self, job: Callable[..., Any], *arguments: Any) -> tuple[float, dict[str, float]]:
        self.found = defaultdict(float)
        return clock(job, *arguments)[0], self.found

    @contextmanager
    def patched(self) -> Iterator[None]:
        read_values = DataFiles.read_blocks

        def sort(*arguments: Any) -> SortedChunk:
            chunk = sort_chunk(*arguments)  # the lots are sorted when they are written
            return replace(chunk, partitions=[self.timed("sort", lot) for lot in chunk.partitions])

        def write(path: str, rows: Any, *more: Any) -> Any:
            self.add("written", -(-len(rows) // BLOCK))
            return write_data(path, rows, *more)

        def read(files: DataFiles, path: str, groups: list[int]) -> Any:
            self.add("read", len(groups))
            return read_values(files, path, groups)

        with (
            patch("quantide.history.history.sort_chunk", self.timed("sort", sort)),
            patch("quantide.history.compaction_tasks.write_data", self.timed("load", write)),
            patch("quantide.history.compaction_tasks.build_index_file", self.timed("summary", build_index_file)),
            patch.object(WritableTable, "commit", self.timed("commit", WritableTable.commit)),
            patch.object(DataFiles, "read_blocks", read),
        ):
            yield


@dataclass
class Trial:
    """A history, the truth about it (a piece for each append), and the cost of each ended step."""

    path: Path
    history: History
    recorder: Recorder
    phis: Floats
    truth: Truth = field(default_factory=Truth)
    costs: list[Cost] = field(default_factory=list)
    opened: Cost = field(default_factory=Cost)

    def append(self, values: Values) -> Cost:
        self.truth.add(values)
        taken, found = self.recorder.clock(self.history.append, values)
        load, sort, summary = (found[name] for name in ("load", "sort", "summary"))
        cost = Cost(load, sort, summary, commit=taken - load - sort - summary, written=int(found["written"]))
        self.opened += cost
        return cost

    def end(self) -> None:
        taken, found = self.recorder.clock(self.history.end_step)
        blocks = {name: int(found[name]) for name in ("read", "written")}
        self.costs.append(self.opened + Cost(merge=taken - found["commit"], commit=found["commit"], **blocks))
        self.opened = Cost()
        if len(self.costs) % 10 == 0:
            self.history.vacuum(older_than_hours=0)

    def fill(self, steps: Sequence[Values]) -> None:
        """Append all steps; the last stays open."""
        for values in steps[:-1]:
            self.append(values)
            self.end()
        self.append(steps[-1])

    def cost(self) -> Row:
        """Return the average of a step."""
        total, steps = sum(self.costs, Cost()), len(self.costs)
        taken = {part: round(getattr(total, part) / steps, 6) for part in PARTS_OF_STEP}
        return taken | {"read": total.read / steps, "written": total.written / steps}

    def ask(self, mode: str, last_steps: int | None = None, history: History | None = None, prefix: str = "") -> Row:
        """Query every phi after a warm-up; errors are in ranks, observed and certified."""
        asked, last = history or self.history, None if last_steps is None else last_steps + 1  # with the open one
        asked.answer(0.5, mode, last_steps)
        found = [clock(asked.answer, phi, mode, last_steps) for phi in self.phis.tolist()]
        errors = self.truth.rank_errors(self.phis, [answer.value for _, answer in found], last)
        certified = max(answer.error * answer.n for _, answer in found)
        reads = [answer.blocks_read for _, answer in found]
        row = _asked_row(self.truth.n(last), errors, certified, [taken for taken, _ in found], reads)
        return {prefix + name: value for name, value in row.items()}

    def both(self, history: History | None = None) -> Row:
        return self.ask("accurate", None, history, "accurate_") | self.ask("quick", None, history, "quick_")


def _asked_row(n: int, errors: Floats, certified: float, taken: list[float], reads: Sequence[int]) -> Row:
    row = {"n": n, "mean_error": float(errors.mean()), "worst_error": float(errors.max())}
    row["certified"] = round(certified, 3)
    row |= {"seconds": round(float(np.median(taken)), 7), "reads": float(np.mean(reads))}
    return row | {"most_reads": max(reads)}


@contextmanager
def trial(s: Settings, memory: int, kappa: int, value_type: str = "float64") -> Iterator[Trial]:
    recorder, more = Recorder(), {"kappa": kappa, "value_type": value_type, "window": 0}
    with scratch() as path, recorder.patched(), History(path / "store", memory=memory, **more) as history:  # type: ignore[arg-type]
        yield Trial(path / "store", history, recorder, s.phis())


@dataclass(frozen=True)
class Peer:
    """Sketch over the whole stream. `nbytes`: without room to grow; `part`: eps is found on so small a part.

    GK on a part of the values in that part of the memory has the same eps * n, so it is as full, but for ties.
    """

    name: str
    make: Callable[[float], Any]
    nbytes: Callable[[Any], int]
    certified: Callable[[Any, float], float]
    part: int

    def measure(self, steps: Sequence[Values], memory: int, phis: Floats, truth: Truth) -> tuple[float, Row]:
        """Return the seconds of a step, and the answers of a sketch of about so many bytes."""
        taken, (sketch, used) = self.fit_memory(steps, memory)
        asked = [clock(sketch.quantile, phi) for phi in phis.tolist()]
        errors = truth.rank_errors(phis, [value for _, value in asked])
        certified = max(self.certified(sketch, phi) for phi in phis.tolist())
        row = _asked_row(truth.n(), errors, certified, [seconds for seconds, _ in asked], [0])
        return round(taken / len(steps), 6), {"bytes": used, **row}

    def fit_memory(self, steps: Sequence[Values], memory: int) -> tuple[float, tuple[Any, int]]:
        """Return a sketch of all steps of about so many bytes, with the seconds to fill it."""
        eps, few = 0.01, [values[:: self.part] for values in steps]
        for _ in range(5):
            eps = _within(eps * self.fill(_within(eps * self.part), few)[1] * self.part / memory)
        taken, (sketch, used) = clock(self.fill, eps, steps)
        if abs(used / memory - 1) > CLOSE:
            taken, (sketch, used) = clock(self.fill, _within(eps * used / memory), steps)
        return taken, (sketch, used)

    def fill(self, eps: float, steps: Sequence[Values]) -> tuple[Any, int]:
        """Return a sketch and its bytes, averaged over the later half of the steps, as GK swells and shrinks."""
        sketch, sizes = self.make(eps), []
        for values in steps:
            sketch.update(values)
            sizes.append(self.nbytes(sketch))
        later = sizes[len(sizes) // 2 :]
        return sketch, round(sum(later) / len(later))


def _within(eps: float) -> float:
    return min(MOST_EPS, max(LEAST_EPS, eps))


def _gk_bytes(sketch: GKSketch) -> int:
    return len(sketch.summary()) * (sketch.summary().carried.itemsize + 16)


PEERS = (
    Peer("GK", GKSketch, _gk_bytes, lambda sketch, phi: float(sketch.answer(phi).error * sketch.n), 8),
    Peer("q-digest", QDigest, lambda digest: digest.nodes * 12, lambda digest, _: digest.eps * digest.n, 1),
)


# Measurements


def by_memory(s: Settings) -> dict[str, list[Row]]:
    """Measure errors, updates and queries by memory, beside the peers in equal memory: Figures 4, 6 and 9."""
    quick, errors, updates = settings_at(Settings, "quick"), list[Row](), list[Row]()
    for kind in ("float32", "float64"):  # load and compile before anything is timed
        with trial(quick, quick.memory, 1, kind) as t:
            t.fill([np.arange(100, dtype=kind)] * 4)
            t.both()
    for name in SETS:
        steps = small_steps(name, s)
        for memory in s.memories:
            say(f"history: {name}, {memory:,} bytes, beside GK and q-digest")
            about = {"data": name, "memory": memory}
            with trial(s, memory, s.kappa, "float32") as t:
                t.fill(steps)
                used, cost = t.history.index_nbytes, t.cost()
                errors += [about | {"method": mode, "bytes": used} | t.ask(mode) for mode in MODES]
            for peer in PEERS:
                cost[peer.name], row = peer.measure(steps, used, s.phis(), t.truth)
                errors.append(about | {"method": peer.name} | row)
            updates.append(about | cost)
    return {"memory": errors, "memory_updates": updates}


def by_kappa(s: Settings) -> dict[str, list[Row]]:
    """Measure errors, updates, queries and windows by kappa: Figures 5, 7, 8, 10 and 11."""
    found: dict[str, list[Row]] = {name: [] for name in ("data_kappas", "kappas", "accesses", "spans", "windows")}
    for name in SETS:
        steps = small_steps(name, s)
        for kappa in s.data_kappas:
            say(f"history: {name}, kappa = {kappa}")
            with trial(s, s.small_memory, kappa, "float32") as t:
                t.fill(steps)
                asked = {mode: t.ask(mode) for mode in MODES}
                about = {"data": name, "kappa": kappa, "bytes": t.history.index_nbytes, "eps": t.history.eps}
                found["data_kappas"] += [about | {"mode": mode} | row for mode, row in asked.items()]
    for kappa in s.kappas:
        say(f"history: large steps, kappa = {kappa}")
        with trial(s, s.memory, kappa) as t:
            for step in range(s.steps):
                t.append(step_values(SHOWN, step, s.step_values))
                t.end()
                if kappa in s.window_kappas:
                    spans = " ".join(str(span.last_steps) for span in t.history.spans())
                    found["spans"].append({"kappa": kappa, "step": step + 1, "last_steps": spans})
            t.append(step_values(SHOWN, s.steps, s.step_values))
            asked = t.both()
            about = {"kappa": kappa, "runs": t.history.stats()["runs"], "bytes": t.history.index_nbytes}
            found["kappas"].append(about | t.cost() | asked)
            counted = sorted(Counter(cost.read + cost.written for cost in t.costs).items())
            if kappa in s.access_kappas:
                found["accesses"] += [{"kappa": kappa, "blocks": blocks, "steps": steps} for blocks, steps in counted]
            sizes = [span.last_steps for span in t.history.spans()] if kappa in s.window_kappas else []
            found["windows"] += [{"kappa": kappa, "last_steps": one, **t.ask("accurate", one)} for one in sizes]
    return found


def by_growth(s: Settings) -> dict[str, list[Row]]:
    """Measure more history over the same stream, and a larger stream over the same history: Figures 12 and 13."""
    rows, streams, used, appends = list[Row](), list[Row](), 0, 0
    with trial(s, s.memory, s.kappa) as t:
        for step in range(max(s.history_steps) + 1):
            t.append(step_values(SHOWN, step, s.step_values))
            if step in s.history_steps:
                say(f"history: {step} steps")
                opening, opened = clock(_opened, t.path)
                with opened:
                    rows.append({"steps": step, **t.cost(), "opening": round(opening, 6), **_asked(t, opened)})
            t.end()
    with trial(s, s.memory, s.kappa) as t:
        for step in range(s.stream_steps):
            t.append(step_values(SHOWN, step, s.step_values))
            t.end()
        for stream in s.streams:
            say(f"history: {stream:,} values in the stream")
            taken = []
            while used < stream:
                values = step_values(SHOWN, s.stream_steps + appends, min(s.chunk, stream - used))
                taken.append(t.append(values).seconds)
                used, appends = used + len(values), appends + 1
            streams.append({"stream": stream, "append": round(sum(taken) / len(taken), 6), **_asked(t, t.history)})
    return {"history": rows, "stream": streams}


def _opened(path: Path) -> History:
    history = History(path)
    history.stats()
    return history


def _asked(t: Trial, history: History) -> Row:
    """Query a handle; the first query feeds the sketch of the open step."""
    first, asked, stats = clock(history.answer, 0.5)[0], t.both(history), history.stats()
    row = {name: stats[name] for name in ("values", "stream_values", "runs")} | {"bytes": history.index_nbytes}
    return row | {"allowed": history.eps * stats["stream_values"], "first": round(first, 6)} | asked


# Pages


def exponent(found: Points) -> float:
    """Return the slope of the best line through the logarithms: c of y ~ x^c."""
    if len({x for x, _ in found}) < 2:
        raise ValueError("growth needs points at two different places")
    xs, ys = ([math.log(point[i]) for point in found] for i in (0, 1))
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum((x - x0) ** 2 for x in xs)


def last_exponent(found: Points) -> float:
    return exponent(sorted(found)[-2:])


def cumulative_shares(rows: Sequence[Row]) -> Points:
    """Return the share of steps that took at most so many blocks, in percent."""
    total, so_far, out = sum(row["steps"] for row in rows), 0, []
    for row in rows:
        out.append((row["blocks"], 100 * so_far / total))
        so_far += row["steps"]
        out.append((row["blocks"], 100 * so_far / total))
    return out


def growth_curves(report: Report, name: str, by: str) -> list[Curve]:
    """Return the curves of Figure 12 ("history" by "steps") or 13 ("stream" by "stream")."""
    rows, least, out = report.rows[name], 1 / report.settings["questions"], []
    for mode in MODES:
        observed, certified = (
            [(row[by], max(row[f"{mode}_{y}"], least)) for row in rows] for y in ("mean_error", "certified")
        )
        out.append(Curve(f"error by {name}", by, "ranks", mode, METHODS.index(mode), observed, certified, CERTIFIED))
    panel = f"a query by {name}" if name == "history" else "time by stream"
    out += [Curve(panel, by, "ms", m, METHODS.index(m), points(rows, by, f"{m}_seconds", 1e3)) for m in MODES]
    out.append(Curve(panel, by, "ms", "first query", 4, points(rows, by, "first", 1e3)))
    if name == "stream":
        out.append(Curve(panel, by, "ms", "an append", 5, points(rows, by, "append", 1e3)))
    out.append(_reads(f"blocks of a query by {name}", by, rows))
    if name == "history":
        step, index = [(row[by], 1e3 * _step(row)) for row in rows], points(rows, by, "bytes", 1e-3)
        out.append(Curve("a step by history", by, "ms", "all of a step", 5, step))
        out.append(Curve("opening by history", by, "ms", "opening", 3, points(rows, by, "opening", 1e3)))
        budget = [(x, report.settings["memory"] / 1e3) for x, _ in index]
        out.append(Curve("index by history", by, "KB", "index", 1, index, budget, "budget"))
    return out


def _step(row: Row) -> float:
    return sum(float(row[part]) for part in PARTS_OF_STEP)


def _reads(panel: str, by: str, rows: list[Row], y: str = "accurate_reads") -> Curve:
    runs = points(rows, by, "runs") if "runs" in rows[0] else ()
    return Curve(panel, by, "blocks", "accurate", 0, points(rows, by, y), runs, "runs", linear="y")


def figures(report: Report) -> Row:
    """Draw the figures of the paper; an error of no rank is drawn as that of one query."""
    rows, least = report.rows, 1 / report.settings["questions"]
    used = {(row["data"], row["memory"]): row["bytes"] for row in rows["memory"] if row["method"] == "accurate"}
    memory = [{**row, "KB": round(used[row["data"], row["memory"]] / 1e3, 1)} for row in rows["memory"]]

    def errors(found: list[Row], by: str, method: str) -> list[Curve]:
        out = []
        for data, held in group(found, "data").items():
            for name, some in group(held, method).items():
                mean, certified = (
                    [(r[by], max(r[y], least) / r["n"]) for r in some] for y in ("mean_error", "certified")
                )
                out.append(Curve(data, by, "rank error / n", name, METHODS.index(name), mean, certified, CERTIFIED))
        return out

    def parts(panel: str, by: str, found: list[Row]) -> list[Curve]:
        out = [Curve(panel, by, "ms", p, i, points(found, by, p, 1e3), linear="y") for i, p in enumerate(PARTS_OF_STEP)]
        return [
            *out,
            Curve(panel, by, "ms", "all of it", 5, [(row[by], 1e3 * _step(row)) for row in found], linear="y"),
        ]

    kappas, windows = rows["kappas"], list(enumerate(group(rows["windows"], "kappa").items(), 4))
    methods = group([row for row in memory if row["data"] == SHOWN], "method")
    updates = parts("a small step by budget", "memory", [row for row in rows["memory_updates"] if row["data"] == SHOWN])
    updates += parts("a large step by kappa", "kappa", kappas)
    for i, name in enumerate(("read", "written")):
        found = points(kappas, "kappa", name)
        updates.append(Curve("blocks by kappa", "kappa", "blocks a step", name, i, found, linear="y"))
    for i, (kappa, some) in enumerate(group(rows["accesses"], "kappa").items()):
        line = ("steps by blocks", "blocks at most", "% of steps", f"kappa = {kappa}", i)
        updates.append(Curve(*line, cumulative_shares(some), linear="y"))
    asked = []
    for name, some in methods.items():
        asked.append(Curve("time by memory", "KB", "ms", name, METHODS.index(name), points(some, "KB", "seconds", 1e3)))
    for mode in MODES:
        found = points(kappas, "kappa", f"{mode}_seconds", 1e3)
        asked.append(Curve("time by kappa", "kappa", "ms", mode, METHODS.index(mode), found))
    for i, (kappa, some) in windows:
        found = points(some, "last_steps", "seconds", 1e3)
        asked.append(Curve("time by window", "last steps", "ms", f"kappa = {kappa}", i, found))
    asked.append(_reads("blocks by memory", "KB", methods["accurate"], "reads"))
    asked.append(_reads("blocks by kappa", "kappa", kappas))
    for i, (kappa, some) in windows:
        found = points(some, "last_steps", "reads")
        asked.append(Curve("blocks by window", "last steps", "blocks", f"kappa = {kappa}", i, found, linear="y"))
    spans = []
    for kappa, some in group(rows["spans"], "kappa").items():
        every = [(row["step"], int(size)) for row in some for size in row["last_steps"].split()]
        panel = f"kappa = {kappa}"
        spans.append(Curve(panel, "steps that ended", "last steps", "a window", 0, every, linear="xy", joined=False))
    by_kappa = errors(rows["data_kappas"], "kappa", "mode")
    grown = [growth_curves(report, name, by) for name, by in (("history", "steps"), ("stream", "stream"))]
    made = {"memory": (errors(memory, "KB", "method"), "Error by memory beside GK and q-digest, four data sets", 2)}
    made["kappa"] = (by_kappa, "Error by kappa, observed and certified, four data sets", 2)
    made["updates"] = (updates, "Time and blocks of a step by memory and kappa", 2)
    made["questions"] = (asked, "Time and blocks of a query by memory, kappa and window", 3)
    made["spans"] = (spans, "Windows that can be queried as steps end", 2)
    made["growth"] = (grown[0], "Error, time, blocks and memory by the number of steps", 3)
    made["stream"] = (grown[1], "Error, time and blocks by the size of the open step", 3)
    return {f"history-{name}.svg": plots.figure(*arguments) for name, arguments in made.items()}


def context(report: Report) -> Row:
    rows, s, least = report.rows, report.settings, 1 / report.settings["questions"]
    memory, ratios = [], {peer: list[float]() for peer in PEER_NAMES}
    for data, some in group(rows["memory"], "data").items():
        for budget, held in group(some, "memory").items():
            by = {row["method"]: row for row in held}
            for peer in PEER_NAMES:
                ratios[peer].append(max(by[peer]["mean_error"], least) / max(by["accurate"]["mean_error"], least))
            times = {f"{peer}_times": ratios[peer][-1] for peer in PEER_NAMES}
            memory.append({"data": data, "budget": budget, "by": by, **times})
    pairs = []
    for data, some in group(rows["data_kappas"], "data").items():
        for kappa, (accurate, quick) in group(some, "kappa").items():
            about = {"data": data, "kappa": kappa, "allowed": accurate["eps"] * s["small_values"]}
            pairs.append(about | {"accurate": accurate, "quick": quick})
    spans = {kappa: some[-1]["last_steps"].split() for kappa, some in group(rows["spans"], "kappa").items()}
    usual = next((row for row in rows["kappas"] if row["kappa"] == s["kappa"]), rows["kappas"][-1])
    stream = growth_curves(report, "stream", "stream")
    both = (("history", growth_curves(report, "history", "steps")), ("stream", stream))
    growth = {name: list[Row]() for name, _ in both}
    for name, c, line in ((n, one, line) for n, curves in both for one in curves for line in one.lines()):
        row: Row = {"panel": c.panel, "name": line.name, "exponent": exponent(line.points)}
        growth[name].append(row | {"last": last_exponent(line.points)})
    worst = {peer: f"{ratio(min(found))} to {ratio(max(found))} times" for peer, found in ratios.items()}
    found: Row = {"memory": memory, "kappas": pairs, "spans": spans, "growth": growth, "worst": worst}
    return found | {"usual": usual, "step": _step, "parts": PARTS_OF_STEP, "last": last_exponent(stream[0].bound)}


PARTS = {"memory": by_memory, "kappa": by_kappa, "growth": by_growth}
ABOUT = "history and stream, the figures of the paper: memory, kappa, updates, queries, windows, growth"
SUBJECT = Subject(ABOUT, Settings, PARTS, context, figures)
