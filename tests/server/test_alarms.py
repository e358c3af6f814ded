"""Alarms: they fire only on proof, are held and cleared as they should be, and survive."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import History
from quantide.errors import ForbiddenError, InvalidArgumentError, LimitError, QuantideError, StorageError
from quantide.server.alarm import CERTAIN, NO, POSSIBLE, Alarm
from quantide.server.alarm_setting import AlarmSetting
from quantide.server.app import make_app
from quantide.server.service import Service
from quantide.server.transitions import KEPT
from tests.server.serving import configure, make_store, serving

STATES = st.sampled_from([NO, POSSIBLE, CERTAIN])
ALARM: dict[str, Any] = {"stream": "latency", "phi": 0.5, "above": 100}


# The state machine


def naive(looks: list[tuple[float, str, str]], hold: float) -> list[bool]:
    """Whether it fires after each look, read off the rules: the looks since the last change, from the back."""
    firing, changed, out = False, 0, []
    for i, (now, _, _) in enumerate(looks):
        agree = 0
        while agree < i + 1 - changed and _asks(looks[i - agree], firing):
            agree += 1
        if agree and now - looks[i - agree + 1][0] >= hold:
            firing, changed = not firing, i + 1
        out.append(firing)
    return out


def _asks(look: tuple[float, str, str], firing: bool) -> bool:
    return look[2] == NO if firing else look[1] == CERTAIN


@given(st.lists(st.tuples(st.integers(0, 5), STATES, STATES), max_size=30), st.integers(0, 10))
def test_it_stands_as_the_rules_say(steps: list[tuple[int, str, str]], hold: int) -> None:
    looks, now = [], 0.0
    for pause, beyond, uncleared in steps:
        now += pause
        looks.append((now, beyond, uncleared))
    alarm, found = Alarm(hold), []
    for look in looks:
        alarm = alarm.looked(*look)
        assert alarm.state == look[1]
        found.append(alarm.firing)
    assert found == naive(looks, hold)


@given(st.lists(st.tuples(st.integers(0, 5), STATES), max_size=30), st.integers(0, 10), st.booleans())
def test_what_is_only_possible_changes_nothing(steps: list[tuple[int, str]], hold: int, firing: bool) -> None:
    alarm = Alarm(hold, firing)
    for i, (pause, _) in enumerate(steps):
        alarm = alarm.looked(i + pause, POSSIBLE, POSSIBLE)
    assert alarm.firing == firing
    assert alarm.run is None


def test_a_clock_that_is_set_back_begins_the_hold_time_anew() -> None:
    alarm = Alarm(10).looked(1000, CERTAIN, CERTAIN).looked(5, CERTAIN, CERTAIN)
    assert not alarm.looked(14, CERTAIN, CERTAIN).firing
    assert alarm.looked(15, CERTAIN, CERTAIN).firing


# Alarms over a store, with a clock that the test turns


class Stage:
    """A store, a service over it that is not started, and a clock."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.now = folder, 1_000_000.0
        self.history = make_store(folder, **{"keys": None, "filters": []} | settings)
        self.service = self.begin()

    def begin(self) -> Service:
        service = Service(configure(self.folder))
        service.alarms._clock = service.alarms._timer = lambda: self.now
        self.service = service
        return service

    def end(self) -> None:
        self.service.close()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.history.close()

    def append(self, values: Any, **more: Any) -> None:
        self.history.append(np.asarray(values, dtype=float), **more)
        self.move()

    def move(self) -> None:
        live = self.service.streams.live("latency")
        live.poll()
        self.service.alarms.moved("latency", live)

    def set(self, **said: Any) -> int:
        return self.service.alarms.add(setting(**said)).id

    def stands(self, id: int) -> tuple[str, bool]:
        held = self.service.alarms.get(id)
        return held.alarm.state, held.alarm.firing


def setting(**said: Any) -> AlarmSetting:
    chosen: dict[str, Any] = {
        "name": None, "stream": "latency", "key": None, "window": "all", "filter": None, "phi": 0.5, "eps": None,
        "above": True, "threshold": 100, "hold": 0.0, "webhook": None, "owner": "local", "created": 0.0,
    }  # fmt: skip
    chosen |= said
    return AlarmSetting(**{"clear": chosen["threshold"]} | chosen)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


def quantile(values: Any, phi: float) -> float:
    n = len(values)
    return float(np.sort(values)[max(1, int(np.ceil(phi * n - 1e-9))) - 1])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_said_to_be_certain_is_so(tmp_path: Path, seed: int) -> None:
    with Stage(tmp_path, eps=0.1) as stage:
        attack(stage, np.random.default_rng(seed))


