"""Worked examples of the paper (Singh, Srivastava, Tirthapura, VLDB 2016), and its memory budget."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from quantide import Summary
from quantide.errors import InvalidArgumentError, SettingsError
from quantide.history import History
from quantide.history.compaction_plan import next_level_compaction
from quantide.store.file_names import RunId
from quantide.store.store_settings import StoreSettings, parse_size
from quantide.summary.value_types import type_named
from tests import oracle
from tests.history.history_model import BY_NAME, MODES, Model, Rng, check_span

# --- Figure 3: eps=1/2, eps1=1/4, eps2=1/8 ------------------------------------------------------------------

RUNS = [np.arange(1.0, 101), np.arange(101.0, 201), np.arange(2.0, 202)]
STREAM = np.arange(401.0, 601)
RUN_TUPLES = [[1, 25, 50, 75, 100], [101, 125, 150, 175, 200], [2, 51, 101, 151, 201]]
STREAM_TUPLES = [401, 438, 452, 480, 520, 530, 565, 595, 600]
LOWER = [0, 0, 25, 50, 100, 125, 150, 200, 200, 225, 250, 300, 325, 350, 400]
LOWER += [400, 425, 450, 475, 500, 525, 550, 575, 600]
UPPER = [25, 75, 100, 125, 175, 200, 225, 300, 300, 325, 350, 400, 425, 450, 500]
UPPER += [550, 575, 600, 625, 650, 675, 700, 725, 750]
FLOATS = type_named("float64")
UNION = sorted([*(value for values in RUN_TUPLES for value in values), *STREAM_TUPLES])


def test_the_figures_bounds_are_those_of_the_formula() -> None:
    """Bounds count alpha - 1 steps below and alpha above, for alpha values of a summary up to v; a stream adds one."""
    lower, upper = [], []
    for value in UNION:
        counts = [sum(x <= value for x in values) for values in RUN_TUPLES]
        rows = [alpha * len(run) // 4 for alpha, run in zip(counts, RUNS, strict=True)]
        steps = [len(run) // 4 if alpha else 0 for alpha, run in zip(counts, RUNS, strict=True)]
        alpha = sum(x <= value for x in STREAM_TUPLES)
        lower.append(sum(rows) - sum(steps) + max(0, alpha - 1) * 25)
        upper.append(sum(rows) + (alpha + 1 if alpha else 0) * 25)
    assert lower == LOWER
    assert upper == UPPER


def test_our_summaries_of_the_figure_are_nowhere_looser() -> None:
    """The same tuples, merged as in section 1: within the paper's bounds at each of the 24 values."""
    parts = [_ranked(values, run) for values, run in zip(RUN_TUPLES, RUNS, strict=True)]
    rmin = np.array([1, *(25 * i for i in range(1, 8)), 200])
    rmax = np.array([1, *(25 * i + 25 for i in range(1, 8)), 200])
    parts.append(Summary(np.array(STREAM_TUPLES, dtype=float), rmin, rmax, 200, FLOATS))
    everything = np.concatenate([*RUNS, STREAM])
    merged = Summary.merge(*parts)
    assert oracle.summary_faults(merged, everything) == []
    for value, lower, upper in zip(UNION, LOWER, UPPER, strict=True):
        low, high = merged.rank(value)
        assert lower <= low <= oracle.count_at_most(everything, value) <= high <= upper


def _ranked(values: list[int], run: oracle.Data) -> Summary:
    ranks = np.array([oracle.count_at_most(run, value) for value in values])
    return Summary(np.array(values, dtype=float), ranks, ranks, int(ranks[-1]), FLOATS)


