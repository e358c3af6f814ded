"""Guarantee: for any appends and compactions, every answer is within its error bound, and within the promised one."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from quantide.errors import EmptyError, InvalidArgumentError, SpanError, UnknownKeyError
from quantide.history import History, span_view
from tests.conftest import seed_of
from tests.history.history_model import BY_NAME, KINDS, MODES, SHAPES, Model, Rng, check_all, check_span, small
from tests.history.writer_workload import remove_store
from tests.oracle import SLACK, bound_faults, exact_quantile

KEYS: dict[str, list[tuple[Any, ...]]] = {
    "text": [("a",), ("b",), ("ü",), ("",), (None,)],
    "whole": [(7,), (-3,), (0,), (2**40,)],
    "two": [("a", 1), ("a", 2), ("b", 1), (None, 1), ("b", None)],
}


def names_of(keys: str | None) -> list[str] | None:
    return None if keys is None else ["host", "path"][: len(KEYS[keys][0])]


def drawn(rng: Rng, shape: str, kind: str, size: int) -> Any:
    return BY_NAME[kind].of(SHAPES[shape](rng, size))


# --- any operations in any order ----------------------------------------------------------------------------


class Operations(RuleBasedStateMachine):
    """History beside a model of it. Choices within a rule are random, from a seed that hypothesis chooses."""

    @initialize(
        eps=st.sampled_from([0.02, 0.1, 0.3]),
        kappa=st.sampled_from([1, 2, 3, 10]),
        kind=st.sampled_from([kind.name for kind in KINDS]),
        keys=st.none() | st.sampled_from(sorted(KEYS)),
        block=st.sampled_from([1, 3, 8]),
        segments=st.sampled_from([0, 6, 1024]),
    )
    def begin(self, eps: float, kappa: int, kind: str, keys: str | None, block: int, segments: int) -> None:
        self.small = small(block, partition=5 * block, rows=7 * block, segments=segments)
        self.small.__enter__()
        self.folder = tempfile.mkdtemp(prefix="quantide-operations-")
        self.kind, self.keys = BY_NAME[kind], keys
        self.model = Model(self.kind)
        self.settled = True  # no background compaction can change the spans between two queries
        self.history = History(self.folder, eps, kappa, keys=names_of(keys), value_type=kind)

    @rule(
        shape=st.sampled_from(sorted(SHAPES)),
        size=st.sampled_from([0, 1, 2, 30, 90]),
        seed=st.integers(0, 2**32),
        one_key=st.booleans(),
        form=st.sampled_from(["append", "file"]),
    )
    def append(self, shape: str, size: int, seed: int, one_key: bool, form: str) -> None:
        rng = np.random.default_rng(seed)
        values = self.kind.of(SHAPES[shape](rng, size))
        own: list[tuple[Any, ...]] = []
        if self.keys is not None:
            keys = KEYS[self.keys]
            own = [keys[0]] * size if one_key else [keys[i] for i in rng.integers(0, len(keys), size)]
            if own and not self.model.keys():
                own[0] = keys[0]  # the first keys declare the types: they must not all be null
        if form == "append":
            self.history.append(self.kind.to_input(values), self._key(own, one_key))
        else:
            self._append_file(values, own)
        self.model.append(values, own)

    @rule()
    def end_step(self) -> None:
        self.history.end_step()
        self.model.end_step()
        self.settled = True

    @rule()
    def end_step_in_the_background(self) -> None:
        self.history.end_step(wait=False)
        self.model.end_step()
        self.settled = False

    @rule()
    def reopen(self) -> None:
        self.history.close()
        self.history = History(self.folder)

    @rule()
    def drop_and_reopen(self) -> None:
        """Drop the handle without close(): nothing is lost, and the next handle can write at once."""
        self.history = History(self.folder)

    @rule(hours=st.sampled_from([0, 1]))
    def vacuum(self, hours: int) -> None:
        self.history.vacuum(hours)

    @rule()
    def verify(self) -> None:
        assert self.history.verify().values == len(self.model.data())

    @rule(seed=st.integers(0, 2**32), reader=st.booleans())
    def query(self, seed: int, reader: bool) -> None:
        rng = np.random.default_rng(seed)
        keys: list[Any] = [None]
        if self.model.keys() and self.keys is not None:
            keys.append(self.model.keys()[rng.integers(len(self.model.keys()))])
        history = History(self.folder) if reader else self.history
        check_all(history, self.model, rng, keys, questions=1, spans=self.settled)

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        try:
            self.query(seed=1, reader=False)
            self.history.close()
            runs = self.history.stats()["runs_by_level"]
            assert not self.settled or max(runs.values(), default=0) <= self.history.settings.kappa
        finally:
            self.small.__exit__(None, None, None)
            remove_store(self.folder)

    def _key(self, own: list[tuple[Any, ...]], one_key: bool) -> Any:
        """Return keys as one for all, an array beside the values, or tuples."""
        if self.keys is None:
            return None
        one_column = self.keys != "two"
        if one_key and own:
            return own[0][0] if one_column else own[0]
        if one_column:
            return pa.array([key[0] for key in own], _arrow_types(self.keys)[0])
        return own or tuple(pa.array([], kind) for kind in _arrow_types(self.keys))

    def _append_file(self, values: Any, own: list[tuple[Any, ...]]) -> None:
        given = self.kind.to_input(values)
        columns: dict[str, Any] = {"value": given if isinstance(given, pa.Array) else pa.array(given)}
        for i, name in enumerate(names_of(self.keys) or []):
            columns[name] = pa.array([key[i] for key in own], _arrow_types(self.keys or "")[i])
        path = f"{self.folder}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=11)
        assert self.history.append_files(path) == len(values)
        Path(path).unlink()


def _arrow_types(keys: str) -> list[pa.DataType]:
    return {"text": [pa.string()], "whole": [pa.int64()], "two": [pa.string(), pa.int64()]}[keys]


def test_any_operations() -> None:
    run_state_machine_as_test(Operations, settings=settings(max_examples=25, stateful_step_count=14))


@pytest.mark.slow
def test_very_many_operations() -> None:
    run_state_machine_as_test(Operations, settings=settings(max_examples=600, stateful_step_count=30))


# --- each type, each kappa ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _small(request: pytest.FixtureRequest) -> Any:
    if "operations" in request.node.name or "million" in request.node.name:
        yield
        return
    with small():
        yield


def filled(history: History, model: Model, rng: Rng, steps: int, rest: bool = True) -> None:
    """Make ended steps of one to three chunks each, of every shape, and some chunks in the open one."""
    for step in range(steps + rest):
        for _ in range(int(rng.integers(1, 4))):
            shape = list(SHAPES)[int(rng.integers(len(SHAPES)))]
            values = model.kind.of(SHAPES[shape](rng, int(rng.integers(1, 60))))
            history.append(model.kind.to_input(values))
            model.append(values)
        if step < steps:
            history.end_step()
            model.end_step()


# float64 is the type of all tests below; the others are carried like one that is not left out.
ALIKE = ("float64", "int32", "int8", "timestamp[us]")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind.name, marks=pytest.mark.slow if kind.name in ALIKE else ()) for kind in KINDS]
)
def test_every_type(kind: str, tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME[kind])
    with History(tmp_path / "s", eps=0.05, kappa=2, value_type=kind) as history:
        filled(history, model, rng, 5)
        check_all(history, model, rng, questions=1)
    check_all(History(tmp_path / "s"), model, rng, spans=False)


@pytest.mark.parametrize(("kappa", "steps"), [(1, 5), (2, 7), (3, 9), (10, 12)])
def test_every_kappa(kappa: int, steps: int, tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.1, kappa=kappa)
    for _ in range(steps):
        filled(history, model, rng, 1, rest=False)
        check_span(history, model, rng, None, None, 1)
    filled(history, model, rng, 0)
    check_all(history, model, rng)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_one_shape_all_the_time(shape: str, tmp_path: Path, rng: Rng) -> None:
    """Constant data, ties everywhere, rising values: none makes the bounds worse, or the reads more."""
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.05, kappa=3)
    for _ in range(5):
        values = drawn(rng, shape, "float64", 120)
        history.append(values)
        model.append(values)
        history.end_step()
        model.end_step()
    for size in (70, 50):
        values = drawn(rng, shape, "float64", size)
        history.append(values)
        model.append(values)
    check_all(history, model, rng, questions=2)


def test_a_stream_far_larger_than_the_history(tmp_path: Path, rng: Rng) -> None:
    """The open step is summarised within eps, and no coarser, for any number of chunks."""
    model = Model(BY_NAME["float64"])
    with History(tmp_path / "s", eps=0.02, kappa=2) as history:
        filled(history, model, rng, 3, rest=False)
        for size in (1, 1000, 5000, 17, 1000, 1000, 1000, 800):  # more tuples than are merged without a sketch
            values = rng.normal(size=size)
            history.append(values)
            model.append(values)
            check_span(history, model, rng, None, None, 1)
        answers = [history.answer(phi) for phi in np.linspace(0.01, 1, 50)]
        assert max(answer.error for answer in answers) > 0, "the stream is not kept exactly"


def test_a_million_values_in_blocks_as_they_are(tmp_path: Path, rng: Rng) -> None:
    """Query files of many row groups, without small blocks, cut by threads, with infinities for pivots."""
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.01, kappa=2)
    for values in (
        rng.normal(size=300_000),
        np.where(rng.random(1_100_000) < 0.8, np.inf, rng.normal(size=1_100_000)),
        -np.abs(np.where(rng.random(1_100_000) < 0.8, -np.inf, -0.0)),
        np.sort(rng.normal(size=300_000)),
    ):
        history.append(values)
        model.append(values + 0.0)
        history.end_step()
        model.end_step()
    values = rng.normal(size=200_000)
    history.append(values)
    model.append(values)
    data = np.sort(model.data())
    for phi in (1e-9, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0):
        for mode in MODES:
            answer = history.answer(phi, mode)
            assert bound_faults(data, answer) == []
        assert history.quantile(phi, "exact") == exact_quantile(data, phi)
    assert history.verify().values == len(data)


# --- spans --------------------------------------------------------------------------------------------------


def test_spans_are_exact_and_others_refused(tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME["int64"])
    history = History(tmp_path / "s", eps=0.05, kappa=2, value_type="int64")
    for _ in range(17):
        filled(history, model, rng, 1, rest=False)
        spans = history.spans()
        steps = len(model.steps)
        assert [span.last_steps for span in spans] == sorted(steps - run.id.first + 1 for run in history.runs())
        for span in spans:
            assert (span.first_step, span.last_step) == (steps - span.last_steps + 1, steps)
            assert span.values == len(model.data(span.last_steps))
        for last_steps in range(1, steps):
            if last_steps not in [span.last_steps for span in spans]:
                check_refused(history, model, last_steps)


def check_refused(history: History, model: Model, last_steps: int) -> None:
    """Check that the error lists the spans; that a widened answer covers the next longer one, and has the flag."""
    spans = [span.last_steps for span in history.spans()]
    with pytest.raises(SpanError, match=", ".join(map(str, spans))) as raised:
        history.answer(0.5, last_steps=last_steps)
    assert f"last_steps={last_steps}" in str(raised.value)
    for refused in (history.rank, history.cdf):
        with pytest.raises(SpanError, match="widen"):
            refused(0, last_steps=last_steps)
    wider = min(span for span in spans if span > last_steps)
    for mode in MODES:
        answer = history.answer(0.5, mode, last_steps=last_steps, widen=True)
        assert (answer.widened, answer.last_steps) == (True, wider)
        assert bound_faults(model.data(wider), answer) == []


def test_a_span_on_boundaries_is_not_widened(tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.05, kappa=2)
    filled(history, model, rng, 5)
    for span in history.spans():
        assert not history.answer(0.5, last_steps=span.last_steps, widen=True).widened
    everything = history.answer(0.5, last_steps=10**9)
    assert (everything.last_steps, everything.widened, everything.n) == (5, False, history.n)


def test_no_steps_is_the_open_step(tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.05, kappa=2)
    filled(history, model, rng, 3, rest=False)
    with pytest.raises(EmptyError):
        history.answer(0.5, last_steps=0)
    filled(history, model, rng, 0)
    check_span(history, model, rng, None, 0, 5)


def test_steps_without_values_count(tmp_path: Path) -> None:
    history = History(tmp_path / "s", kappa=3)
    for step in range(1, 8):
        if step % 3 == 1:
            history.append([float(step)])
        history.end_step()
    assert history.stats()["steps"] == 7
    assert history.answer(1, last_steps=1).value == 7
    assert history.answer(1e-9, last_steps=7).n == 3
    history.end_step()
    history.end_step()
    with pytest.raises(EmptyError):
        history.answer(0.5, last_steps=2)
    assert history.n == 3


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", sorted(KEYS))
def test_every_key(keys: str, tmp_path: Path, rng: Rng) -> None:
    """Query every key, null keys too; in many parts, so that keys are cut where parts end."""
    model, key_values = Model(BY_NAME["float64"]), KEYS[keys]
    with History(tmp_path / "s", eps=0.05, kappa=2, keys=names_of(keys)) as history:
        for step in range(4):
            own = [key_values[i] for i in rng.integers(0, len(key_values), 150)]
            values = drawn(rng, "wide", "float64", 150)
            columns = [[key[i] for key in own] for i in range(len(key_values[0]))]
            history.append(values, key=columns[0] if len(columns) == 1 else own)
            model.append(values, own)
            if step < 3:
                history.end_step()
                model.end_step()
        assert max(len(run.parts) for run in history.runs()) > 3
        check_all(history, model, rng, [None, *key_values], questions=1)
        history.verify()
    reader = History(tmp_path / "s")
    for stranger in strangers(keys):
        for mode in MODES:
            with pytest.raises(UnknownKeyError):
                reader.answer(0.5, mode, key=stranger)
        with pytest.raises(UnknownKeyError):
            reader.rank(0.0, key=stranger)


def strangers(keys: str) -> list[Any]:
    by_name: dict[str, list[Any]] = {
        "text": ["zz", "A", "a "],
        "whole": [8, 7.5, "seven", 2**70],
        "two": [("a", 3), ("c", 1), ("a", "b")],
    }
    return by_name[keys]


def test_a_key_that_came_late(tmp_path: Path) -> None:
    """Query a key that only some runs have, also over spans without it."""
    history = History(tmp_path / "s", kappa=10, keys="k")
    history.append([1.0], key="old")
    history.end_step()
    history.append([2.0], key="new")
    assert history.answer(1, key="new").n == history.answer(1, key="old").n == 1
    with pytest.raises(UnknownKeyError, match="'old'"):
        history.answer(1, last_steps=0, key="old")
    with pytest.raises(UnknownKeyError):
        history.answer(1, "exact", last_steps=0, key="old")


def test_a_single_huge_key(tmp_path: Path, rng: Rng) -> None:
    """A key cut over many parts and blocks is still answered from one block of each run."""
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.05, kappa=3, keys="k")
    for step in range(5):
        size = 600 if step % 2 else 200
        own = [("m",)] * size + [("a",)] * 5 + [("z",)] * 5
        values = drawn(rng, ["wide", "ties", "constant"][step % 3], "float64", len(own))
        history.append(values, key=[key[0] for key in own])
        model.append(values, own)
        if step < 4:
            history.end_step()
            model.end_step()
    longest = max(history.runs(), key=lambda run: run.rows)
    assert len(longest.locate(("m",))) > 10
    check_all(history, model, rng, [("m",), ("a",), None], questions=4)
    history.verify()


def test_many_small_keys(tmp_path: Path, rng: Rng) -> None:
    """Hundreds of keys of a few values: a query of one reads at most one block of each run."""
    model = Model(BY_NAME["int64"])
    history = History(tmp_path / "s", eps=0.05, kappa=2, keys="k", value_type="int64")
    for step in range(4):
        own = rng.integers(0, 250, 450)
        values = drawn(rng, "narrow", "int64", 450)
        history.append(values, key=own)
        model.append(values, [(int(key),) for key in own])
        if step < 3:
            history.end_step()
            model.end_step()
    some = [(int(key),) for key in np.unique(own)[:8]]
    for key in some:
        check_span(history, model, rng, key, None, 1)
    check_span(history, model, rng, None, None, 1)


@pytest.mark.parametrize("sizes", [(90, 10, 10), (30, 31, 29), (200, 1, 1), (1, 200, 1), (29, 29, 29, 29, 29)])
def test_keys_around_the_size_of_a_range(sizes: tuple[int, ...], tmp_path: Path, rng: Rng) -> None:
    """Keys just below the cutting size can leave nothing between two cuts."""
    for rows in (30, 110, 2 * max(sizes)):
        model = Model(BY_NAME["float64"])
        with small(block=4, partition=10, rows=rows), History(tmp_path / f"s{rows}", kappa=1, keys="k") as history:
            for _ in range(2):
                own = [(f"k{i}",) for i, size in enumerate(sizes) for _ in range(size)]
                values = rng.normal(size=len(own))
                history.append(values, key=[key[0] for key in own])
                model.append(values, own)
                history.end_step()
                model.end_step()
            assert history.stats()["runs"] == 1
            assert history.verify().values == 2 * sum(sizes)
            check_all(history, model, rng, [("k0",), ("k1",), None], questions=1, spans=False)


def test_more_keys_than_are_searched(tmp_path: Path, rng: Rng) -> None:
    """Spans of more keys than are searched are scanned; every mode answers."""
    keys = np.arange(10_000) % (span_view.MAX_SEGMENTS + 1)
    values = rng.normal(size=len(keys))
    with History(tmp_path / "s", keys="k") as history:
        history.append(values, key=keys)
        history.end_step()
        assert history.span_view().is_scanned("accurate")
        for mode in ("quick", "accurate", "exact"):
            answer = history.answer(0.5, mode)
            assert bound_faults(values, answer) == []
            assert answer.error == 0 or mode == "quick"
        assert history.answer(0.5, key=3).n == np.count_nonzero(keys == 3)


def test_summaries_of_all_keys_are_fine_enough(tmp_path: Path, rng: Rng) -> None:
    """For any eps, the sum over keys, and the compressed whole, stay within the error that the open step accepts."""
    for eps in (0.9, 0.7, 0.5, 0.31, 0.3, 0.29, 0.17, 0.11, 0.07, 0.03):
        history = History(tmp_path / f"s{eps}", eps=eps, keys="k")
        values = rng.random(3000)
        history.append(values, key=rng.integers(0, 40, 3000))
        answer = history.answer(0.37, "quick")
        assert bound_faults(values, answer) == []
        assert answer.error <= eps
        history.end_step()
        assert history.answer(0.37, "quick").error <= eps


# --- comparisons --------------------------------------------------------------------------------------------


def test_comparisons_are_bounded(tmp_path: Path, rng: Rng) -> None:
    model = Model(BY_NAME["float64"])
    history = History(tmp_path / "s", eps=0.05, kappa=3)
    filled(history, model, rng, 6)
    phis = [0.01, 0.5, 0.9, 1.0]
    last = history.spans()[0].last_steps
    first_run = history.runs()[0].id
    sides: list[tuple[Any, Any]] = [
        (None, model.data()),
        (history.spans()[1].last_steps, model.data(history.spans()[1].last_steps)),
        ((first_run.first, first_run.last), model.between(first_run.first, first_run.last)),
    ]
    for against, then in sides:
        for mode in MODES:
            comparisons = history.compare(phis, last_steps=last, against=against, mode=mode)
            assert [one.phi for one in comparisons] == phis
            for one in comparisons:
                assert bound_faults(model.data(last), one.value) == []
                assert bound_faults(then, one.against) == []
                share = np.mean(then <= one.value.value)
                assert one.place[0] - SLACK <= share <= one.place[1] + SLACK


def test_comparisons_need_run_boundaries(tmp_path: Path, rng: Rng) -> None:
    history, model = History(tmp_path / "s", kappa=2), Model(BY_NAME["float64"])
    filled(history, model, rng, 5)
    with pytest.raises(SpanError, match="1-2"):
        history.compare([0.5], last_steps=1, against=(2, 3))
    with pytest.raises(SpanError):
        history.compare([0.5], last_steps=1, against=(4, 9))
    with pytest.raises(SpanError):
        history.compare([0.5], last_steps=2)
    spans: list[Any] = [(1,), (1, 2, 3), ("a", "b"), (0, 1), (1.5, 2), [1, 2], "all"]
    for against in spans:
        with pytest.raises(InvalidArgumentError):
            history.compare([0.5], last_steps=1, against=against)


def test_the_same_questions_have_the_same_answers(tmp_path: Path) -> None:
    """The writer, a reader, one opened later, and a store that was filled in the same way give the same answers."""

    def answers(history: History) -> list[Any]:
        return [history.answer(phi, mode) for phi in np.linspace(0.01, 1, 30) for mode in MODES]

    outcomes = []
    for name in ("one", "two"):
        rng = np.random.default_rng(seed_of("same"))
        with History(tmp_path / name, eps=0.05, kappa=2) as history:
            filled(history, Model(BY_NAME["float64"]), rng, 5)
            outcomes += [answers(history), answers(History(tmp_path / name))]
        outcomes.append(answers(History(tmp_path / name)))
    assert all(outcome == outcomes[0] for outcome in outcomes)
