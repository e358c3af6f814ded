"""Monitor against a model that knows everything that arrived."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide import Monitor, Summary, errors
from tests.orders import ORDERS
from tests.queries import query_model

CLUSTERINGS = ("online", "worst-case", "fewest")
KINDS = list(product(CLUSTERINGS, ("triggers", "together")))

phis = st.one_of(st.just(1.0), st.just(1e-9), st.floats(1e-6, 1))
precisions = st.sampled_from([1e-6, 0.02, 0.021, 0.05, 0.1, 0.3, 0.9])
values = st.one_of(st.integers(-5, 5).map(float), st.floats(-100, 100, width=32))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.lists(st.tuples(phis, precisions), min_size=1, max_size=5)),
        st.tuples(st.just("drop"), st.integers(0, 10)),
        st.tuples(st.just("update"), st.lists(values, min_size=1, max_size=60)),
        st.tuples(st.just("one"), values),
        st.tuples(st.just("summary"), st.lists(values, min_size=1, max_size=60)),
        st.tuples(st.just("bytes"), st.none()),
    ),
    min_size=2,
    max_size=14,
)


@given(st.sampled_from(KINDS), steps, st.sampled_from([1, 5, 1000]))
@settings(max_examples=150)
def test_every_query_is_right_after_every_step(kind: tuple[str, str], script: list[Any], often: int) -> None:
    """Any mixture of registrations, drops, blocks, single values and summaries; changes() reports every change."""
    monitor = Monitor(0.02, *kind, recluster_after=often)
    registered: dict[int, tuple[float, float]] = {}
    seen: dict[int, Any] = {}
    data: list[float] = []
    for verb, what in script:
        if verb == "register":
            ids = monitor.register_many(*zip(*what, strict=True))
            registered |= dict(zip(ids.tolist(), what, strict=True))
        elif verb == "drop" and registered:
            one = list(registered)[what % len(registered)]
            monitor.drop(one)
            del registered[one]
            seen.pop(one, None)
        elif verb == "update":
            for i in range(0, len(what), 7):
                monitor.update(what[i : i + 7])
                data += what[i : i + 7]
                assert query_model.faults(monitor, registered, data) == []
        elif verb == "one":
            monitor.update(what)
            data.append(what)
        elif verb == "summary":
            monitor.update_summary(Summary.of(what))
            data += what
        elif verb == "bytes":
            monitor = Monitor.from_bytes(monitor.to_bytes())
        if data:
            assert query_model.faults(monitor, registered, data) == []
            seen |= dict(monitor.changes())
            assert seen == {one: monitor.answer(one).value for one in registered}
        assert query_model.clusters_faults(monitor) == []
        assert len(monitor) == len(registered)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_all_orders_in_blocks(kind: tuple[str, str], order: str, rng: np.random.Generator) -> None:
    monitor = Monitor(0.01, *kind)
    wanted, epss = 1 - rng.random(300), rng.uniform(0.01, 0.1, 300)
    ids = monitor.register_many(wanted, epss)
    data = ORDERS[order](rng, 30_000)
    start = 0
    for size in (1, 20, 99, 500, 3000, 4096, 5000, 900, 9000, 7384):
        monitor.update(data[start : start + size])
        start += size
        ordered = np.sort(data[:start])
        answers = monitor.answers(ids)
        assert within(ordered, answers.values, wanted, np.maximum(epss, 0.01)).all()
        assert certified(ordered, answers).all()
        assert (answers.error <= epss + 1 / start + 1e-12).all()


def within(ordered: Any, found: Any, phi: Any, eps: Any) -> Any:
    """Return the values with a rank in [phi*n - eps*n, r + eps*n]."""
    n = len(ordered)
    first, last = np.searchsorted(ordered, found) + 1, np.searchsorted(ordered, found, side="right")
    target = np.maximum(1, np.ceil(phi * n - 1e-9))
    return (first <= last) & (last >= (phi - eps) * n - 1e-6) & (first <= target + eps * n + 1e-6)


def certified(ordered: Any, answers: Any) -> Any:
    """Return True if some rank of each value is within its certified bounds."""
    first = np.searchsorted(ordered, answers.values) + 1
    last = np.searchsorted(ordered, answers.values, side="right")
    return (first <= answers.rank_hi) & (answers.rank_lo <= last)


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_read_after_every_single_value(kind: tuple[str, str], rng: np.random.Generator) -> None:
    monitor = Monitor(0.02, *kind)
    wanted, epss = 1 - rng.random(40), rng.uniform(0.02, 0.2, 40)
    ids = monitor.register_many(wanted, epss)
    data = np.concatenate([rng.normal(size=1500), rng.normal(5, 0.1, 1500)])
    for i, x in enumerate(data.tolist()):
        monitor.update(x)
        if i % 7 == 0 or i < 100:
            ordered = np.sort(data[: i + 1])
            answers = monitor.answers(ids)
            assert within(ordered, answers.values, wanted, epss).all()
            assert certified(ordered, answers).all()


def test_a_million_equal_queries_are_one_cluster() -> None:
    monitor = Monitor(0.001)
    ids = monitor.register_many(np.full(1_000_000, 0.25), 0.01)
    monitor.update(np.arange(100_000.0))
    changes = monitor.changes()
    assert len(changes) == len(changes.ids) == 1_000_000
    assert monitor.stats()["clusters"] == 1
    assert monitor.stats()["evaluations"] == 1
    assert len(set(changes.values.tolist())) == 1
    monitor.drop_many(ids[1:])
    assert monitor.answer(int(ids[0])).error <= 0.01


def test_a_million_points_are_a_million_clusters(rng: np.random.Generator) -> None:
    monitor = Monitor(0.001, tail=None)
    wanted = np.arange(1, 1_000_001) / 1_000_000
    ids = monitor.register_many(wanted, 1e-9)
    data = rng.random(50_000)
    monitor.update(data)
    assert within(np.sort(data), monitor.answers(ids).values, wanted, 0.001).all()
    assert monitor.stats()["clusters"] == 1_000_000
    assert monitor.query(int(ids[7])).eps == 0.001


def test_precision_finer_than_the_summary_is_raised_and_reported() -> None:
    monitor = Monitor(0.01)
    assert monitor.query(monitor.register(0.5, 0.0001)).eps == 0.01
    assert monitor.query(monitor.register(0.5, 0.2)) == (1, 0.5, 0.2)


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_phi_at_the_ends(kind: tuple[str, str], rng: np.random.Generator) -> None:
    monitor = Monitor(0.01, *kind)
    last, first = monitor.register(1, 0.01), monitor.register(1e-12, 0.01)
    data = np.empty(0)
    for _ in range(30):
        block = rng.normal(size=int(rng.integers(1, 400)))
        data = np.concatenate([data, block])
        monitor.update(block)
        assert within(np.sort(data), np.array([monitor.answer(last).value]), np.array([1.0]), 0.01).all()
        assert within(np.sort(data), np.array([monitor.answer(first).value]), np.array([1e-12]), 0.01).all()


def test_dropping_everything_and_starting_again(rng: np.random.Generator) -> None:
    monitor = Monitor(0.01)
    for _ in range(3):
        ids = monitor.register_many(1 - rng.random(500), 0.05)
        monitor.update(rng.random(2000))
        assert len(monitor.changes()) == 500
        monitor.drop_many(ids)
        assert (len(monitor), monitor.stats()["clusters"]) == (0, 0)
        monitor.update(rng.random(2000))
        assert not monitor.changes()
        with pytest.raises(errors.UnknownQueryError, match="was dropped"):
            monitor.answer(int(ids[0]))


def test_an_id_is_never_used_again() -> None:
    monitor = Monitor(0.01)
    seen = set()
    for _ in range(50):
        one = monitor.register(0.5, 0.1)
        assert one not in seen
        seen.add(one)
        monitor.drop(one)


def test_changes_report_only_changes() -> None:
    monitor = Monitor(0.01)
    low, high = monitor.register(0.1, 0.02), monitor.register(0.9, 0.02)
    monitor.update(np.arange(1000.0))
    assert sorted(change.id for change in monitor.changes()) == [low, high]
    assert list(monitor.changes()) == []
    monitor.update(np.full(20, 1e6))  # few: both last
    assert list(monitor.changes()) == []
    monitor.update(np.full(2000, 1e6))
    assert dict(monitor.changes())[high] == 1e6


def test_changes_are_about_the_queries_there_were() -> None:
    monitor = Monitor(0.01)
    ids = monitor.register_many([0.2, 0.5, 0.8], 0.02)
    monitor.update(np.arange(1000.0))
    first = monitor.changes()
    monitor.update(np.full(3000, 5000.0))
    second = monitor.changes()
    monitor.drop(int(ids[1]))
    new = monitor.register(0.5, 0.3)
    assert sorted(first.ids.tolist()) == ids.tolist()
    assert max(first.values) < 1000
    assert sorted(second.ids.tolist()) == ids.tolist()
    assert monitor.changes().ids.tolist() == [new]


def test_values_stay_while_they_are_good(rng: np.random.Generator) -> None:
    """A stream that does not change hardly changes its answers."""
    monitor = Monitor(0.001)
    monitor.register_many(np.linspace(0.01, 1, 100), 0.02)
    changed = 0
    for _ in range(60):
        monitor.update(rng.random(5000))
        changed += len(monitor.changes())
    assert changed < 60 * 100 / 4


def test_integers_timestamps_and_narrow_floats_keep_their_types(rng: np.random.Generator) -> None:
    for data in (
        rng.integers(-1000, 1000, 3000),
        rng.random(3000).astype(np.float32),
        np.datetime64("2020-01-01", "us") + rng.integers(0, 10**9, 3000).astype("m8[us]"),
    ):
        monitor = Monitor(0.01)
        ids = monitor.register_many([0.1, 0.5, 1.0], 0.05)
        for start in range(0, 3000, 250):
            monitor.update(data[start : start + 250])
            answers = monitor.answers(ids)
            assert answers.values.dtype == data.dtype
            assert within(np.sort(data[: start + 250]), answers.values, np.array([0.1, 0.5, 1.0]), 0.05).all()


def test_nulls_and_nan_are_treated_as_by_a_sketch() -> None:
    monitor = Monitor(0.01, nan="skip")
    one = monitor.register(0.5, 0.1)
    monitor.update([1.0, None, 3.0, float("nan"), 2.0])
    assert (monitor.n, monitor.answer(one).value) == (3, 2.0)
    monitor = Monitor(0.01)
    monitor.update(np.arange(500.0))
    with pytest.raises(errors.NaNError):
        monitor.update(np.array([1.0, np.nan] * 50_000))
    assert monitor.n == 500


def test_listeners_hear_changes_and_only_these() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []
    one = monitor.register(0.5, 0.02, on_change=lambda *news: heard.append(news))
    monitor.register(0.7, 0.02)
    monitor.update(np.arange(1000.0))
    assert heard == [(one, monitor.answer(one).value)]
    monitor.update([499.0, 500.0])
    assert len(heard) == 1
    monitor.update(np.full(5000, -1.0))
    assert heard[1:] == [(one, -1.0)]
    monitor.drop(one)
    monitor.update(np.full(50_000, -7.0))
    assert len(heard) == 2


def test_a_listener_that_raises_affects_no_other_and_is_reported() -> None:
    monitor = Monitor(0.01)
    heard: list[int] = []

    def fail(one: int, value: Any) -> None:
        raise RuntimeError(f"no use for {value}")

    monitor.register(0.1, 0.02, on_change=lambda one, value: heard.append(one))
    bad = monitor.register(0.5, 0.02, on_change=fail)
    last = monitor.register(0.9, 0.02, on_change=lambda one, value: heard.append(one))
    monitor.update(np.arange(1000.0))
    assert heard == [0, last]
    (failure,) = monitor.failures()
    assert failure.id == bad
    assert isinstance(failure.error, RuntimeError)
    assert monitor.stats()["failed_callbacks"] == 1
    assert monitor.failures() == []
    assert monitor.answer(bad).error <= 0.02


def test_listeners_are_added_and_removed() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []
    ids = [monitor.register(phi, 0.02, on_change=lambda *news: heard.append(news)) for phi in (0.1, 0.5, 0.9)]
    late = monitor.watch(0.5, 0.02, above=10, on_change=lambda *news: heard.append(news))
    monitor.update(np.arange(1000))
    assert sorted(heard) == sorted([*((one, monitor.answer(one).value) for one in ids), (late, "certain")])
    monitor.drop(ids[1])
    new = monitor.register(0.5, 0.02)
    monitor.listen(new, lambda *news: heard.append(news))
    del heard[:]
    monitor.update([500])
    assert heard == [(new, monitor.answer(new).value)]
    monitor.listen(late, lambda *news: heard.append("never"))
    monitor.drop(late)
    monitor.update(np.zeros(100_000, dtype=int))
    assert "never" not in heard


def test_a_listener_may_register_and_drop() -> None:
    monitor = Monitor(0.01)

    def again(one: int, value: Any) -> None:
        monitor.drop(one)
        monitor.register(0.6, 0.05, on_change=again)

    monitor.register(0.5, 0.05, on_change=again)
    for _ in range(5):
        monitor.update(np.arange(1000.0))
    assert len(monitor) == 1
    assert monitor.failures() == []


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_conditions_are_never_wrong(kind: tuple[str, str], rng: np.random.Generator) -> None:
    monitor = Monitor(0.01, *kind)
    asked = []
    for _ in range(60):
        phi, eps, limit = 1 - rng.random(), rng.uniform(0.01, 0.1), float(rng.integers(-2, 3))
        above, below = (limit, None) if rng.random() < 0.5 else (None, limit)
        asked.append((monitor.watch(phi, eps, above=above, below=below), phi, eps, above, below))
    data: list[float] = []
    said: dict[int, str] = {}
    for step in range(60):
        block = rng.integers(-3, 4, int(rng.integers(1, 80))) + (0.0 if step % 3 else 0.5)
        data += block.tolist()
        monitor.update(block)
        said |= dict(monitor.changes().conditions)
        for one, phi, eps, above, below in asked:
            state = monitor.condition(one)
            in_force = max(eps, 2 * min(0.01, 0.1 * phi, 0.1 * (1 - phi)))
            assert state in query_model.states(data, phi, in_force, above, below)
            assert monitor.query(one).eps == pytest.approx(in_force)
            assert said[one] == state


def test_a_condition_is_an_event_and_can_be_dropped() -> None:
    monitor = Monitor(0.01)
    heard: list[Any] = []
    late = monitor.watch(0.99, 0.02, above=100.0, on_change=lambda *news: heard.append(news))
    assert monitor.condition(late) == "possible"
    monitor.update(np.arange(90.0))
    monitor.update(np.arange(5000.0))
    assert heard == [(late, "no"), (late, "certain")]
    assert monitor.changes().conditions == [(late, "certain")]
    assert not monitor.changes()
    assert monitor.query(late).phi == 0.99
    monitor.drop(late)
    with pytest.raises(errors.UnknownQueryError):
        monitor.condition(late)


def test_limits_of_any_kind() -> None:
    monitor = Monitor(0.01)
    monitor.update(np.arange(1000))
    assert monitor.condition(monitor.watch(0.5, 0.01, above=300.5)) == "certain"
    assert monitor.condition(monitor.watch(0.5, 0.01, below=700.5)) == "certain"
    assert monitor.condition(monitor.watch(0.5, 0.01, below=300)) == "no"
    assert monitor.condition(monitor.watch(0.5, 0.01, above=-(10**30))) == "certain"
    with pytest.raises(errors.TypeMismatchError):
        monitor.watch(0.5, 0.01, above="much")


BAD = {
    "phi below 0": lambda m: m.register(-0.1, 0.1),
    "phi above 1": lambda m: m.register_many([0.5, 1.5], 0.1),
    "phi as text": lambda m: m.register("half", 0.1),
    "a list where one is asked": lambda m: m.register([0.5, 0.6], 0.1),
    "precision of 0": lambda m: m.register(0.5, 0),
    "precision of 1": lambda m: m.register_many([0.5], [1.0]),
    "nan": lambda m: m.register(float("nan"), 0.1),
    "a number of precisions that does not fit": lambda m: m.register_many([0.1, 0.2, 0.3], [0.1, 0.2]),
    "no function": lambda m: m.register(0.5, 0.1, on_change="mail me"),
    "an unknown id": lambda m: m.drop(77),
    "an unknown id among known ones": lambda m: m.drop_many([0, 1, 77]),
    "an id twice": lambda m: m.drop_many([0, 0]),
    "a negative id": lambda m: m.answer(-1),
    "an id as text": lambda m: m.answer("0"),
    "ids as floats": lambda m: m.answers([0.0, 1.0]),
    "a condition without a limit": lambda m: m.watch(0.5, 0.1),
    "a condition with two": lambda m: m.watch(0.5, 0.1, above=1, below=2),
    "a condition with many": lambda m: m.watch(0.5, 0.1, above=[1.0, 2.0]),
    "the condition of a query": lambda m: m.condition(0),
    "a limit that is no number": lambda m: m.watch(0.5, 0.1, above=float("nan")),
    "a coarse summary": lambda m: m.update_summary(Summary.of(np.arange(1000.0)).compress(3)),
    "text": lambda m: m.update("abc"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_named_and_changes_nothing(what: str) -> None:
    monitor = Monitor(0.01)
    monitor.register_many([0.1, 0.5], 0.05)
    monitor.update(np.arange(1000.0))
    monitor.changes()
    before = monitor.to_bytes()
    with pytest.raises(errors.QuantideError):
        BAD[what](monitor)
    assert monitor.to_bytes() == before
    assert not monitor.changes()


@pytest.mark.parametrize(
    "arguments", [{"eps": 0}, {"eps": 0.1, "clustering": "some"}, {"eps": 0.1, "updates": "never"}]
)
def test_bad_settings_are_named(arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        Monitor(**arguments)


def test_no_values_no_answers() -> None:
    monitor = Monitor(0.01)
    one = monitor.register(0.5, 0.1)
    assert not monitor.changes()
    with pytest.raises(errors.EmptyError):
        monitor.answer(one)
