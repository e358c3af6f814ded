"""ConstrainedWindow against a direct evaluation of its expression on all arrivals."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import ConstrainedWindow, Summary, errors, last, where, within
from quantide.windows import constrained_window
from quantide.windows.block_layout import layout_for
from quantide.windows.window_expression import WindowExpression
from tests.windows.small_windows import small_layout
from tests.windows.window_oracle import Array, inside, verify

Rng = np.random.Generator

A, B, HIGH = pc.field("src") == "A", pc.field("src") == "B", pc.field("load") > 0.5


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few values fill many levels."""
    monkeypatch.setattr(constrained_window, "layout_for", small_layout)


class Arrived:
    """All arrivals as columns; a load may be null (as nan)."""

    def __init__(self) -> None:
        self.value, self.time, self.load = np.empty(0), np.empty(0), np.empty(0)
        self.src = np.empty(0, dtype="U1")

    def more(self, rng: Rng, n: int, nulls: float = 0.1) -> pa.Table:
        """Append n rows; return them as a table."""
        start, so_far = (self.time[-1] if len(self.time) else 0.0), len(self.value)
        times = start + np.cumsum(np.round(rng.exponential(float(rng.choice([0, 0.01, 1.0])), n), 2))
        value = rng.choice([rng.random(n), np.arange(n) + so_far, -np.arange(n) - so_far, rng.integers(0, 4, n)])
        load = np.where(rng.random(n) < nulls, np.nan, rng.random(n))
        src = rng.choice(["A", "B", "C"], n, p=rng.dirichlet([1, 1, 1]))
        self.value, self.time = np.concatenate([self.value, value]), np.concatenate([self.time, times])
        self.load, self.src = np.concatenate([self.load, load]), np.concatenate([self.src, src])
        return pa.table(
            {"value": value.astype(float), "time": times, "src": src, "load": pa.array(load, mask=np.isnan(load))}
        )

    def repeat_last(self, weights: Array) -> None:
        """Repeat the last rows as often as their weights."""
        index = np.arange(len(self.value) - len(weights), len(self.value))
        repeated = np.concatenate([np.arange(len(self.value) - len(weights)), np.repeat(index, weights)])
        self.value, self.time, self.load, self.src = (
            column[repeated] for column in (self.value, self.time, self.load, self.src)
        )

    def mask(self, atom: tuple[Any, ...], now: float | None = None) -> Array:
        """Return a mask of the arrivals for which an atom is true."""
        kind, argument = atom
        if kind == "last":
            newest: Array = np.arange(len(self.value)) >= len(self.value) - argument
            return newest
        if kind == "within":
            return inside(self.time, self.time[-1] if now is None else now, argument)
        masks: Array = {
            "A": self.src == "A",
            "B": self.src == "B",
            "high": self.load > 0.5,  # not true for null, nor is its opposite
            "not A": self.src != "A",
            "not B": self.src != "B",
            "not high": self.load <= 0.5,
        }[argument]
        return masks


FILTERS = {"A": where(A), "B": where(B), "high": where(HIGH), "not A": ~where(A), "not B": ~where(B)}
FILTERS["not high"] = ~where(HIGH)
EVERY = reduce(operator.or_, FILTERS.values())


def constraint_of(tree: Any) -> WindowExpression:
    """Convert a tree of ("and" | "or", left, right) and atoms to an expression."""
    if len(tree) == 3:
        left, right = constraint_of(tree[1]), constraint_of(tree[2])
        return left & right if tree[0] == "and" else left | right
    kind, argument = tree
    return {"last": last, "within": within}[kind](argument) if kind != "where" else FILTERS[argument]


def truth_of(tree: Any, arrived: Arrived, now: float | None = None) -> Array:
    """Evaluate the same tree directly."""
    if len(tree) == 3:
        left, right = truth_of(tree[1], arrived, now), truth_of(tree[2], arrived, now)
        return left & right if tree[0] == "and" else left | right
    return arrived.mask(tree, now)


