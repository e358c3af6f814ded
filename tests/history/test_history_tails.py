"""Answers of a history are within a share of their distance from either end, in quick and in accurate mode."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import History
from quantide.errors import InvalidArgumentError, SettingsError
from quantide.history import chunk_sort, compaction_plan, compaction_tasks, file_rebuild
from quantide.history.history_reader import HistoryReader
from quantide.store import data_file
from quantide.store.store_settings import StoreSettings
from quantide.typing import Floats
from tests.oracle import tail_faults
from tests.orders import ORDERS
from tests.sampling import one_in

EPS, TAIL = 0.02, 0.1
MODES = ("quick", "accurate", "exact")
Rng = np.random.Generator


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Make files and blocks so small that runs have several of them."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (data_file, compaction_tasks, file_rebuild):
            patch.setattr(module, "BLOCK", 64)
        patch.setattr(data_file, "WRITE_ROWS", 128)
        patch.setattr(chunk_sort, "PARTITION_ROWS", 400)
        patch.setattr(compaction_plan, "TASK_ROWS", 500)
        yield


def check(history: HistoryReader, parts: list[Floats], key: Any = None, modes: tuple[str, ...] = MODES) -> None:
    """All ranks of small data and those near the ends of large data are within the profile, and so are their bounds.

    The last part is the open step: only its values count for the eps of accurate answers.
    """
    assert history.tail is not None
    data, m = np.sort(np.concatenate(parts)), len(parts[-1])
    n = len(data)
    for mode in modes:
        eps = {"quick": history.eps, "accurate": history.eps * m / n, "exact": 0.0}[mode]
        tail = 0.0 if mode == "exact" else history.tail
        if mode != "exact":
            assert not tail_faults(data, partial(history.quantiles, mode=mode, key=key), eps, tail)
        for phi in (1 / n, 10 / n, 0.001, 0.01, 0.5, 0.99, 0.999, 1 - 10 / n, 1.0):
            if not 0 < phi <= 1:
                continue
            answer = history.answer(phi, mode=mode, key=key)
            r = answer.target
            assert answer.error * n <= min(eps * n, tail * (n - r), tail * (r - 1)) + 0.5 + 1e-6
            low, high = history.run_query(lambda: history.span_view(None, key)).bounds(phi, mode)
            first, last = np.searchsorted(data, low, "right"), np.searchsorted(data, high, "left") + 1
            assert low <= data[r - 1] <= high
            reach = 2 * min(eps * n, tail * (n - r), tail * (r - 1)) * (1 + 1e-12)
            assert max(r - first, last - r) <= reach


def extremes(rng: Rng, size: int, count: int) -> Floats:
    """Values of which some, at both ends, are far from the others."""
    values = rng.random(size)
    at = rng.permutation(size)[:count]
    values[at[::2]], values[at[1::2]] = 10 + rng.random(len(at[::2])), -10 - rng.random(len(at[1::2]))
    return values


@pytest.mark.parametrize(
    "where", one_in(3, ["old steps", "the open step", "every step", "one old step and the open one"])
)
def test_where_the_extremes_are(tmp_path: Path, where: str, rng: Rng) -> None:
    counts = {
        "old steps": [60, 0, 40, 10, 0, 0],
        "the open step": [0, 0, 0, 0, 0, 100],
        "every step": [20, 20, 20, 20, 4, 20],
        "one old step and the open one": [0, 50, 0, 0, 0, 50],
    }[where]
    parts = [extremes(rng, size, count) for size, count in zip((600, 150, 900, 300, 10, 1000), counts, strict=True)]
    with History(tmp_path, EPS, kappa=2, tail=TAIL) as history:
        for part in parts[:-1]:
            history.append(part)
            history.end_step()
        for piece in np.array_split(parts[-1], 5):
            history.append(piece)
        assert history.tail == TAIL
        assert HistoryReader(tmp_path).tail == TAIL
        check(history, parts)


@pytest.mark.parametrize("order", one_in(3, ["ascending", "descending", "uniform", "zigzag"]))
def test_orders_over_many_chunks(tmp_path: Path, order: str, rng: Rng) -> None:
    """Append so many chunks to the open step that a sketch summarises them."""
    values = ORDERS[order](rng, 4000)
    with History(tmp_path, 0.05, kappa=2, tail=0.3) as history:
        history.append(values[:500])
        history.end_step()
        for piece in np.array_split(values[500:], 40):
            history.append(piece)
        check(history, [values[:500], values[500:]])


@pytest.mark.parametrize("ties", ["top", "bottom", "five values", "one value"])
def test_ties(tmp_path: Path, ties: str, rng: Rng) -> None:
    parts = [rng.random(size) for size in (900, 100, 1000)]
    for part in parts:
        if ties in ("top", "bottom"):
            part[rng.permutation(len(part))[: len(part) // 8]] = 2.0 if ties == "top" else -1.0
        else:
            part[:] = np.floor(part * (5 if ties == "five values" else 1))
    with History(tmp_path, EPS, tail=TAIL) as history:
        for part in parts[:-1]:
            history.append(part)
            history.end_step()
        history.append(parts[-1])
        check(history, parts)


def test_keys(tmp_path: Path, rng: Rng) -> None:
    steps = []
    with History(tmp_path, EPS, kappa=2, keys="host", tail=TAIL) as history:
        for step, size in enumerate((900, 400, 700, 600)):
            keys, values = rng.integers(0, 4, size) ** 2, extremes(rng, size, 30)
            steps.append((keys, values))
            history.append(values, key=keys)
            if step < 3:
                history.end_step()
        for key in (0, 1, 4, 9):
            check(history, [values[keys == key] for keys, values in steps], key=key)
        check(history, [values for _, values in steps], modes=("quick", "accurate"))


def test_after_reopening_and_rebuilding_index_files(tmp_path: Path, rng: Rng) -> None:
    parts = [extremes(rng, size, 30) for size in (700, 900, 600)]
    with History(tmp_path, EPS, kappa=1, tail=TAIL) as history:
        for part in parts[:-1]:
            history.append(part)
            history.end_step()
        history.append(parts[-1])
    for index_file in (tmp_path / "_quantide" / "side").glob("*.side"):
        index_file.unlink()
    with History(tmp_path, EPS) as history:
        history.open()
        assert history.tail == TAIL
        check(history, parts)


@given(st.data())
@settings(max_examples=15)
def test_any_steps(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    eps, tail = data.draw(st.sampled_from([(0.3, 0.5), (0.1, 0.3), (0.02, 0.2), (0.02, 0.05)]))
    kappa = data.draw(st.integers(1, 3))
    steps, step = [], []
    with History(tmp_path_factory.mktemp("store"), eps, kappa=kappa, tail=tail) as history:
        for _ in range(data.draw(st.integers(1, 6))):
            size = data.draw(st.sampled_from([1, 3, 40, 700]))
            values = rng.integers(0, data.draw(st.sampled_from([3, 50, 10**6])), size).astype(float)
            history.append(values)
            step.append(values)
            if data.draw(st.booleans()):
                history.end_step()
                steps.append(np.concatenate(step))
                step = []
        open_step = np.concatenate([np.empty(0), *step])
        check(history, [*steps, open_step])


@pytest.mark.parametrize(("eps", "tail"), [(0.001, 0.01), (0.01, 0.1), (0.02, None), (0.5, None)])
def test_the_default(eps: float, tail: float | None) -> None:
    stored = StoreSettings.of(eps)
    assert stored.tail == tail
    assert StoreSettings.from_json(stored.to_json()) == stored


def test_a_tail_is_a_setting_of_the_store(tmp_path: Path) -> None:
    with History(tmp_path / "a", 0.001, tail=0.02) as history:
        assert history.tail == 0.02
    with History(tmp_path / "a", 0.001) as history:
        assert history.tail == 0.02
    for tail in (None, 0.01):
        with pytest.raises(SettingsError, match=r"tail=0\.02"):
            History(tmp_path / "a", tail=tail)
    with History(tmp_path / "b", 0.001, tail=None) as history:
        assert history.tail is None
    with pytest.raises(SettingsError, match="tail=None"):
        History(tmp_path / "b", tail=0.01)


@pytest.mark.parametrize("tail", [0, -1, 1, 2.5, float("nan"), "0.1", True])
def test_what_is_no_tail(tmp_path: Path, tail: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="tail must be"):
        History(tmp_path, 0.01, tail=tail)


def test_a_memory_limit_has_no_tail(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="give eps and tail"):
        History(tmp_path, memory="10 MB", tail=0.01)
    with History(tmp_path, memory="10 MB") as history:
        assert (history.tail, history.eps < 0.01) == (None, True)
    with pytest.raises(SettingsError, match="eps"):
        History(tmp_path, eps=0.001)


def test_without_a_tail_nothing_is_promised_at_the_ends(tmp_path: Path) -> None:
    """Check that the oracle can fail, on the same data without a tail."""
    values = np.arange(20_000.0)
    with History(tmp_path, EPS, tail=None) as history:
        history.append(values)
        history.end_step()
        assert tail_faults(values, lambda phis: history.quantiles(phis, mode="quick"), EPS, TAIL)