def test_a_history_of_the_figure(tmp_path: Path, rng: Rng) -> None:
    """Query every rank of three runs and a stream: quick within eps/4 of all, accurate within eps*m, exact."""
    model, history = Model(BY_NAME["float64"]), History(tmp_path / "s", eps=0.5, kappa=3)
    for run in RUNS:
        history.append(run)
        history.end_step()
        model.append(run)
        model.end_step()
    history.append(STREAM)
    model.append(STREAM)
    assert [(run.id.first, run.id.last, run.rows) for run in history.runs()] == [(1, 1, 100), (2, 2, 100), (3, 3, 200)]
    check_span(history, model, rng, None, None, 20)
    everything = np.concatenate([*RUNS, STREAM])
    for rank in range(1, 601, 7):
        assert history.answer(rank / 600, "quick").error <= 0.5 / 4
        answer = history.answer(rank / 600)
        assert oracle.bound_faults(everything, answer) == []
        assert answer.blocks_read <= 3
    assert history.quantile(0.5, "exact") == 151


# --- runs of kappa=2 after 13 steps -------------------------------------------------------------------------


def test_the_runs_after_thirteen_steps(tmp_path: Path) -> None:
    history = History(tmp_path / "s", kappa=2)
    for step in range(13):
        history.append([float(step)])
        history.end_step()
    assert [(run.id.first, run.id.last) for run in history.runs()] == [(1, 4), (5, 8), (9, 10), (11, 12), (13, 13)]
    assert [span.last_steps for span in history.spans()] == [1, 3, 5, 9, 13]
    assert history.stats()["runs_by_level"] == {0: 1, 1: 2, 2: 2}


@pytest.mark.parametrize(("kappa", "steps"), [(1, 20), (2, 30), (3, 40), (10, 25)])
def test_runs_follow_the_levels_of_the_paper(kappa: int, steps: int, tmp_path: Path) -> None:
    """The kappa oldest of more than kappa runs of a level become one of the next: simulated with lists beside it."""
    history = History(tmp_path / "s", kappa=kappa)
    levels: list[list[tuple[int, int]]] = [[] for _ in range(10)]
    for step in range(1, steps + 1):
        history.append([float(step)])
        history.end_step()
        levels[0].append((step, step))
        for level, above in pairwise(levels):
            if len(level) > kappa:
                merged = max(2, kappa)  # one run alone cannot be merged
                above.append((level[0][0], level[merged - 1][1]))
                del level[:merged]
        assert sorted((run.id.first, run.id.last) for run in history.runs()) == sorted(
            run for level in levels for run in level
        )
        counts = {number: len(runs) for number, runs in enumerate(levels) if runs}
        assert history.stats()["runs_by_level"] == counts


@dataclass(frozen=True)
class PlannedRun:
    """Run as the plan sees it."""

    id: RunId
    rows: int


def plan_steps(kappa: int, steps: int, runs: list[PlannedRun]) -> tuple[list[PlannedRun], list[int]]:
    """Return the runs after so many more steps of one row, and the rows read and written in each of them."""
    costs = []
    for step in range(max((run.id.last for run in runs), default=0) + 1, steps + 1):
        runs, cost = [*runs, PlannedRun(RunId(step, step, 0, 1, 1), 1)], 1
        while (compaction := next_level_compaction(runs, kappa, None)) is not None:  # type: ignore[arg-type]
            run_id = RunId(compaction.first, compaction.last, compaction.level, 1, 1)
            merged = {run.id for run in compaction.runs}
            runs = [*(run for run in runs if run.id not in merged), PlannedRun(run_id, compaction.rows)]
            cost += 2 * compaction.rows
        costs.append(cost)
    return sorted(runs, key=lambda run: run.id), costs


WINDOWS = {3: [1, 4, 7, 10, 19, 46, 73, 100], 10: [*range(1, 11), *range(20, 101, 10)]}


@pytest.mark.parametrize("kappa", WINDOWS)
def test_the_windows_of_figure_11(kappa: int) -> None:
    """Windows after 100 steps; for kappa = 3 the paper prints 45 and 72, which its own rule does not give."""
    runs, _ = plan_steps(kappa, 100, [])
    assert sorted(101 - run.id.first for run in runs) == WINDOWS[kappa]