ATOMS = st.one_of(
    st.tuples(st.just("last"), st.sampled_from([1, 10, 100, 700, 3000])),
    st.tuples(st.just("within"), st.sampled_from([0.05, 1.0, 7.0, 60.0])),
    st.tuples(st.just("where"), st.sampled_from(sorted(FILTERS))),
)
TREES = st.recursive(ATOMS, lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner), max_leaves=7)


def verify_or_empty(window: ConstrainedWindow, data: Array, rng: Rng, /, **scope: Any) -> None:
    if len(data):
        verify(window, data, rng, **scope)
    else:
        with pytest.raises(errors.EmptyError):
            window.quantile(0.5, **scope)


@given(tree=TREES, others=st.lists(TREES, max_size=3), seed=st.integers(0, 2**32 - 1), eps=st.sampled_from([0.4, 0.1]))
def test_random_expressions(tree: Any, others: list[Any], seed: int, eps: float) -> None:
    """The declared expression is always answered; others are answered correctly or refused with a named error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constrained_window, "layout_for", small_layout)
        rng, arrived = np.random.default_rng(seed), Arrived()
        window = ConstrainedWindow(constraint_of(tree), eps)
        for _ in range(int(rng.integers(1, 8))):
            window.update(arrived.more(rng, int(rng.choice([1, 5, 64, 300, 900]))))
            if rng.random() < 0.2:
                window = ConstrainedWindow.from_bytes(window.to_bytes())
            assert window.arrived == len(arrived.value)
            data = arrived.value[truth_of(tree, arrived)]
            verify_or_empty(window, data, rng)
            assert window.n >= len(data)
            for other in others:
                try:
                    verify_or_empty(window, arrived.value[truth_of(other, arrived)], rng, window=constraint_of(other))
                except (errors.SpanError, errors.InvalidArgumentError):
                    continue


@settings(max_examples=40)
@given(trees=st.lists(TREES, min_size=1, max_size=5), seed=st.integers(0, 2**32 - 1))
def test_many_windows_from_one_structure(trees: list[Any], seed: int) -> None:
    """A window that stores all values refuses no query over the declared filters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constrained_window, "layout_for", small_layout)
        rng, arrived = np.random.default_rng(seed), Arrived()
        window = ConstrainedWindow(last(10**6) | EVERY, 0.2)
        for _ in range(6):
            window.update(arrived.more(rng, int(rng.choice([1, 64, 500, 1500]))))
            for tree in trees:
                verify_or_empty(window, arrived.value[truth_of(tree, arrived)], rng, window=constraint_of(tree))


# --- where the paper's construction is wrong ----------------------------------------------------------------


def test_two_clauses_of_different_filters_and_ages(rng: Rng) -> None:
    """(5 min and A) or (10 min and B): cut at 5 minutes, B's older half is lost; at 10, A's older half is too much."""
    expression = (within("5 min") & where(A)) | (within("10 min") & where(B))
    window, n = ConstrainedWindow(expression, 0.05), 9000
    times = np.sort(rng.random(n)) * 1200
    src = np.where(rng.random(n) < 0.5, "A", "B")
    values = np.where(src == "A", 10_000.0, 0.0) + times
    window.update(pa.table({"value": values, "time": times, "src": src}))
    now = times[-1]
    data = values[((times > now - 300) & (src == "A")) | ((times > now - 600) & (src == "B"))]
    answer = verify(window, data, rng)
    assert answer.n_lo <= len(data) <= answer.n_hi
    one_cut = [values[times > now - 300], values[times > now - 600]]
    for wrong in one_cut:
        assert not answer.n_lo <= len(wrong) <= answer.n_hi
    assert window.rank(5000.0)[0] > 0.6 * len(data)


