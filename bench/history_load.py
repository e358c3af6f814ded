"""History and stream: a billion values in steps, loaded beside a plain write, queried, and checked by counting.

The paper compares loading with "pure streaming": the same values are written unsorted, GK or q-digest of everything is
fed, and files are put together at the end of the same steps and in the same groups as runs are merged. Of the two,
q-digest is by far the faster; beside it StreamSketch, the fastest of all.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.collection import Subject
from bench.inputs import Floats
from bench.qdigest import QDigest
from bench.rendering import group
from bench.report import Report, Row, show, sized
from bench.timing import clock, scratch
from quantide import StreamSketch
from quantide.history import History

PHIS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
MODES = ("quick", "accurate", "exact")
ENCODING: dict[str, Any] = {"use_dictionary": False, "column_encoding": {"value": "BYTE_STREAM_SPLIT"}}
ENCODING |= {"compression": "lz4"}
BLOCK, SKETCHES = 1 << 16, ("digest", "sketch")  # q-digest, as in the paper, and StreamSketch


@dataclass(frozen=True)
class Settings:
    steps: int = sized(50, quick=4)
    step_values: int = sized(20_000_000, 2_000_000, 20_000)
    open_values: int = sized(20_000_000, 2_000_000, 5_000)
    kappa: int = sized(10, quick=2)
    eps: float = 0.001
    questions: int = sized(200, quick=5)


def step_values(step: int, s: Settings) -> Floats:
    """Return the values of a step, the same every time: normal, with a moving mean; the last step stays open."""
    size = s.step_values if step < s.steps else s.open_values
    return np.random.default_rng([7, step]).normal(loc=np.sin(step / 5), size=size)


def store(s: Settings) -> dict[str, list[Row]]:
    """Load, query and check."""
    with scratch() as folder, History(folder / "store", eps=s.eps, kappa=s.kappa, window=0) as history:
        steps, pure = _load(history, PureStreaming(folder, s.eps), s)
        return {"steps": steps, "pure": pure, "asked": [_query(folder / "store", s)], "checked": _check(history, s)}


class PureStreaming:
    """Unsorted Parquet files, put together as the runs of a history are, and sketches of all values."""

    def __init__(self, folder: Path, eps: float) -> None:
        self._folder, self._files = folder, dict[int, Path]()  # by their first step
        self.sketch, self.digest = StreamSketch(eps), QDigest(eps)

    def write(self, step: int, values: Floats) -> None:
        self._files[step] = self._folder / f"plain-{step}.parquet"
        pq.write_table(pa.table({"value": values}), self._files[step], row_group_size=BLOCK, **ENCODING)

    def put_together(self, starts: set[int]) -> None:
        """Put files together until those that are left begin at these steps."""
        groups: dict[int, list[Path]] = {}
        for step in sorted(self._files):
            groups.setdefault(max(start for start in starts if start <= step), []).append(self._files[step])
        for start, paths in groups.items():
            if len(paths) > 1:
                self._concatenate(paths)
            self._files = {step: path for step, path in self._files.items() if path not in paths} | {start: paths[0]}

    def _concatenate(self, paths: list[Path]) -> None:
        joined = paths[0].with_suffix(".joined")
        with pq.ParquetWriter(joined, pq.read_schema(paths[0]), **ENCODING) as writer:
            for path in paths:
                with pq.ParquetFile(path) as file:
                    for block in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(block, use_threads=False))
        for path in paths[1:]:
            path.unlink()
        joined.replace(paths[0])


def _load(history: History, plain: PureStreaming, s: Settings) -> tuple[list[Row], list[Row]]:
    """Append and end every step, load the same values by pure streaming; return seconds, and processor seconds."""
    show(f"history: {s.steps} steps of {s.step_values:,} values")
    rows, pure = list[Row](), list[Row]()
    history.append(np.zeros(1))  # compile kernels, start threads, open files
    for step in range(s.steps):
        values = step_values(step, s)
        jobs: dict[str, Callable[[], Any]] = {"plain": partial(plain.write, step, values)}
        jobs |= {"append": partial(history.append, values), "end": history.end_step}
        jobs["sketch"] = partial(plain.sketch.update, values)
        jobs["digest"] = partial(plain.digest.update, values.astype(np.float32))  # its universe has 32 bits
        jobs["concatenation"] = partial(_put_together, plain, history, step + 1)
        row, processor = _times(jobs)
        rows.append({"step": step + 1} | row | {"runs": history.stats()["runs"]})
        pure.append({"step": step + 1} | processor)
        if (step + 1) % 10 == 0:
            show(f"history: {step + 1} steps")
            history.vacuum(older_than_hours=0)
    history.append(step_values(s.steps, s))
    return rows, pure


def _put_together(plain: PureStreaming, history: History, steps: int) -> None:
    """Put files together as the runs of a history are merged after so many steps."""
    plain.put_together({steps - span.last_steps for span in history.spans()})


def _times(jobs: Mapping[str, Callable[[], Any]]) -> tuple[Row, Row]:
    """Return the seconds of the jobs on the clock, and their processor seconds."""
    taken, processor = Row(), Row()
    for name, job in jobs.items():
        begun = time.process_time()
        taken[name] = clock(job)[0]
        processor[name] = time.process_time() - begun
    return taken, processor


def opened(path: Path) -> History:
    history = History(path)
    history.stats()
    return history


def _query(path: Path, s: Settings) -> Row:
    """Measure random queries, the blocks they read, and the time to open the store."""
    opening, history = clock(opened, path)
    phis, row = np.random.default_rng(3).uniform(0.001, 1, s.questions).tolist(), {"open_seconds": opening}
    for mode in MODES:
        history.answer(0.5, mode)
        found = [clock(history.answer, phi, mode) for phi in phis]
        times, reads = [seconds for seconds, _ in found], [answer.blocks_read for _, answer in found]
        row |= {f"{mode}_median": float(np.median(times)), f"{mode}_p99": float(np.quantile(times, 0.99))}
        row |= {f"{mode}_reads": float(np.mean(reads)), f"{mode}_most_reads": max(reads)}
    stats = {name: history.stats()[name] for name in ("runs", "values", "bytes")}
    return row | stats | {"index_bytes": history.index_nbytes}


def _check(history: History, s: Settings) -> list[Row]:
    """Compare answers of every mode with ranks counted over all values, which are generated again."""
    show("history: count every value again")
    answers, rows = [(mode, history.answer(phi, mode)) for mode in MODES for phi in PHIS], []
    below, equal = np.zeros((2, len(answers)), dtype=np.int64)
    for step in range(-1, s.steps + 1):
        values = np.zeros(1) if step < 0 else step_values(step, s)
        for i, (_, answer) in enumerate(answers):
            below[i] += np.count_nonzero(values < answer.value)
            equal[i] += np.count_nonzero(values == answer.value)
    for (mode, answer), less, same in zip(answers, below.tolist(), equal.tolist(), strict=True):
        off, certified = max(0, less + 1 - answer.target, answer.target - less - same), answer.error * answer.n
        allowed = {"quick": s.eps * answer.n, "accurate": s.eps * answer.stream_n, "exact": 0}[mode]
        row = {"mode": mode, "phi": answer.phi, "n": answer.n, "rank_error": off, "certified": round(certified)}
        row |= {"allowed": int(allowed), "blocks_read": answer.blocks_read}
        rows.append(row | {"holds": off <= certified + 1e-6 and certified <= allowed + 1e-6})
    return rows


def context(report: Report) -> Row:
    """Return the time of loading divided by that of a plain write, and the times and worst errors of each mode."""
    queries, steps, modes = report.rows["asked"][0], report.rows["steps"], []
    for mode, rows in group(report.rows["checked"], "mode").items():
        worst = {name: max(row[name] for row in rows) for name in ("rank_error", "certified", "allowed")}
        times = {name: queries[f"{mode}_{name}"] for name in ("median", "p99", "reads", "most_reads")}
        modes.append({"mode": mode, "holds": all(row["holds"] for row in rows)} | worst | times)
    loading = sum(row["append"] + row["end"] for row in steps) / sum(row["plain"] for row in steps)
    return {"loading": loading, "modes": modes, "pure": pure_ratios(report.rows.get("pure", []))}


def pure_ratios(rows: list[Row]) -> dict[str, float]:
    """Return the processor time of loading divided by that of pure streaming, for each sketch; empty if unmeasured."""

    def spent(*names: str) -> float:
        return float(sum(row[name] for row in rows for name in names))

    ours = spent("append", "end")
    return {name: ours / spent("plain", name, "concatenation") for name in SKETCHES} if rows else {}


SUBJECT = Subject("a billion values on disk and a stream, queried together", Settings, {"store": store}, context)
