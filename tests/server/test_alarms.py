"""Alarms: they fire only on proof, hold and clear by the rules, and survive restarts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Monitor, Summary
from quantide.errors import ForbiddenError, InvalidArgumentError, LimitError, QuantideError, SpanError, StorageError
from quantide.server.alarms import alarm_transitions
from quantide.server.alarms.alarm_setting import AlarmSetting
from quantide.server.alarms.alarm_state import AlarmStateMachine
from quantide.server.alarms.alarm_window import CERTAIN, NO, POSSIBLE
from quantide.server.service import Service
from tests.server.alarm_stage import Stage, setting
from tests.server.running_server import configure

STATES = st.sampled_from([NO, POSSIBLE, CERTAIN])
MOMENT = pa.array([1767225600 * 10**9]).cast(pa.timestamp("ns", "UTC"))


# The state machine


def naive(evaluations: list[tuple[float, str, str]], hold: float) -> list[bool]:
    """Return `firing` after each evaluation, by the rules: count agreeing evaluations from the last one back."""
    firing, changed, out = False, 0, []
    for i, (now, _, _) in enumerate(evaluations):
        agree = 0
        while agree < i + 1 - changed and _in_favour(evaluations[i - agree], firing):
            agree += 1
        if agree and now - evaluations[i - agree + 1][0] >= hold:
            firing, changed = not firing, i + 1
        out.append(firing)
    return out


def _in_favour(evaluation: tuple[float, str, str], firing: bool) -> bool:
    return evaluation[2] == NO if firing else evaluation[1] == CERTAIN


@given(st.lists(st.tuples(st.integers(0, 5), STATES, STATES), max_size=30), st.integers(0, 10))
def test_the_state_machine_follows_the_rules(steps: list[tuple[int, str, str]], hold: int) -> None:
    evaluations, now = [], 0.0
    for pause, beyond, uncleared in steps:
        now += pause
        evaluations.append((now, beyond, uncleared))
    alarm, found = AlarmStateMachine(hold), []
    for evaluation in evaluations:
        alarm = alarm.evaluate(*evaluation)
        assert alarm.state == evaluation[1]
        found.append(alarm.firing)
    assert found == naive(evaluations, hold)


@given(st.lists(st.tuples(st.integers(0, 5), STATES), max_size=30), st.integers(0, 10), st.booleans())
def test_possible_states_change_nothing(steps: list[tuple[int, str]], hold: int, firing: bool) -> None:
    alarm = AlarmStateMachine(hold, firing)
    for i, (pause, _) in enumerate(steps):
        alarm = alarm.evaluate(i + pause, POSSIBLE, POSSIBLE)
    assert alarm.firing == firing
    assert alarm.hold_start is None


def test_a_clock_that_is_set_back_begins_the_hold_time_anew() -> None:
    alarm = AlarmStateMachine(10).evaluate(1000, CERTAIN, CERTAIN).evaluate(5, CERTAIN, CERTAIN)
    assert not alarm.evaluate(14, CERTAIN, CERTAIN).firing
    assert alarm.evaluate(15, CERTAIN, CERTAIN).firing


# Alarms over a store


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


def quantile(values: Any, phi: float) -> float:
    n = len(values)
    return float(np.sort(values)[max(1, int(np.ceil(phi * n - 1e-9))) - 1])


@pytest.mark.parametrize("seed", range(3))
def test_certain_states_are_true(tmp_path: Path, seed: int) -> None:
    with Stage(tmp_path, eps=0.1) as stage:
        attack(stage, np.random.default_rng(seed))


def attack(stage: Stage, rng: np.random.Generator) -> None:
    """Set alarms close to the truth while values arrive, and compare all of them with it at every commit."""
    values, states = np.empty(0), set[str]()
    alarms: dict[int, AlarmSetting] = {}
    settled = set[int]()

    def block() -> Any:
        return np.round(rng.normal(100 + 10 * rng.normal(), 20, rng.integers(1, 900)))

    def check() -> None:
        for id, alarm in alarms.items():
            of = values if alarm.window == "all" else values[-int(alarm.window[5:]) :]
            true = quantile(of, alarm.quantile)
            state, firing = stage.state_of(id)
            beyond = true > alarm.threshold if alarm.above else true < alarm.threshold
            assert state != (NO if beyond else CERTAIN)
            assert firing or state != CERTAIN  # there is no hold time
            count = (of <= alarm.threshold if alarm.above else of < alarm.threshold).sum()
            if abs(count / len(of) - alarm.quantile) > stage.precision(id):
                assert state != POSSIBLE
                settled.add(id)
            uncleared = true > alarm.clear if alarm.above else true < alarm.clear
            assert firing in (before[id], beyond if not before[id] else uncleared)
            states.add(state)

    for step in range(12):
        values = np.concatenate((values, first := block()))
        before = {id: stage.state_of(id)[1] for id in alarms}
        stage.append(first)
        check()
        for _ in range(8):
            above, window = bool(rng.integers(2)), str(rng.choice(["all", "last:700"]))
            phi = rng.choice([0.1, 0.5, 0.9])
            threshold = float(np.round(quantile(values, phi) + rng.choice([-40, -6, -1, 0, 0, 1, 6, 40])))
            clear = threshold + (-1 if above else 1) * float(rng.choice([0, 3]))
            alarm = setting(above=above, window=window, phi=float(phi), threshold=threshold, clear=clear)
            id = stage.set(**vars(alarm))
            alarms[id], before[id] = alarm, False
        check()
        if step % 5 == 4:
            stage.history.end_step()
    assert states == {NO, POSSIBLE, CERTAIN}
    assert settled
    for transitions in stage.service.alarms.transitions(0):
        assert transitions["rank_lo"] <= transitions["rank_hi"] <= transitions["n"]


def test_hysteresis_and_hold(stage: Stage) -> None:
    stage.append([10.0] * 9)
    id = stage.set(window="last:5", threshold=100, clear=50, hold=30.0)
    assert stage.state_of(id) == (NO, False)
    stage.append([200.0] * 5)
    assert stage.state_of(id) == (CERTAIN, False)
    stage.now += 29
    stage.service.alarms.tick()
    assert stage.state_of(id) == (CERTAIN, False)
    stage.now += 1
    stage.service.alarms.tick()  # without a commit
    assert stage.state_of(id) == (CERTAIN, True)
    stage.append([70.0] * 5)  # below the threshold, not below the clear limit
    stage.now += 100
    stage.service.alarms.tick()
    assert stage.state_of(id) == (NO, True)
    stage.append([50.0] * 5)  # not above it
    stage.now += 29
    stage.append([51.0] * 5)  # a break
    stage.append([50.0] * 5)
    stage.now += 29
    stage.service.alarms.tick()
    assert stage.state_of(id) == (NO, True)
    stage.now += 1
    stage.service.alarms.tick()
    assert stage.state_of(id) == (NO, False)
    transitions = [(one["state"], one["firing"]) for one in stage.service.alarms.transitions(0, {id})]
    assert transitions == [(NO, False), (CERTAIN, False), (CERTAIN, True), (NO, True), (NO, False)]
    since = [one["since"] for one in stage.service.alarms.transitions(0, {id})]
    assert since[0] == since[1] < since[2] == since[3] < since[4]
    assert not stage.service.alarms._pending  # no needless evaluation is pending


def test_an_alarm_below(stage: Stage) -> None:
    stage.append([10.0] * 9)
    id, equal = stage.set(above=False, threshold=11, clear=20), stage.set(above=False, threshold=10)
    assert stage.state_of(id) == (CERTAIN, True)
    assert stage.state_of(equal) == (NO, False)
    stage.append([15.0] * 19)
    assert stage.state_of(id) == (NO, True)
    stage.append([20.0] * 99)
    assert stage.state_of(id) == (NO, False)


def test_no_values_neither_fire_nor_clear(tmp_path: Path) -> None:
    with Stage(tmp_path, keys="endpoint") as stage:
        empty(stage)


def empty(stage: Stage) -> None:
    stage.append([200.0] * 5, key="/pay", times=0.0)
    id = stage.set(window="within:1m", key="/pay")
    other = stage.set(key="/nothing")
    assert stage.state_of(id) == (CERTAIN, True)
    assert stage.state_of(other) == (POSSIBLE, False)
    assert "/nothing" in (stage.service.alarms.get(other).status(AlarmStateMachine(0), 0.0)["why"] or "")
    stage.append([1.0], key="/cart", times=1000.0)
    assert stage.state_of(id) == (POSSIBLE, True)
    stage.append([1.0], key="/pay", times=1001.0)
    assert stage.state_of(id) == (NO, False)
    stage.append([200.0], key="/pay", times=2000.0)
    stage.append([1.0], key="/cart", times=3000.0)
    stage.append([200.0], key="/pay", times=3001.0)  # the same state as before the window was empty
    assert stage.state_of(id) == (CERTAIN, True)


def test_alarms_continue_after_a_restart(stage: Stage) -> None:
    stage.append([200.0] * 5)
    firing, holding = stage.set(name="p50"), stage.set(hold=30.0)
    stage.now += 20
    last, since = stage.service.alarms.last_transition, stage.service.alarms.get(firing).since
    stage.end()
    alarms = stage.begin().alarms
    assert alarms.last_transition == last
    assert alarms.get(firing).setting == setting(name="p50", created=0.0)
    alarms.tick()
    assert stage.state_of(firing) == (CERTAIN, True)
    assert alarms.get(firing).since == since
    assert alarms.transitions(last) == []
    stage.now += 29
    alarms.tick()
    assert stage.state_of(holding) == (CERTAIN, False)  # the hold time restarted
    stage.now += 1
    alarms.tick()
    assert stage.state_of(holding) == (CERTAIN, True)
    stage.append([1.0] * 50)
    assert [stage.state_of(firing), stage.state_of(holding)] == [(NO, False), (NO, True)]


def test_a_failed_write_changes_nothing_and_is_retried(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.append([1.0] * 5)
    id = stage.set(webhook="https://hooks.example.com/")
    last = stage.service.alarms.last_transition

    def broken(*_: Any) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as context:
        context.setattr(stage.service.outbox, "put", broken)
        with pytest.raises(StorageError):
            stage.append([200.0] * 50)
        with pytest.raises(StorageError):
            stage.service.alarms.tick()
    assert stage.state_of(id) == (NO, False)
    assert stage.service.alarms.transitions(last) == []
    assert stage.service.outbox.last_of(id) is None
    stage.service.alarms.tick()
    assert stage.state_of(id) == (CERTAIN, True)
    [row] = stage.service.alarms.transitions(last)
    assert (row["number"], row["alarm"], row["value"], row["n"]) == (last + 1, id, 200.0, 55)
    assert stage.service.outbox.count_pending() == 1


def test_deliveries_survive_a_crash(stage: Stage) -> None:
    stage.append([200.0] * 5)
    id = stage.set(webhook="https://hooks.example.com/")
    other = Service(configure(stage.folder))  # the first was never closed
    [row] = other.outbox.due(2e9)
    assert (row["alarm"], row["url"], row["attempts"]) == (id, "https://hooks.example.com/", 0)
    other.alarms.tick()
    assert other.outbox.count_pending() == 1  # it fires as before: no new delivery
    other.close()


def test_a_server_that_ends_changes_no_alarm(stage: Stage) -> None:
    stage.append([200.0] * 5)
    id, holding = stage.set(), stage.set(hold=0.001)
    stage.service.alarms.start()
    stage.service.streams.start()
    last = stage.service.alarms.last_transition
    stage.now += 1
    stage.end()
    alarms = stage.begin().alarms
    assert all(transitions["alarm"] == holding and transitions["firing"] for transitions in alarms.transitions(last))
    assert stage.state_of(id) == (CERTAIN, True)


def test_subscribers_are_called_after_transitions_are_written(stage: Stage) -> None:
    results: list[int] = []
    stage.service.alarms.subscribe(lambda: results.append(len(stage.service.alarms.transitions(0))))
    stage.append([200.0] * 5)
    stage.set()
    stage.append([200.0] * 5)
    assert results == [1]


def test_the_oldest_transitions_are_deleted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_transitions, "MAX_TRANSITIONS", 3)
    stage.append([200.0])
    id = stage.set(window="last:1")
    for i in range(6):
        stage.append([200.0 if i % 2 else 1.0])
    transitions = stage.service.alarms.transitions(0)
    assert [one["number"] for one in transitions] == [5, 6, 7]
    assert [one["firing"] for one in stage.service.alarms.history(id, None, 2)] == [True, False]
    assert [one["number"] for one in stage.service.alarms.history(id, 6, 10)] == [5]
    assert stage.service.alarms.transitions(5, {id + 1}) == []
    stage.service.alarms.drop(id, None)
    assert stage.service.alarms.transitions(0) == []
    stage.end()
    assert stage.begin().alarms.last_transition == 7  # numbers are not reused


def test_alarms_are_dropped_by_their_owner_or_an_admin(stage: Stage) -> None:
    stage.append([200.0] * 5)
    alarms = stage.service.alarms
    mine, other = stage.set(owner="me", webhook="https://hooks.example.com/"), stage.set(owner="you", window="last:2")
    with pytest.raises(ForbiddenError):
        alarms.drop(other, "me")
    alarms.drop(mine, "me")
    alarms.drop(other, None)
    assert alarms.list_alarms() == []
    assert alarms._windows == {}
    assert stage.service.outbox.count_pending() == 0
    stage.append([1.0] * 50)
    assert alarms.last_transition == 2


def test_there_are_only_so_many(stage: Stage) -> None:
    stage.append([200.0] * 5)
    stage.service.alarms._max_alarms = 2
    first = stage.set()
    stage.set()
    with pytest.raises(LimitError):
        stage.set()
    stage.service.alarms.drop(first, None)
    stage.set()


def test_a_missing_stream_leaves_alarms_unchanged(stage: Stage) -> None:
    stage.append([200.0] * 5)
    id = stage.set()
    stage.end()
    (stage.folder / "data" / "latency").rename(stage.folder / "away")
    alarms = stage.begin().alarms
    alarms.tick()
    assert stage.state_of(id) == (POSSIBLE, True)
    assert "latency" in alarms.get(id).status(AlarmStateMachine(0), 0.0)["why"]
    stage.end()
    (stage.folder / "away").rename(stage.folder / "data" / "latency")
    stage.begin().alarms.tick()
    assert stage.state_of(id) == (CERTAIN, True)


def test_a_window_that_cannot_be_read_any_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.append([200.0] * 5)
    id, live = stage.set(), stage.service.streams.live("latency")
    for error in (SpanError("across a gap"), OSError("the disk went away")):
        with monkeypatch.context() as context:
            context.setattr(live, "pull", lambda _, error=error: (_ for _ in ()).throw(error))
            stage.move()
        assert stage.state_of(id) == (POSSIBLE, True)
        assert alarms_why(stage, id)
        stage.move()
        assert stage.state_of(id) == (CERTAIN, True)
        assert alarms_why(stage, id) is None


def alarms_why(stage: Stage, id: int) -> Any:
    return stage.service.alarms.get(id).status(AlarmStateMachine(0), 0.0)["why"]


@pytest.mark.parametrize(
    ("kind", "values", "below", "equal", "wrong"),
    [
        ("int64", [5], "5.5", 5, "x"),
        ("decimal[2]", [Decimal("1.50")], "1.505", "1.50", "1e99999999"),
        ("timestamp[us]", np.array(["2026-01-01"], "M8[us]"), "2026-01-01T00:00:01", "2026-01-01", 5),
        ("timestamp[ns, tz=UTC]", MOMENT, "2026-01-01T00:00:01Z", "2026-01-01T00:00:00", "9999-01-01"),
        ("duration[ms]", np.array([1500], "m8[ms]"), "2 s", "1500 ms", "1 us"),
        ("date", np.array(["2026-01-01"], "M8[D]"), "2026-01-02", "2026-01-01", "now"),
    ],
)
def test_limits_of_every_type(tmp_path: Path, kind: str, values: Any, below: Any, equal: Any, wrong: Any) -> None:
    with Stage(tmp_path, value_type=kind) as stage:
        stage.history.append(values)
        stage.move()
        limits = {"above": False, "threshold": below}, {"above": False, "threshold": equal}, {"threshold": equal}
        assert [stage.state_of(stage.set(**one)) for one in limits] == [(CERTAIN, True), (NO, False), (NO, False)]
        for limit in (wrong, "nan", "sNaN", "NaT", "", "1" * 5000):
            with pytest.raises(QuantideError):
                stage.set(threshold=limit)
        with pytest.raises(InvalidArgumentError):
            stage.set(threshold=equal, clear=below)
        stage.end()
        stage.begin().alarms.tick()
        assert [result.machine.firing for result in stage.service.alarms.list_alarms()] == [True, False, False]


def test_a_limit_with_a_time_zone_is_not_below_itself() -> None:
    monitor = Monitor(0.01, pull=lambda: (1, Summary.of(MOMENT)))
    assert monitor.condition(monitor.watch(0.5, 0.02, below=MOMENT[0])) == NO


def test_threads_may_add_and_drop_while_values_arrive(stage: Stage) -> None:
    stage.append([1.0] * 5)
    rounds, alarms = 15, stage.service.alarms

    def work(seed: int) -> None:
        for i in range(rounds):
            id = stage.set(window=f"last:{seed + 1}", hold=float(i % 2))
            alarms.tick()
            if i % 3:
                alarms.drop(id, None)

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(work, seed) for seed in range(3)]
        for i in range(10):
            stage.append([200.0 if i % 2 else 1.0] * 5)
        for one in done:
            one.result()
    stage.append([200.0] * 9)
    stage.now += 1
    alarms.tick()
    assert [(result.machine.state, result.machine.firing) for result in alarms.list_alarms()] == [
        (CERTAIN, True)
    ] * rounds
    stored = stage.service.registry.rows("SELECT id, state, firing FROM alarms ORDER BY id")
    assert [tuple(row) for row in stored] == [(result.id, CERTAIN, 1) for result in alarms.list_alarms()]