def test_a_clause_of_age_alone_loses_nothing(rng: Rng) -> None:
    """last 1000, or A: a value that is neither A nor B is in the window while it is recent."""
    window, n = ConstrainedWindow(last(1000) | where(A), 0.05), 6000
    src = rng.choice(["A", "B", "C"], n)
    values = rng.random(n) + (src == "C")
    window.update(pa.table({"value": values, "src": src}))
    verify(window, values[(np.arange(n) >= n - 1000) | (src == "A")], rng)
    low, _ = window.rank(1.0)
    assert low < np.count_nonzero((np.arange(n) >= n - 1000) | (src == "A"))


def test_all_filters_of_a_clause_must_hold(rng: Rng) -> None:
    """A and high: a value that meets only one of the two is excluded."""
    arrived, window = Arrived(), ConstrainedWindow(where(A) & where(HIGH) & last(2000), 0.1)
    window.update(arrived.more(rng, 5000))
    mask = (arrived.src == "A") & (arrived.load > 0.5) & (np.arange(5000) >= 3000)
    assert 0 < np.count_nonzero(mask) < np.count_nonzero(arrived.src[3000:] == "A")
    verify(window, arrived.value[mask], rng)


def test_numbers_are_counted_over_all_arrivals(rng: Rng) -> None:
    """N,f: those of the last n arrivals that pass f; a class without new arrivals becomes empty."""
    arrived, window = Arrived(), ConstrainedWindow(last(500) & where(A), 0.1)
    for _ in range(20):
        window.update(arrived.more(rng, 200))
        data = arrived.value[-500:][arrived.src[-500:] == "A"]
        verify_or_empty(window, data, rng)
    silent = pa.table({"value": np.ones(500), "time": np.full(500, arrived.time[-1]), "src": ["B"] * 500})
    window.update(silent.append_column("load", pa.nulls(500, pa.float64())))
    assert window.arrived == 4500
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5)


def test_a_class_that_was_silent_for_an_hour() -> None:
    window = ConstrainedWindow(within("1 h") & where(A), 0.1)
    window.update(pa.table({"value": [1.0, 2.0], "time": [0.0, 1.0], "src": ["A", "A"]}))
    window.update(pa.table({"value": [3.0], "time": [3601.0], "src": ["B"]}))
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5)
    assert window.n == 0
    assert window.error == 0.0
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5, now=9000.0)


# --- expressions --------------------------------------------------------------------------------------------


def test_not_is_for_filters_only() -> None:
    for wrong in (last(5), within("5 min"), where(A) & last(5), where(A) | within(3), ~where(A) & last(2)):
        with pytest.raises(errors.InvalidArgumentError, match="filters only"):
            operator.invert(wrong)
    assert ~~where(A) == where(A)
    assert ~(where(A) & where(B)) == ~where(A) | ~where(B)
    assert ~(where(A) | where(B)) == ~where(A) & ~where(B)
    assert repr(where(A) & ~where(A)) == "nothing"


def test_expressions_are_simplified() -> None:
    assert last(5) | last(9) == last(9)
    assert last(5) & last(9) == last(5)
    assert within(60) & within("1 min") == within("1 min")
    assert (last(5) & where(A)) | last(9) == last(9)
    assert last(5) & where(A) == where(A) & last(5)
    assert hash(last(5) & where(A)) == hash(where(A) & last(5))
    assert last(5) != within(5)


def test_what_is_not_an_expression() -> None:
    wrong_atoms: list[tuple[Callable[[Any], WindowExpression], Any]] = [
        (last, 0),
        (last, 1.5),
        (last, True),
        (within, 0),
        (within, "soon"),
        (where, "A"),
        (where, True),
    ]
    for atom, argument in wrong_atoms:
        with pytest.raises(errors.InvalidArgumentError):
            atom(argument)
    with pytest.raises(errors.InvalidArgumentError, match="and"):
        bool(last(5))
    with pytest.raises(TypeError):
        last(5) & A
    for wrong in (A, None, "last(5)", 5):
        with pytest.raises(errors.TypeMismatchError):
            ConstrainedWindow(wrong, 0.1)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="at most"):
        reduce(operator.or_, (where(pc.field("x") == i) for i in range(40)))