def test_the_largest_step_of_figure_8() -> None:
    """With kappa = 9 the largest of 100 steps accesses 181 times as many blocks as the smallest: 1810K and 10K."""
    _, costs = plan_steps(9, 100, [])
    assert (min(costs), max(costs)) == (1, 181)


@pytest.mark.parametrize("kappa", [1, 2, 3, 10])
@pytest.mark.parametrize("before", [0, 1, 7, 13, 40, 121])
def test_levels_of_earlier_versions_are_continued(kappa: int, before: int) -> None:
    """Earlier versions merged all runs of a level: from their levels, or from runs that were never merged, no step is
    lost or covered twice, no level stays too full, and older runs are on higher levels.
    """
    levels: list[list[tuple[int, int]]] = [[] for _ in range(20)]
    for step in range(1, before + 1):
        levels[0].append((step, step))
        for level, above in pairwise(levels):
            if len(level) > kappa:
                above.append((level[0][0], level[-1][1]))
                level.clear()
    old = [RunId(*span, number, 1, 1) for number, level in enumerate(levels) for span in level]
    unmerged = [RunId(step, step, 0, 1, 1) for step in range(1, before + 1)]
    for ids in (old, unmerged):
        runs = sorted((PlannedRun(name, name.last - name.first + 1) for name in ids), key=lambda run: run.id)
        for step in range(before + 1, before + 30):
            runs, _ = plan_steps(kappa, step, runs)
            covered = [number for run in runs for number in range(run.id.first, run.id.last + 1)]
            assert covered == list(range(1, step + 1))
            assert max(Counter(run.id.level for run in runs).values()) <= kappa
            assert [run.id.level for run in runs] == sorted((run.id.level for run in runs), reverse=True)


# --- memory instead of eps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["250 MB", 250_000_000, "250MB", "0.25 gb", "250000 kb"])
def test_a_budget_of_memory(memory: int | str, tmp_path: Path, rng: Rng) -> None:
    """A budget gives half to the stream and half to the runs: far finer than this much data needs."""
    history = History(tmp_path / "s", memory=memory)
    assert history.settings.memory == 250_000_000
    values = rng.normal(size=50_000)
    history.append(values)
    assert oracle.bound_faults(values, history.answer(0.5)) == []
    history.end_step()
    for mode in ("quick", "accurate"):
        assert history.answer(0.5, mode).error == 0
    assert history.stats()["memory"] + history.index_nbytes < 250_000_000


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("memory", "kappa"), [("20 KB", 10), ("20 KB", 2), ("100 KB", 10), ("1 MB", 3)])
def test_a_small_budget(memory: str, kappa: int, keyed: bool, tmp_path: Path, rng: Rng) -> None:
    """Answers stay within the budget's own eps, and everything that is cached within the budget."""
    model, budget = Model(BY_NAME["float64"]), parse_size(memory)
    history = History(tmp_path / "s", memory=memory, kappa=kappa, keys="k" if keyed else None)
    for step in range(6):
        for size in (20_000, 7, 3000):
            values, own = rng.normal(size=size), rng.integers(0, 3, size)
            history.append(values, key=own if keyed else None)
            model.append(values, [(int(key),) for key in own] if keyed else ())
        if step < 5:
            history.end_step()
            model.end_step()
        check_span(history, model, rng, None, None, 2)
        stats = history.stats()
        assert stats["memory"] == sum(stats["memory_by_use"].values())
        assert stats["memory"] <= budget == stats["memory_limit"]
    check_span(history, model, rng, None, None, 8)
    if keyed:
        check_span(history, model, rng, (1,), None, 3)
    assert history.stats()["memory"] <= budget
    reopened = History(tmp_path / "s")
    assert reopened.settings == history.settings
    assert reopened.answer(0.5) == history.answer(0.5)


