"""Model of a History: everything appended, in plain arrays, and an exact answer to every query.

It does not know how runs are stored. `small` makes blocks, files and ranges so small that little data has many.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide.caching import ENTRY_BYTES
from quantide.history import (
    History,
    appended_rows,
    chunk_sort,
    compaction_plan,
    compaction_tasks,
    file_rebuild,
    run,
    span_view,
)
from quantide.store import data_file
from tests import oracle

Rng = np.random.Generator
Array = Any  # of any dtype; of objects for decimals


@contextmanager
def small(
    block: int = 8, partition: int = 25, rows: int = 30, piece: int = 40, files: int = 64, segments: int = 1024
) -> Iterator[None]:
    """Set the rows of blocks, partitions, ranges and pieces, the fewest files of a large run, the most segments that
    are searched, and a small cache.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (data_file, compaction_tasks, file_rebuild):
            patch.setattr(module, "BLOCK", block)
        patch.setattr(data_file, "WRITE_ROWS", 4 * block)
        patch.setattr(data_file, "MAX_OPEN_FILES", 3)
        patch.setattr(chunk_sort, "PARTITION_ROWS", partition)
        patch.setattr(chunk_sort, "SAMPLE_SIZE", 4)
        patch.setattr(chunk_sort, "THREAD_ROWS", partition)
        patch.setattr(compaction_plan, "TASK_ROWS", rows)
        patch.setattr(compaction_plan, "MIN_FILES", files)
        patch.setattr(appended_rows, "PIECE_ROWS", piece)
        patch.setattr(span_view, "MAX_SEGMENTS", segments)
        patch.setattr(run, "MAX_BYTES", 3 * (8 * block + ENTRY_BYTES))
        yield


# --- values of every type and shape -------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Type of values, made from whole numbers in a way that preserves their order."""

    name: str
    of: Callable[[Array], Array]

    def to_input(self, values: Array) -> Any:
        """Return the values in a form that has their type."""
        if self.name.startswith("decimal"):
            return pa.array(values.tolist(), pa.decimal128(18, 2))
        if "tz=" in self.name:
            return pa.array(values, pa.timestamp("us", "UTC"))
        return values


def _decimals(whole: Array) -> Array:
    return np.array([Decimal(int(x)).scaleb(-2) for x in whole], dtype=object)


def _floats(whole: Array) -> Array:
    """Convert numbers to floats; the ends are infinite."""
    out = whole / 4
    return np.where(whole >= 999, np.inf, np.where(whole <= -999, -np.inf, out))