def test_other_windows_that_are_refused(rng: Rng) -> None:
    arrived = Arrived()
    window = ConstrainedWindow((within(100) & where(A)) | (last(50) & where(HIGH)), 0.1)
    for _ in range(6):
        window.update(arrived.more(rng, 1000))
        arrived.time[-1] += 200
        window.update(pa.table({"value": [0.5], "time": arrived.time[-1:], "src": ["A"], "load": [0.5]}))
        arrived.value, arrived.time = np.append(arrived.value, 0.5), np.append(arrived.time, arrived.time[-1])
        arrived.src, arrived.load = np.append(arrived.src, "A"), np.append(arrived.load, 0.5)
    with pytest.raises(errors.InvalidArgumentError, match="not declared"):
        window.quantile(0.5, window=where(B) & last(5))
    with pytest.raises(errors.SpanError, match="leaves out"):
        window.quantile(0.5, window=last(5))
    with pytest.raises(errors.SpanError, match="leaves out"):
        window.quantile(0.5, window=~where(A) & last(5))
    with pytest.raises(errors.SpanError, match="reaches back"):
        window.quantile(0.5, window=last(6000) & where(A))
    with pytest.raises(errors.TypeMismatchError):
        window.quantile(0.5, window=A)
    verify(window, arrived.value[-30:][arrived.src[-30:] == "A"], rng, window=last(30) & where(A))


def test_now(rng: Rng) -> None:
    arrived, window = Arrived(), ConstrainedWindow((within(50) & where(A)) | within(5), 0.1)
    window.update(arrived.more(rng, 3000))
    end = arrived.time[-1]
    for later in (0.0, 1.0, 30.0, 49.0):
        mask = inside(arrived.time, end + later, 5) | (inside(arrived.time, end + later, 50) & (arrived.src == "A"))
        verify_or_empty(window, arrived.value[mask], rng, now=end + later)
    with pytest.raises(errors.InvalidArgumentError, match="now"):
        window.quantile(0.5, window=last(5), now=end)


def test_nulls_in_filters_are_unknown() -> None:
    """A null passes neither f nor ~f; A or B is true when A is, whatever B is."""
    window = ConstrainedWindow(where(A) | ~where(A) | where(HIGH), 0.1)
    window.update(
        pa.table({"value": [1.0, 2.0, 3.0, 4.0], "src": ["A", "B", None, None], "load": [0.9, None, 0.9, None]})
    )
    assert (window.n, window.arrived) == (3, 4)
    assert window.quantile(1.0) == 3.0
    assert window.answer(0.5, window=where(A) | ~where(A)).n == 2
    assert window.answer(0.5, window=~where(A) | where(HIGH)).n == 3
    with pytest.raises(errors.SpanError):
        window.quantile(0.5, window=last(4))


# --- forms of tables ----------------------------------------------------------------------------------------


def rows(n: int = 3000) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {
        "value": rng.random(n),
        "time": np.arange(float(n)),
        "src": rng.choice(["A", "B"], n),
        "load": rng.random(n),
    }


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "record batch": lambda table: table.to_batches()[0],
    "chunks that differ": lambda table: pa.table(
        {
            "value": pa.chunked_array([table["value"].combine_chunks()[:700], table["value"].combine_chunks()[700:]]),
            "time": pa.chunked_array([table["time"].combine_chunks()[:1], table["time"].combine_chunks()[1:]]),
            "src": table["src"],
            "load": pa.chunked_array([table["load"].combine_chunks()[:0], table["load"].combine_chunks()]),
        }
    ),
    "dictionary": lambda table: table.set_column(2, "src", table["src"].dictionary_encode()),
    "large strings": lambda table: table.set_column(2, "src", table["src"].cast(pa.large_string())),
    "slice": lambda table: pa.concat_tables([table, table]).slice(0, len(table)),
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: pl.from_arrow(table),
    "polars categories": lambda table: pl.DataFrame(table).with_columns(pl.col("src").cast(pl.Categorical)),
    "more columns": lambda table: table.append_column("other", table["src"]),
    "mapping": lambda table: {name: table[name] for name in table.column_names},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_tables(form: str) -> None:
    expression = (within(900) & where(A)) | (last(500) & where(HIGH))
    straight, other = ConstrainedWindow(expression, 0.1), ConstrainedWindow(expression, 0.1)
    table = pa.table(rows())
    straight.update(table)
    other.update(FORMS[form](table))
    assert other.to_bytes() == straight.to_bytes()