def attack(stage: Stage, rng: np.random.Generator) -> None:
    """Set alarms close to the truth while values come, and compare all of them with it at every commit."""
    seen, said = np.empty(0), set[str]()
    watched: dict[int, AlarmSetting] = {}

    def block() -> Any:
        return np.round(rng.normal(100 + 10 * rng.normal(), 20, rng.integers(1, 900)))

    def check() -> None:
        for id, alarm in watched.items():
            of = seen if alarm.window == "all" else seen[-int(alarm.window[5:]) :]
            true = quantile(of, alarm.phi)
            state, firing = stage.stands(id)
            beyond = true > alarm.threshold if alarm.above else true < alarm.threshold
            assert state != (NO if beyond else CERTAIN)
            assert firing or state != CERTAIN  # there is no hold time
            uncleared = true > alarm.clear if alarm.above else true < alarm.clear
            assert firing in (before[id], beyond if not before[id] else uncleared)
            said.add(state)

    for step in range(12):
        seen = np.concatenate((seen, first := block()))
        before = {id: stage.stands(id)[1] for id in watched}
        stage.append(first)
        check()
        for _ in range(8):
            above, window = bool(rng.integers(2)), str(rng.choice(["all", "last:700"]))
            phi = rng.choice([0.1, 0.5, 0.9])
            threshold = float(np.round(quantile(seen, phi) + rng.choice([-6, -1, 0, 0, 1, 6])))
            clear = threshold + (-1 if above else 1) * float(rng.choice([0, 3]))
            alarm = setting(above=above, window=window, phi=float(phi), threshold=threshold, clear=clear)
            id = stage.set(**vars(alarm))
            watched[id], before[id] = alarm, False
        check()
        if step % 5 == 4:
            stage.history.end_step()
    assert said == {NO, POSSIBLE, CERTAIN}
    for told in stage.service.alarms.transitions(0):
        assert told["rank_lo"] <= told["rank_hi"] <= told["n"]


def test_hysteresis_and_hold(stage: Stage) -> None:
    stage.append([10.0] * 9)
    id = stage.set(window="last:5", threshold=100, clear=50, hold=30.0)
    assert stage.stands(id) == (NO, False)
    stage.append([200.0] * 5)
    assert stage.stands(id) == (CERTAIN, False)
    stage.now += 29
    stage.service.alarms.tick()
    assert stage.stands(id) == (CERTAIN, False)
    stage.now += 1
    stage.service.alarms.tick()  # no commit came
    assert stage.stands(id) == (CERTAIN, True)
    stage.append([70.0] * 5)  # below the threshold, not below the clear limit
    stage.now += 100
    stage.service.alarms.tick()
    assert stage.stands(id) == (NO, True)
    stage.append([50.0] * 5)  # not above it
    stage.now += 29
    stage.append([51.0] * 5)  # a break
    stage.append([50.0] * 5)
    stage.now += 29
    stage.service.alarms.tick()
    assert stage.stands(id) == (NO, True)
    stage.now += 1
    stage.service.alarms.tick()
    assert stage.stands(id) == (NO, False)
    told = [(one["state"], one["firing"]) for one in stage.service.alarms.transitions(0, {id})]
    assert told == [(NO, False), (CERTAIN, False), (CERTAIN, True), (NO, True), (NO, False)]


def test_an_alarm_below(stage: Stage) -> None:
    stage.append([10.0] * 9)
    id, equal = stage.set(above=False, threshold=11, clear=20), stage.set(above=False, threshold=10)
    assert stage.stands(id) == (CERTAIN, True)
    assert stage.stands(equal) == (NO, False)
    stage.append([15.0] * 19)
    assert stage.stands(id) == (NO, True)
    stage.append([20.0] * 99)
    assert stage.stands(id) == (NO, False)


def test_no_values_neither_fire_nor_clear(tmp_path: Path) -> None:
    with Stage(tmp_path, keys="endpoint") as stage:
        empty(stage)


def empty(stage: Stage) -> None:
    stage.append([200.0] * 5, key="/pay", times=0.0)
    id = stage.set(window="within:1m", key="/pay")
    other = stage.set(key="/nothing")
    assert stage.stands(id) == (CERTAIN, True)
    assert stage.stands(other) == (POSSIBLE, False)
    assert "/nothing" in (stage.service.alarms.get(other).standing(Alarm(0), 0.0)["why"] or "")
    stage.append([1.0], key="/cart", times=1000.0)
    assert stage.stands(id) == (POSSIBLE, True)
    stage.append([1.0], key="/pay", times=1001.0)
    assert stage.stands(id) == (NO, False)
    stage.append([200.0], key="/pay", times=2000.0)
    stage.append([1.0], key="/cart", times=3000.0)
    stage.append([200.0], key="/pay", times=3001.0)  # the same as was said before the window was empty
    assert stage.stands(id) == (CERTAIN, True)


def test_alarms_go_on_after_a_restart(stage: Stage) -> None:
    stage.append([200.0] * 5)
    firing, holding = stage.set(name="p50"), stage.set(hold=30.0)
    stage.now += 20
    last, since = stage.service.alarms.last, stage.service.alarms.get(firing).since
    stage.end()
    alarms = stage.begin().alarms
    assert alarms.last == last
    assert alarms.get(firing).setting == setting(name="p50", created=0.0)
    alarms.tick()
    assert stage.stands(firing) == (CERTAIN, True)
    assert alarms.get(firing).since == since
    assert alarms.transitions(last) == []
    stage.now += 29
    alarms.tick()
    assert stage.stands(holding) == (CERTAIN, False)  # the hold time began anew
    stage.now += 1
    alarms.tick()
    assert stage.stands(holding) == (CERTAIN, True)
    stage.append([1.0] * 50)
    assert [stage.stands(firing), stage.stands(holding)] == [(NO, False), (NO, True)]
