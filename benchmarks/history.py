"""History and stream: a billion values in steps, loaded beside a plain write, asked, and checked against a recount."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.qdigest import QDigest
from benchmarks.report import Report, Row, say
from benchmarks.timing import clock

PHIS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
SPARE = 3  # bytes of disk for each byte of data: runs, their merge, what waits for a vacuum


@dataclass(frozen=True)
class Settings:
    """`peer_*`: the comparison in equal memory, in which the peers see every value one by one."""

    steps: int = 50
    step_values: int = 20_000_000
    open_values: int = 20_000_000
    kappa: int = 10
    eps: float = 0.001
    questions: int = 200
    peer_steps: int = 100
    peer_step_values: int = 40_000
    peer_memory: int = 100_000


HOUR = Settings(step_values=2_000_000, open_values=2_000_000)
QUICK = Settings(
    steps=4, step_values=20_000, open_values=5_000, kappa=2, questions=5, peer_steps=5, peer_step_values=2_000
)


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    fitting = _fitting(settings, tempfile.gettempdir())
    return Report.in_parts("history", fitting, {"store": _store, "peers": _peers}, command, folder)


def _store(settings: Settings) -> dict[str, list[Row]]:
    """Loaded, asked and checked."""
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
        steps, history = _load(Path(folder), settings)
        with history:
            asked = _ask(Path(folder) / "store", history, settings)
            return {"steps": steps, "asked": [asked], "checked": _check(history, settings)}


def step_values(step: int, size: int) -> NDArray[np.float64]:
    """The values of a step, the same whenever they are asked for: normal, with a mean that wanders."""
    rng = np.random.default_rng([7, step])
    return rng.normal(loc=np.sin(step / 5), size=size)


def _fitting(settings: Settings, folder: str) -> Settings:
    """Fewer values a step where the disk has no room for more, and a word about it."""
    free = shutil.disk_usage(folder).free
    most = free // (8 * SPARE * (settings.steps + 1))
    if most >= settings.step_values:
        return settings
    say(f"history: only {free / 1e9:.0f} GB are free; steps have {most:,} values instead of {settings.step_values:,}")
    return Settings(**{**asdict(settings), "step_values": most, "open_values": min(most, settings.open_values)})


def _load(folder: Path, settings: Settings) -> tuple[list[Row], Any]:
    """Every step appended and ended, and the same values written as plain Parquet with the same settings."""
    from quantide.history import History

    say(f"history: {settings.steps} steps of {settings.step_values:,} values")
    history = History(folder / "store", eps=settings.eps, kappa=settings.kappa, window=0)
    history.append(np.zeros(1))  # kernels are compiled, threads and files are warm
    rows = []
    for step in range(settings.steps):
        values = step_values(step, settings.step_values)
        plain, _ = clock(lambda values=values: _write_plain(folder / "plain.parquet", values))  # type: ignore[misc]
        append, _ = clock(lambda values=values: history.append(values))  # type: ignore[misc]
        end, _ = clock(history.end_step)
        rows.append({"step": step + 1, "plain": plain, "append": append, "end": end, "runs": history.stats()["runs"]})
        if (step + 1) % 10 == 0:
            say(f"history: {step + 1} steps")
            history.vacuum(older_than_hours=0)
    history.append(step_values(settings.steps, settings.open_values))
    return rows, history


def _write_plain(path: Path, values: NDArray[np.float64]) -> None:
    pq.write_table(
        pa.table({"value": values}),
        path,
        row_group_size=1 << 16,
        compression="lz4",
        use_dictionary=False,
        column_encoding={"value": "BYTE_STREAM_SPLIT"},
    )


def _ask(store: Path, history: Any, settings: Settings) -> Row:
    """Times of answers to random questions, what they read, and how long opening takes."""
    from quantide.history import History

    say("history: questions")
    opening, opened = clock(lambda: _opened(History(store)))
    phis = np.random.default_rng(3).uniform(0.001, 1, settings.questions).tolist()
    row: Row = {"open_seconds": opening}
    for mode in ("quick", "accurate", "exact"):
        opened.answer(0.5, mode)
        times, reads = [], []
        for phi in phis:
            seconds, answer = clock(lambda phi=phi, mode=mode: opened.answer(phi, mode))  # type: ignore[misc]
            times.append(seconds)
            reads.append(answer.blocks_read)
        row |= {f"{mode}_median": float(np.median(times)), f"{mode}_p99": float(np.quantile(times, 0.99))}
        row |= {f"{mode}_reads": float(np.mean(reads)), f"{mode}_most_reads": max(reads)}
    stats = opened.stats()
    index = opened.index_nbytes
    return row | {"runs": stats["runs"], "values": stats["values"], "bytes": stats["bytes"], "index_bytes": index}


def _opened(history: Any) -> Any:
    history.stats()
    return history


def _check(history: Any, settings: Settings) -> list[Row]:
    """Answers of every mode, beside ranks counted over all values made once more."""
    say("history: every value is made again and counted")
    answers = [(mode, history.answer(phi, mode)) for mode in ("quick", "accurate", "exact") for phi in PHIS]
    below, equal = np.zeros(len(answers), dtype=np.int64), np.zeros(len(answers), dtype=np.int64)
    for values in _everything(settings):
        for i, (_, answer) in enumerate(answers):
            below[i] += np.count_nonzero(values < answer.value)
            equal[i] += np.count_nonzero(values == answer.value)
    rows = []
    for (mode, answer), less, same in zip(answers, below.tolist(), equal.tolist(), strict=True):
        off = max(0, less + 1 - answer.target, answer.target - less - same)
        allowed = {"quick": settings.eps * answer.n, "accurate": settings.eps * answer.stream_n, "exact": 0}[mode]
        rows.append(
            {
                "mode": mode,
                "phi": answer.phi,
                "n": answer.n,
                "rank_error": off,
                "certified": round(answer.error * answer.n),
                "allowed": int(allowed),
                "blocks_read": answer.blocks_read,
                "holds": off <= answer.error * answer.n + 1e-6 and answer.error * answer.n <= allowed + 1e-6,
            }
        )
    return rows


def _everything(settings: Settings) -> Iterator[NDArray[np.float64]]:
    yield np.zeros(1)
    for step in range(settings.steps):
        yield step_values(step, settings.step_values)
    yield step_values(settings.steps, settings.open_values)


def _peers(settings: Settings) -> list[Row]:
    """Observed errors in equal memory: a history, and GK and q-digest over the whole stream."""
    from quantide import GKSketch
    from quantide.history import History

    steps, size, memory = settings.peer_steps, settings.peer_step_values, settings.peer_memory
    say(f"history: {steps} steps of {size:,} values beside GK and q-digest in {memory:,} bytes")
    data = [step_values(step, size).astype(np.float32) for step in range(steps + 1)]
    everything = np.sort(np.concatenate(data))
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder,
        History(
            os.path.join(folder, "store"), memory=memory, kappa=settings.kappa, value_type="float32", window=0
        ) as history,
    ):
        for values in data[:-1]:
            history.append(values)
            history.end_step()
        history.append(data[-1])
        for mode in ("accurate", "quick"):
            found = np.array([history.answer(phi, mode).value for phi in PHIS])
            rows.append(_peer_row(f"quantide, {mode}", history.index_nbytes, found, everything))
        memory = history.index_nbytes
    for name, make in (("GK over everything", GKSketch), ("q-digest over everything", QDigest)):
        sketch = _of_size(make, data, memory)
        found = np.array([sketch.quantile(phi) for phi in PHIS])
        rows.append(_peer_row(name, _bytes_of(sketch), found, everything))
    return rows


def _of_size(make: Any, data: list[NDArray[np.float32]], memory: int) -> Any:
    """A sketch of all values that takes about that much memory: a first one tells how memory goes with eps."""
    eps = 0.01
    for _ in range(2):
        sketch = make(eps)
        for values in data:
            sketch.update(values)
        eps = min(0.4, eps * _bytes_of(sketch) / memory)
    sketch = make(eps)
    for values in data:
        sketch.update(values)
    return sketch


def _bytes_of(sketch: Any) -> int:
    return int(sketch.nodes * 12) if isinstance(sketch, QDigest) else int(sketch.nbytes)


def _peer_row(method: str, memory: int, found: NDArray[Any], everything: NDArray[Any]) -> Row:
    n = len(everything)
    targets = np.maximum(1, np.ceil(np.array(PHIS) * n - 1e-9))
    low = np.searchsorted(everything, found, side="left") + 1
    high = np.searchsorted(everything, found, side="right")
    off = np.maximum(0, np.maximum(low - targets, targets - np.maximum(high, low)))
    return {"method": method, "bytes": memory, "mean_error": float(off.mean() / n), "worst_error": float(off.max() / n)}