def test_blocks_of_any_size_are_the_same_to_the_byte(rng: Rng) -> None:
    table, expression = pa.table(rows(4000)), (within(900) & where(A)) | (last(500) & where(HIGH))
    whole, parts = ConstrainedWindow(expression, 0.1), ConstrainedWindow(expression, 0.1)
    whole.update(table)
    start = 0
    while start < 4000:
        size = int(rng.choice([0, 1, 7, 64, 900]))
        parts.update(table.slice(start, size))
        start += size
        if rng.random() < 0.2:
            parts = ConstrainedWindow.from_bytes(parts.to_bytes())
            parts.quantile(0.5)
    assert parts.to_bytes() == whole.to_bytes()


def bad_tables() -> dict[str, tuple[Any, type[Exception]]]:
    """Tables that a window over value, time, src and load rejects after times up to 2999."""
    good = {name: column[:3] for name, column in rows().items()} | {"time": [3000.0, 3001.0, 3002.0]}
    return {
        "no values": ({k: v for k, v in good.items() if k != "value"}, errors.InvalidArgumentError),
        "no times": ({k: v for k, v in good.items() if k != "time"}, errors.InvalidArgumentError),
        "no src": ({k: v for k, v in good.items() if k != "src"}, errors.InvalidArgumentError),
        "src of numbers": (good | {"src": [1, 2, 3]}, errors.InvalidArgumentError),
        "load of text": (good | {"load": ["a", "b", "c"]}, errors.InvalidArgumentError),
        "late": (good | {"time": [3001.0, 3000.0, 3002.0]}, errors.LateError),
        "late at once": (good | {"time": [1.0, 3001.0, 3002.0]}, errors.LateError),
        "null times": (good | {"time": [3001.0, None, 3002.0]}, errors.InvalidArgumentError),
        "timestamps": (good | {"time": np.arange(3).astype("datetime64[s]")}, errors.TypeMismatchError),
        "nan": (good | {"value": [1.0, float("nan"), 2.0]}, errors.NaNError),
        "text": (good | {"value": ["a", "b", "c"]}, errors.TypeMismatchError),
        "bools": (good | {"value": [True, False, True]}, errors.TypeMismatchError),
        "columns of different lengths": (good | {"value": [1.0]}, errors.TypeMismatchError),
        "an array": (np.arange(3.0), errors.TypeMismatchError),
        "a list": ([1.0, 2.0], errors.TypeMismatchError),
        "a number": (5.0, errors.TypeMismatchError),
        "nothing": (None, errors.TypeMismatchError),
        "a summary": (Summary.of([1.0]), errors.TypeMismatchError),
    }


@pytest.mark.parametrize("name", bad_tables())
def test_bad_tables_change_nothing(name: str, rng: Rng) -> None:
    table, error = bad_tables()[name]
    window = ConstrainedWindow((within(900) & where(A)) | (last(500) & where(HIGH)), 0.1)
    window.update(pa.table(rows()))
    before = window.to_bytes()
    with pytest.raises(error):
        window.update(pa.table(table) if isinstance(table, dict) and name != "columns of different lengths" else table)
    assert window.to_bytes() == before
    assert (window.arrived, window.newest, window.clamped) == (3000, 2999.0, 0)
    window.update(pa.table(rows()), late="clamp")
    assert window.clamped == 2999


def test_filters_that_are_not_true_or_false() -> None:
    window = ConstrainedWindow(where(pc.field("load") + 1) & last(5), 0.1)
    with pytest.raises(errors.InvalidArgumentError, match="not true or false"):
        window.update(pa.table(rows(10)))
    assert window.arrived == 0