KINDS = [
    Kind("float64", _floats),
    Kind("float32", lambda whole: _floats(whole).astype(np.float32)),
    Kind("int64", lambda whole: whole * 9_000_000_000_000_000),
    Kind("int32", lambda whole: (whole * 2_000_000).astype(np.int32)),
    Kind("int8", lambda whole: (whole // 8).astype(np.int8)),
    Kind("uint32", lambda whole: ((whole + 1000) * 2_000_000).astype(np.uint32)),
    Kind("date", lambda whole: np.datetime64("2020-01-01", "D") + whole),
    Kind("timestamp[us]", lambda whole: np.datetime64("2020-01-01", "us") + whole * 1_000_003),
    Kind("timestamp[us, tz=UTC]", lambda whole: np.datetime64("2020-01-01", "us") + whole * 1_000_003),
    Kind("timestamp[ns]", lambda whole: np.datetime64("2020-01-01", "ns") + whole * 1_000_003),
    Kind("duration[ms]", lambda whole: (whole * 7).astype("m8[ms]")),
    Kind("decimal[2]", _decimals),
]
BY_NAME = {kind.name: kind for kind in KINDS}

# Whole numbers from -1000 to 1000, in shapes that hurt.
SHAPES: dict[str, Callable[[Rng, int], Array]] = {
    "wide": lambda rng, n: rng.integers(-1000, 1001, n),
    "sorted": lambda rng, n: np.sort(rng.integers(-900, 900, n)),
    "reversed": lambda rng, n: np.sort(rng.integers(-900, 900, n))[::-1],
    "ties": lambda rng, n: rng.choice([-8, 0, 8], n),
    "constant": lambda rng, n: np.full(n, 8 * rng.integers(-2, 3)),
    "ends": lambda rng, n: rng.choice([-1000, 0, 1000], n, p=[0.3, 0.4, 0.3]),
    "narrow": lambda rng, n: rng.integers(0, 20, n),
    "far": lambda rng, n: rng.integers(500, 900, n) * rng.choice([-1, 1]),
}


# --- everything that was appended ---------------------------------------------------------------------------


@dataclass
class Rows:
    """Values with their keys; keys are tuples even with one column, () without columns."""

    keys: list[tuple[Any, ...]]
    values: Array

    def of(self, key: tuple[Any, ...] | None) -> Array:
        return self.values if key is None else self.values[[own == key for own in self.keys]]


class Model:
    """Ended steps and the open one."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.nothing = kind.of(np.empty(0, dtype=np.int64))
        self.steps: list[list[Rows]] = []
        self.open: list[Rows] = []
        self.deleted_steps = 0

    def append(self, values: Array, keys: Sequence[tuple[Any, ...]] = ()) -> None:
        if len(values):
            self.open.append(Rows(list(keys) or [()] * len(values), values))

    def end_step(self) -> None:
        self.steps.append(self.open)
        self.open = []

    def delete_key(self, key: tuple[Any, ...]) -> int:
        """Delete the rows of a key; return their number."""
        deleted = 0
        for rows in [rows for step in self.steps for rows in step] + self.open:
            remains = [own != key for own in rows.keys]
            deleted += remains.count(False)
            rows.values, rows.keys = rows.values[remains], [own for own in rows.keys if own != key]
        return deleted

    def delete_before(self, step: int) -> int:
        """Delete the steps before one; return the number of their rows."""
        deleted = sum(len(rows.values) for old in self.steps[: step - 1] for rows in old)
        self.steps[: step - 1] = [[] for _ in self.steps[: step - 1]]
        self.deleted_steps = max(self.deleted_steps, step - 1)
        return deleted

    def stream(self, key: tuple[Any, ...] | None = None) -> Array:
        """Return the values of the open step."""
        return self._joined(self.open, key)

    def data(self, last_steps: int | None = None, key: tuple[Any, ...] | None = None) -> Array:
        """Return the values of the last steps and the open one."""
        first = 0 if last_steps is None else max(0, len(self.steps) - last_steps)
        return self._joined([rows for step in self.steps[first:] for rows in step] + self.open, key)

    def between(self, first: int, last: int) -> Array:
        """Return the values of steps first to last, from 1."""
        return self._joined([rows for step in self.steps[first - 1 : last] for rows in step], None)

    def keys(self) -> list[tuple[Any, ...]]:
        every = [rows for step in self.steps for rows in step] + self.open
        return sorted({key for rows in every for key in rows.keys}, key=repr)

    def _joined(self, rows: list[Rows], key: tuple[Any, ...] | None) -> Array:
        return np.concatenate([self.nothing, *(one.of(key) for one in rows)])


# --- what is verified at one moment -------------------------------------------------------------------------

MODES = ("quick", "accurate", "exact")


def check_all(
    history: History, model: Model, rng: Rng, keys: Sequence[Any] = (None,), questions: int = 3, spans: bool = True
) -> None:
    """Check every mode, every span (or everything at once), these keys, some phis and values."""
    stats = history.stats()
    assert stats["values"] == history.n == len(model.data())
    assert stats["history_values"] + stats["stream_values"] == stats["values"]
    assert stats["stream_values"] == len(model.stream())
    assert stats["steps"] == len(model.steps)
    for key in keys:
        steps_list = [span.last_steps for span in history.spans()] if spans else []
        for last_steps in [None, *steps_list, len(model.steps) + 3]:
            if len(model.data(last_steps, key)):
                check_span(history, model, rng, key, last_steps, questions)


def check_span(history: History, model: Model, rng: Rng, key: Any, last_steps: int | None, questions: int) -> None:
    """Check some queries in every mode about one key, or all, and one span."""
    data = np.sort(model.data(last_steps, key))
    some = rng.integers(1, len(data) + 1, questions) / len(data)
    for phi in [1e-9, 1.0, *some.tolist()]:
        for mode in MODES:
            check_answer(history, model, data, phi, mode, key, last_steps)
    probes = rng.choice(data, questions)
    for mode in MODES:
        check_ranks(history, model, data, probes, mode, key, last_steps)


def check_answer(
    history: History, model: Model, data: Array, phi: float, mode: str, key: Any, last_steps: int | None
) -> None:
    """Check one answer: its bounds are true, and as good as promised."""
    stats = history.stats()  # before the answer: a background compaction reduces the runs
    answer = history.answer(phi, mode, last_steps, key)
    assert oracle.bound_faults(data, answer) == []
    assert answer.mode == mode
    assert answer.stream_n == len(model.stream(key))
    covered = len(model.steps) - model.deleted_steps
    assert answer.last_steps == min(covered, last_steps if last_steps is not None else covered)
    assert not answer.widened
    all_keys = bool(history.settings.keys) and key is None
    if mode == "quick":
        assert answer.blocks_read == 0
        assert answer.error <= max(history.eps, history.settings.quick_eps) + 1e-12
    if mode == "accurate":
        assert answer.error * answer.n <= history.eps * answer.stream_n + oracle.SLACK
        assert answer.blocks_read <= (stats["blocks"] if all_keys else stats["runs"])
    if mode == "exact":
        assert answer.error == 0
        assert answer.value == oracle.exact_quantile(data, phi)
        assert answer.blocks_read <= (stats["blocks"] if all_keys else stats["runs"] + stats["chunks"])
    assert np.asarray(answer.value).dtype == model.kind.of(np.zeros(1, dtype=np.int64)).dtype


def check_ranks(
    history: History, model: Model, data: Array, probes: Array, mode: str, key: Any, last_steps: int | None
) -> None:
    """Check bounds of ranks: exact except for the open step where the mode allows it."""
    values = model.kind.to_input(probes)
    true = np.searchsorted(data, probes, side="right")
    version = history.version
    low, high = history.rank(values, mode, last_steps, key)
    assert np.all(low <= true)
    assert np.all(true <= high)
    n, m = len(data), len(model.stream(key))
    allowed = {"exact": 0.0, "accurate": history.eps * m, "quick": max(history.eps, history.settings.quick_eps) * n}[
        mode
    ]
    assert np.all(high - low <= 2 * allowed + oracle.SLACK)
    share = history.cdf(values, mode, last_steps, key)
    assert np.all(np.abs(share - true / n) <= allowed / n + 1e-12)
    one = history.rank(values[:1], mode, last_steps, key)
    if history.version == version:  # no compaction in the background was committed meanwhile
        assert (int(one[0][0]), int(one[1][0])) == (int(low[0]), int(high[0]))


def everything(history: History) -> list[float]:
    """Return all values, queried one by one."""
    return [history.quantile((i + 1) / history.n, "exact").item() for i in range(history.n)]
