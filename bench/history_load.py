"""History and stream: a billion values in steps, loaded beside a plain write, queried, and checked by counting."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.collection import Subject
from bench.inputs import Floats, Truth, Values
from bench.qdigest import QDigest
from bench.report import Part, Report, Row, say, sized
from bench.timing import clock, scratch
from quantide import GKSketch
from quantide.history import History

PHIS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
MODES = ("quick", "accurate", "exact")
SPARE = 3  # bytes of disk for each byte of data: runs, their merge, files that wait for a vacuum


@dataclass(frozen=True)
class Settings:
    """`peer_*`: the comparison in equal memory, in which the peers see every value one by one."""

    steps: int = sized(50, quick=4)
    step_values: int = sized(20_000_000, 2_000_000, 20_000)
    open_values: int = sized(20_000_000, 2_000_000, 5_000)
    kappa: int = sized(10, quick=2)
    eps: float = 0.001
    questions: int = sized(200, quick=5)
    peer_steps: int = sized(100, quick=5)
    peer_step_values: int = sized(40_000, quick=2_000)
    peer_memory: int = 100_000


def fit_disk(settings: Settings) -> Settings:
    """Reduce the values of a step to the free disk space."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    most = free // (8 * SPARE * (settings.steps + 1))
    if most >= settings.step_values:
        return settings
    say(f"history: {free / 1e9:.0f} GB are free; steps have {most:,} values instead of {settings.step_values:,}")
    return replace(settings, step_values=most, open_values=min(most, settings.open_values))


def step_values(step: int, size: int) -> Floats:
    """Return the values of a step, the same every time: normal, with a moving mean."""
    return np.random.default_rng([7, step]).normal(loc=np.sin(step / 5), size=size)


def store(settings: Settings) -> dict[str, list[Row]]:
    """Load, query and check."""
    with scratch() as folder:
        steps, history = _load(folder, settings)
        with history:
            asked = _ask(folder / "store", settings)
            return {"steps": steps, "asked": [asked], "checked": _check(history, settings)}


def _load(folder: Path, settings: Settings) -> tuple[list[Row], History]:
    """Append and end every step; write the same values as plain Parquet."""
    say(f"history: {settings.steps} steps of {settings.step_values:,} values")
    history, rows = History(folder / "store", eps=settings.eps, kappa=settings.kappa, window=0), []
    history.append(np.zeros(1))  # compile kernels, start threads, open files
    for step in range(settings.steps):
        values = step_values(step, settings.step_values)
        plain, _ = clock(_write_plain, folder / "plain.parquet", values)
        append, _ = clock(history.append, values)
        end, _ = clock(history.end_step)
        rows.append({"step": step + 1, "plain": plain, "append": append, "end": end, "runs": history.stats()["runs"]})
        if (step + 1) % 10 == 0:
            say(f"history: {step + 1} steps")
            history.vacuum(older_than_hours=0)
    history.append(step_values(settings.steps, settings.open_values))
    return rows, history


def _write_plain(path: Path, values: Floats) -> None:
    encoding: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"value": "BYTE_STREAM_SPLIT"}}
    pq.write_table(pa.table({"value": values}), path, row_group_size=1 << 16, compression="lz4", **encoding)


def _opened(store: Path) -> History:
    history = History(store)
    history.stats()
    return history


def _ask(store: Path, settings: Settings) -> Row:
    """Measure random queries, the blocks they read, and the time to open the store."""
    say("history: queries")
    opening, opened = clock(_opened, store)
    phis, row = np.random.default_rng(3).uniform(0.001, 1, settings.questions).tolist(), {"open_seconds": opening}
    for mode in MODES:
        opened.answer(0.5, mode)
        found = [clock(opened.answer, phi, mode) for phi in phis]
        times, reads = [seconds for seconds, _ in found], [answer.blocks_read for _, answer in found]
        row |= {f"{mode}_median": float(np.median(times)), f"{mode}_p99": float(np.quantile(times, 0.99))}
        row |= {f"{mode}_reads": float(np.mean(reads)), f"{mode}_most_reads": max(reads)}
    return (
        row
        | {name: opened.stats()[name] for name in ("runs", "values", "bytes")}
        | {"index_bytes": opened.index_nbytes}
    )