def test_columns_of_the_same_name() -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0]), pa.array(["A"])], names=["value", "value", "src"])
    window = ConstrainedWindow(last(5) & where(A), 0.1)
    with pytest.raises(errors.QuantideError):
        window.update(table)
    assert window.arrived == 0


def test_null_values_leave_with_their_rows() -> None:
    window = ConstrainedWindow(last(2) & where(A), 0.1, nan="skip")
    window.update(
        pa.table(
            {"value": [1.0, None, 2.0, float("nan"), 3.0], "time": [1.0, 9.0, 2.0, 0.0, 3.0], "src": list("AAABA")}
        )
    )
    assert (window.arrived, window.nulls, window.nans, window.newest) == (3, 1, 1, 3.0)
    assert window.quantiles([0.5, 1.0]).tolist() == [2.0, 3.0]


def test_names_of_columns_and_kinds_of_times() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    table = pa.table({"ms": [1, 2, 3], "at": [start, start + timedelta(minutes=4), start + timedelta(minutes=8)]})
    window = ConstrainedWindow(within("5 min"), 0.1, value="ms", time="at")
    window.update(table)
    answer = window.answer(0.5)
    assert (answer.value, answer.n) == (2, 2)
    assert answer.since == np.datetime64("2026-03-01T00:04")
    assert answer.until == window.newest == np.datetime64("2026-03-01T00:08")
    window.update(pd.DataFrame({"ms": [4], "at": [pd.Timestamp("2026-03-01 01:10", tz="Europe/Berlin")]}))
    assert window.answer(0.5).n == 2


def test_without_times() -> None:
    window = ConstrainedWindow(last(10) & where(A), 0.1)
    window.update(pa.table({"value": [1.0], "src": ["A"]}))
    with pytest.raises(errors.InvalidArgumentError, match="without times"):
        window.update(pa.table({"value": [1.0], "src": ["A"], "time": [5.0]}))
    with pytest.raises(errors.InvalidArgumentError, match="without times"):
        window.quantile(0.5, window=within(5) & where(A))
    assert window.answer(0.5).until is None


def test_empty() -> None:
    window = ConstrainedWindow(last(10) & where(A), 0.1)
    assert (window.n, window.error, window.summary().n) == (0, 0.0, 0)
    with pytest.raises(errors.EmptyError):
        window.quantile(0.5)
    window.update(pa.table({"value": pa.array([], pa.float64()), "src": pa.array([], pa.string())}))
    window.update(pa.table({"value": pa.nulls(3, pa.float64()), "src": ["A"] * 3}))
    assert (window.arrived, window.nulls) == (0, 3)
    restored = ConstrainedWindow.from_bytes(window.to_bytes())
    restored.update(pa.table({"value": [2.0], "src": ["A"]}))
    assert restored.quantile(0.5) == 2.0
    with pytest.raises(AttributeError):
        restored.update_summary  # type: ignore[attr-defined]  # noqa: B018


def test_space_is_constant(rng: Rng) -> None:
    """Classes forget values outside the expression, also a class without new arrivals."""
    window, sizes = ConstrainedWindow((last(3000) & where(A)) | (within(500) & where(HIGH)), 0.1), []
    for i in range(60):
        table = pa.table(rows(2000)).set_column(1, "time", pa.array(np.arange(2000.0) / 2 + 1000 * i))
        window.update(table)
        sizes.append(window.tuples)
    assert max(sizes[30:]) <= 1.1 * max(sizes[5:30])