def test_one_summary_of_all_runs(tmp_path: Path, rng: Rng) -> None:
    """Quick answers stay as precise with more runs: the budget is not divided by them."""
    values = rng.normal(size=(12, 5000))
    errors = []
    for kappa in (1, 12):
        with History(tmp_path / str(kappa), memory="30 KB", kappa=kappa, window=0) as history:
            for step in values:
                history.append(step)
                history.end_step()
            errors.append(max(history.answer(phi, "quick").error for phi in np.linspace(0.01, 1, 40)))
            assert errors[-1] <= history.settings.quick_eps < 0.002
    assert errors[1] < 1.5 * errors[0] + 1 / 60_000


def test_many_chunks_within_a_budget(tmp_path: Path, rng: Rng) -> None:
    """Summaries of chunks are compressed, then added to a sketch, and stay within eps and the budget."""
    with History(tmp_path, memory="20 KB", window=0) as history:
        data = []
        for size in (3000, 500, 2000, 1, 4000, 2500, 2500, 100, 3000, 2000, 2000, 3000):
            data.append(rng.normal(size=size))
            history.append(data[-1])
            for mode in MODES:
                answer = history.answer(0.3, mode)
                assert oracle.bound_faults(np.concatenate(data), answer) == []
                assert answer.error <= history.eps
            assert history.stats()["memory"] <= 20_000


@pytest.mark.parametrize("kappa", [1, 2, 10, 100])
@pytest.mark.parametrize("keys", [None, "k"])
def test_the_smallest_budget(kappa: int, keys: str | None, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="at least") as refused:
        History(tmp_path / "s", memory=1000, kappa=kappa, keys=keys)
    found = re.search(r"at least ([0-9,]+) bytes", str(refused.value))
    assert found is not None
    least = int(found[1].replace(",", ""))
    with pytest.raises(InvalidArgumentError, match="at least"):
        History(tmp_path / "s", memory=least - 2, kappa=kappa, keys=keys)
    with History(tmp_path / "s", memory=least, kappa=kappa, keys=keys) as history:
        history.append(np.arange(1000.0), key=None if keys is None else "a")
        assert history.answer(0.5, "quick").n == 1000


def test_a_budget_of_version_0_2(tmp_path: Path) -> None:
    """Version 0.2 shared a budget differently: the store keeps its eps and opens with the same budget."""
    settings = StoreSettings.of(memory="1 MB")
    older = replace(settings, eps=0.00048, run_eps=0.00144)
    assert settings.merged_tuples is not None
    assert older.merged_tuples is None
    assert older.quick_eps == older.run_eps
    older.check_equal({"memory": "1 MB"})
    with pytest.raises(SettingsError, match="eps"):
        older.check_equal({"memory": "2 MB"})
    changed = older.with_changes({"max_ahead": "2 hours"})
    assert (changed.eps, changed.run_eps, changed.max_ahead) == (0.00048, 0.00144, "7200")


def test_more_memory_means_a_smaller_error(tmp_path: Path) -> None:
    settings = [History(tmp_path / size.replace(" ", ""), memory=size).settings for size in ("50 KB", "5 MB", "5 GB")]
    assert settings[0].eps > settings[1].eps > settings[2].eps
    assert settings[0].run_eps > settings[1].run_eps > settings[2].run_eps


@pytest.mark.parametrize(
    "memory",
    ["0 MB", "1 KB", "² MB", "MB", "-5 MB", "5 parsecs", "nan MB", "", "9" * 400 + " TB", 10**400, 0, -1, 1.5, True],
)
def test_what_is_no_budget(memory: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="memory"):
        History(tmp_path / "s", memory=memory)  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()


def test_a_budget_and_eps_are_two_words_for_one_thing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="one of them"):
        History(tmp_path / "s", eps=0.1, memory="1 MB")
    History(tmp_path / "s", memory="1 MB").append([1.0])
    assert History(tmp_path / "s", memory=10**6).n == 1
    with pytest.raises(SettingsError, match="eps"):
        History(tmp_path / "s", memory="2 MB")
    with pytest.raises(SettingsError, match="eps"):
        History(tmp_path / "s", eps=0.1)