def _check(history: History, settings: Settings) -> list[Row]:
    """Compare answers of every mode with ranks counted over all values, which are generated again."""
    say("history: count every value again")
    answers, rows = [(mode, history.answer(phi, mode)) for mode in MODES for phi in PHIS], []
    below, equal = np.zeros(len(answers), dtype=np.int64), np.zeros(len(answers), dtype=np.int64)
    for values in _everything(settings):
        for i, (_, answer) in enumerate(answers):
            below[i] += np.count_nonzero(values < answer.value)
            equal[i] += np.count_nonzero(values == answer.value)
    for (mode, answer), less, same in zip(answers, below.tolist(), equal.tolist(), strict=True):
        off, certified = max(0, less + 1 - answer.target, answer.target - less - same), answer.error * answer.n
        allowed = {"quick": settings.eps * answer.n, "accurate": settings.eps * answer.stream_n, "exact": 0}[mode]
        row = {"mode": mode, "phi": answer.phi, "n": answer.n, "rank_error": off, "certified": round(certified)}
        row |= {"allowed": int(allowed), "blocks_read": answer.blocks_read}
        rows.append(row | {"holds": off <= certified + 1e-6 and certified <= allowed + 1e-6})
    return rows


def _everything(settings: Settings) -> Iterator[Floats]:
    yield np.zeros(1)
    for step in range(settings.steps):
        yield step_values(step, settings.step_values)
    yield step_values(settings.steps, settings.open_values)


def peers(settings: Settings) -> list[Row]:
    """Measure errors in equal memory: a history, and GK and q-digest over the whole stream."""
    steps, size, memory = settings.peer_steps, settings.peer_step_values, settings.peer_memory
    say(f"history: {steps} steps of {size:,} values beside GK and q-digest in {memory:,} bytes")
    data, truth, rows = [step_values(step, size).astype(np.float32) for step in range(steps + 1)], Truth(), []
    truth.add(np.concatenate(data))

    def row(method: str, used: int, answers: list[Any]) -> Row:
        errors = truth.rank_errors(np.array(PHIS), answers) / truth.n()
        return {"method": method, "bytes": used, "mean_error": float(errors.mean()), "worst_error": float(errors.max())}

    more: dict[str, Any] = {"kappa": settings.kappa, "value_type": "float32", "window": 0}
    with scratch() as folder, History(folder / "store", memory=memory, **more) as history:
        for values in data[:-1]:
            history.append(values)
            history.end_step()
        history.append(data[-1])
        memory = history.index_nbytes
        found = {mode: [history.answer(phi, mode).value for phi in PHIS] for mode in ("accurate", "quick")}
        rows += [row(f"quantide, {mode}", memory, answers) for mode, answers in found.items()]
    for name, make in (("GK over everything", GKSketch), ("q-digest over everything", QDigest)):
        sketch = _of_size(make, data, memory)
        rows.append(row(name, _bytes_of(sketch), [sketch.quantile(phi) for phi in PHIS]))
    return rows


def _of_size(make: Any, data: list[Values], memory: int) -> Any:
    """Return a sketch of all values of about that much memory; the first two tries find its eps."""
    eps = 0.01
    for _ in range(3):
        sketch = make(eps)
        for values in data:
            sketch.update(values)
        eps = min(0.4, eps * _bytes_of(sketch) / memory)
    return sketch


def _bytes_of(sketch: Any) -> int:
    return int(sketch.nodes * 12) if isinstance(sketch, QDigest) else int(sketch.nbytes)


def loading_ratio(report: Report) -> float:
    """Return the time of loading divided by that of a plain write."""
    rows = report.rows["steps"]
    return float(sum(row["append"] + row["end"] for row in rows) / sum(row["plain"] for row in rows))


def context(report: Report) -> Row:
    ours = next(row for row in report.rows["peers"] if row["method"] == "quantide, accurate")["mean_error"]
    peers = [row | {"times": row["mean_error"] / ours if ours else None} for row in report.rows["peers"]]
    return {"loading": loading_ratio(report), "peers": peers}


PARTS: dict[str, Part] = {"store": store, "peers": peers}
SUBJECT = Subject("a billion values on disk and a stream, queried together", Settings, PARTS, context, adjust=fit_disk)