def test_classes_of_few_hold_few(monkeypatch: pytest.MonkeyPatch, rng: Rng) -> None:
    """With the default layout, a class of last(1000) does not store its newest 100,000."""
    monkeypatch.setattr(constrained_window, "layout_for", layout_for)
    fields = [pc.field(f"f{i}") for i in range(4)]
    window = ConstrainedWindow(last(1000) & reduce(operator.or_, map(where, fields)), 0.05)
    values, results = rng.random(120_000), rng.random((120_000, 4)) < 0.5
    for start in range(0, 120_000, 30_000):
        rows = slice(start, start + 30_000)
        window.update(pa.table({"value": values[rows], **{f"f{i}": results[rows, i] for i in range(4)}}))
        newest = np.arange(120_000)[: rows.stop][-1000:]
        verify(window, values[newest[results[newest].any(axis=1)]], rng)
        short = newest[-200:]
        verify(window, values[short[results[short, 0]]], rng, window=last(200) & where(fields[0]))
        window = ConstrainedWindow.from_bytes(window.to_bytes())
    assert window.tuples < 15 * 3000


def every_expression() -> Iterator[WindowExpression]:
    x = pc.field("x")
    yield last(3)
    yield within("5 min")
    yield where(pc.field("a").isin([1, 2, 3])) & last(5)
    yield where((pc.field("a") > 1) & ~pc.field("b").is_null())
    yield where(pc.starts_with(pc.field("path"), "/a")) | (~where(pc.field("at") < datetime(2026, 1, 1)) & within(3600))
    yield where(pc.field("s", "inner") == 5) & last(100)
    yield where(A) & ~where(A)
    yield where(x > pa.scalar(10**9 + 1, pa.timestamp("ns"))) & last(4)
    yield where(x.isin(pa.array([1, 10**9 + 1], pa.timestamp("ns"))) | (x.cast(pa.float32()) == 2)) & last(4)
    yield where(pc.if_else(x > 1, pc.coalesce(x, 0) > 5, pc.match_substring(pc.field("é"), "ü'"))) | last(2)
    yield where(pc.equal(pc.make_struct(x, x, field_names=["a", "b"]), pa.scalar({"a": 1, "b": 2}))) & last(1)


def test_filters_of_the_same_text_are_distinguished() -> None:
    """Arrow's text abbreviates long lists and omits types of numbers."""
    x, some, others = pc.field("x"), list(range(100)), [*range(50), 1000, *range(51, 100)]
    pairs = [
        (x.isin(some), x.isin(others)),
        (x == 1, x == pa.scalar(1, pa.int8())),
        (pc.field("s", "t") == 1, pc.field("FieldRef.Nested(FieldRef.Name(s) FieldRef.Name(t))") == 1),
    ]
    for one, other in pairs:
        assert str(one) == str(other)
        assert where(one) != where(other)
        assert repr(where(one)) == repr(where(other)) == f"where({one})"
        assert where(one) == where(pc.Expression._deserialize(pa.py_buffer(one.__reduce__()[1][0])))
    window = ConstrainedWindow((where(x.isin(some)) | where(x.isin(others))) & last(1000), 0.1)
    window.update(pa.table({"value": [1.0, 2.0], "x": [50, 1000]}))
    for restored in (window, ConstrainedWindow.from_bytes(window.to_bytes())):
        assert restored.quantile(1.0, window=where(x.isin(some)) & last(9)) == 1.0
        assert restored.quantile(1.0, window=where(x.isin(others)) & last(9)) == 2.0
        assert restored.to_bytes() == window.to_bytes()
    with pytest.raises(errors.InvalidArgumentError, match="not declared"):
        window.quantile(0.5, window=where(x.isin(some[1:])) & last(5))


def test_filters_that_cannot_be_kept() -> None:
    """Such filters are refused when declared, not in to_bytes()."""
    for wrong in (pc.field(0) == 1, pc.field("a\nliteral: '0") == 1, pc.field("two\nlines") == 1):
        with pytest.raises(errors.InvalidArgumentError, match="kept"):
            where(wrong)


def test_expressions_go_through_bytes() -> None:
    for expression in every_expression():
        window = ConstrainedWindow(expression, 0.1)
        restored = ConstrainedWindow.from_bytes(window.to_bytes())
        assert restored.expression == expression
        assert restored.to_bytes() == window.to_bytes()
