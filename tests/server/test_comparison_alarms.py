"""Alarms on the KS distance of two windows start and stop only if the exact distance was beyond the limit."""

import json
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from quantide.errors import InvalidArgumentError, NotReadyError
from quantide.server.alarms import alarm_comparison
from quantide.server.alarms.alarm_setting import AlarmSetting
from quantide.server.alarms.alarm_window import CERTAIN, NO, POSSIBLE
from quantide.server.server_registry import VERSION, ServerRegistry
from tests.server.alarm_stage import Stage, setting
from tests.server.running_server import configure, make_store, run_server
from tests.server.test_access import older

ALL = {"key": None, "window": "all", "filter": None}
ALARM: dict[str, Any] = {"stream": "latency", "measure": "ks", "above": 0.5, "against": {"window": "all"}}
WINDOWS = (("last:300", "all"), ("steps:0", "steps:1"), ("last:50", "last:900"))


def exact_ks(a: Any, b: Any) -> Fraction:
    """Return the KS distance of two arrays by counting, without rounding."""
    points = np.concatenate((a, b))
    ranks = [np.searchsorted(np.sort(side), points, side="right") for side in (a, b)]
    return Fraction(int(np.abs(ranks[0] * len(b) - ranks[1] * len(a)).max()), len(a) * len(b))


def ks_setting(**fields: Any) -> AlarmSetting:
    return setting(**{"measure": "ks", "phi": None, "threshold": 0.5, "against": ALL} | fields)


class AlarmRecord:
    """An alarm, and every evaluation of it since it last began or ceased to fire: the time, and the exact distance."""

    def __init__(self, alarm: AlarmSetting) -> None:
        self.alarm, self.firing, self.turns = alarm, False, 0
        self.evaluations: list[tuple[float, Fraction]] = []

    def check(self, now: float, exact: Fraction, state: str, firing: bool) -> None:
        limit = Fraction(self.alarm.threshold)
        assert state != (NO if exact > limit else CERTAIN)
        self.evaluations.append((now, exact))
        if firing == self.firing:
            return
        begun = [i for i, (time, _) in enumerate(self.evaluations) if time <= now - self.alarm.hold]
        assert begun, "it turned before its hold time was over"
        during = [distance for _, distance in self.evaluations[begun[-1] :]]
        clear = Fraction(self.alarm.clear)
        assert all(distance > limit if firing else distance <= clear for distance in during)
        self.firing, self.evaluations, self.turns = firing, [], self.turns + 1


@pytest.mark.parametrize("seed", range(2))
def test_alarms_turn_only_if_the_exact_distance_was_beyond_the_limit(tmp_path: Path, seed: int) -> None:
    with Stage(tmp_path, eps=0.02) as stage:
        attack(stage, np.random.default_rng(seed))


def attack(stage: Stage, rng: np.random.Generator) -> None:
    """Set alarms close to the truth while values with ties drift to and fro, and check all at every commit."""
    steps: list[Any] = [np.empty(0)]  # the last one is open
    records: dict[int, AlarmRecord] = {}
    states = set[str]()

    def select(window: str) -> Any:
        name, _, count = window.partition(":")
        values = np.concatenate(steps[-1 - int(count) :] if name == "steps" else steps)
        return values[-int(count) :] if name == "last" else values

    def distance(alarm: AlarmSetting) -> Fraction:
        return exact_ks(select(alarm.window), select(alarm.against["window"]))

    def check(ids: Any) -> None:
        for id in ids:
            state, firing = stage.state_of(id)
            records[id].check(stage.now, distance(records[id].alarm), state, firing)
            states.add(state)

    def add(alarm: AlarmSetting) -> None:
        id = stage.set(**vars(alarm))
        records[id] = AlarmRecord(alarm)
        check([id])

    for commit in range(30):
        block = np.round(rng.normal(100 + 25 * (commit // 5 % 2), 20, rng.integers(100, 500)))
        if commit % 7 == 3:
            block[:2] = np.inf, -np.inf
        steps[-1] = np.concatenate((steps[-1], block))
        stage.now += float(rng.choice([0, 2, 5]))
        stage.append(block)
        check(records)
        for window, against in WINDOWS if commit < 15 else ():
            near = float(distance(ks_setting(window=window, against=ALL | {"window": against})))
            threshold = float(np.clip(near + rng.choice([-0.3, -0.05, 0, 0.05]), 0, 0.9))
            clear = max(0.0, threshold - float(rng.choice([0, 0.02])))
            hold = float(rng.choice([0, 3, 6]))
            alarm = ks_setting(
                window=window, against=ALL | {"window": against}, threshold=threshold, clear=clear, hold=hold
            )
            add(alarm)
        if not commit:
            add(ks_setting(window="last:300", against=ALL | {"window": "last:900"}, clear=0.15, threshold=0.2, hold=2))
        if commit % 6 == 5:
            stage.history.end_step()
            steps.append(np.empty(0))
    assert states == {NO, POSSIBLE, CERTAIN}
    assert sum(one.turns for one in records.values()) > 20
    assert any(one.turns > 1 and one.alarm.hold for one in records.values())  # it started and stopped
    for transition in stage.service.alarms.transitions(0):
        if transition["value"] is not None:
            assert 0 <= transition["value"]["low"] <= transition["value"]["high"] <= 1


# Keys, filters and times; empty windows; restarts


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, keys="endpoint") as stage:
        yield stage


def why(stage: Stage, id: int) -> Any:
    return stage.service.alarms.get(id).event()["why"]


def test_keys_filters_and_times_select_both_sides(tmp_path: Path) -> None:
    with Stage(tmp_path, keys="endpoint", filters=["errors"]) as stage:
        check_sides(stage, np.random.default_rng(5))


def check_sides(shop: Stage, rng: np.random.Generator) -> None:
    rows = 4000
    values, times = np.round(rng.normal(50, 10, rows)), np.sort(rng.uniform(0, 7200, rows))
    keys, errors = rng.choice(["/pay", "/cart"], rows), rng.random(rows) < 0.3
    values[(keys == "/pay") & (times > 5400)] += 9
    shop.append(values, key=keys, times=times, filters={"errors": errors})
    recent = times > times[-1] - 1800
    sides = [
        ({"key": "/pay", "window": "within:30m"}, ALL, recent & (keys == "/pay"), np.ones(rows, dtype=bool)),
        (
            {"key": "/pay", "window": "within:30m"},
            {"key": "/cart", "window": "within:30 min", "filter": "errors"},
            recent & (keys == "/pay"),
            recent & (keys == "/cart") & errors,
        ),
        ({"window": "within:30m", "filter": "errors"}, ALL, recent & errors, np.ones(rows, dtype=bool)),
    ]
    for scope, against, own, other in sides:
        alarm = shop.service.alarms.get(shop.set(**vars(ks_setting(**scope, against=against, threshold=0.01))))
        event, exact = alarm.event(), exact_ks(values[own], values[other])
        assert (event["n"], event["against_n"]) == (own.sum(), other.sum())
        assert Fraction(event["value"]["low"]) <= exact <= Fraction(event["value"]["high"])
        assert event["value"]["high"] - event["value"]["low"] < 0.05
        assert (event["state"], event["firing"], event["phi"]) == (CERTAIN, True, None)


def test_an_empty_side_neither_starts_nor_stops(shop: Stage) -> None:
    shop.append([1.0] * 50, key="/cart", times=0.0)
    shop.append([200.0] * 50, key="/pay", times=10.0)
    fires = shop.set(**vars(ks_setting(key="/pay", window="within:1m", against=ALL | {"key": "/cart"})))
    unknown = shop.set(**vars(ks_setting(against=ALL | {"key": "/home"})))
    assert [shop.state_of(fires), shop.state_of(unknown)] == [(CERTAIN, True), (POSSIBLE, False)]
    assert "'/home'" in why(shop, unknown)
    assert "to compare with" in why(shop, unknown)
    shop.append([1.0], key="/cart", times=1000.0)
    assert shop.state_of(fires) == (POSSIBLE, True)
    assert "'/pay'" in why(shop, fires)
    shop.append([1.0], key="/pay", times=1001.0)
    assert shop.state_of(fires) == (NO, False)
    assert why(shop, fires) is None


def test_a_distance_equal_to_the_threshold_is_not_above_it(shop: Stage) -> None:
    shop.append([1.0, 1.0, 2.0, 2.0], key="/pay", times=0.0)
    shop.append([1.0, 1.0, 1.0, 2.0], key="/cart", times=0.0)  # the distance is 1/4
    fields = {"key": "/pay", "against": ALL | {"key": "/cart"}}
    equal, less = (shop.set(**vars(ks_setting(**fields, threshold=limit))) for limit in (0.25, 0.2499))
    assert [shop.state_of(equal), shop.state_of(less)] == [(NO, False), (CERTAIN, True)]


def test_comparison_alarms_continue_after_a_restart(shop: Stage) -> None:
    shop.append([1.0] * 100, key="/pay", times=0.0)
    shop.append([9.0] * 50, key="/pay", times=1.0)
    alarm = ks_setting(window="last:50", clear=0.25, name="drift", webhook="https://hooks.example.com/")
    id = shop.set(**vars(alarm))
    plain = shop.set(threshold=5)
    assert shop.state_of(id) == (CERTAIN, True)  # 2/3
    last, before = shop.service.alarms.last_transition, shop.service.alarms.get(id).event()
    [row] = shop.service.registry.rows("SELECT body FROM deliveries")
    delivery = json.loads(row["body"])
    assert (delivery["measure"], delivery["against"], delivery["value"]) == ("ks", ALL, before["value"])
    shop.end()
    alarms = shop.begin().alarms
    alarms.tick()
    assert alarms.get(id).setting == alarm
    assert alarms.get(plain).setting == setting(threshold=5)
    assert alarms.get(id).event() == before
    assert alarms.transitions(last) == []
    shop.append([1.0] * 50, key="/pay", times=2.0)
    assert shop.state_of(id) == (NO, False)  # 1/4
    alarms.drop(id, None)
    alarms.drop(plain, None)
    assert alarms._windows == {}


def test_both_windows_are_read_as_of_one_commit(shop: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.append([1.0] * 100, key="/pay", times=0.0)
    id, live = shop.set(**vars(ks_setting(window="last:50"))), shop.service.streams.live("latency")
    pull, versions = live.pull, iter([7, 8, 8, 8])  # a commit between the first two
    monkeypatch.setattr(alarm_comparison, "PAUSE", 0.0)
    monkeypatch.setattr(live, "pull", lambda scope: (next(versions), pull(scope)[1]))
    shop.move()
    assert shop.service.alarms.get(id).event()["version"] == 8
    assert list(versions) == []
    versions = iter(range(1000))  # one after each
    shop.move()
    assert shop.state_of(id) == (POSSIBLE, False)
    assert "commits arrive faster" in why(shop, id)
    with pytest.raises(NotReadyError):
        shop.set(**vars(ks_setting(window="last:51")))


# Definition


@pytest.mark.parametrize("limit", [1, 1.5, -0.1, "0.1", True, None, float("nan")])
def test_a_limit_is_a_distance(shop: Stage, limit: Any) -> None:
    shop.append([1.0], key="/pay", times=0.0)
    for fields in ({"threshold": limit, "clear": 0.0}, {"clear": limit}):
        with pytest.raises(InvalidArgumentError, match=r"KS distance is|clears at"):
            shop.set(**vars(ks_setting(window="last:1", **fields)))
    assert shop.service.alarms.list_alarms() == []
    assert shop.service.alarms._windows == {}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("served")
    with make_store(folder) as history:
        for key, start in (("/pay", 0.0), ("/cart", 100.0)):
            history.append(np.arange(start, start + 100), key=key, times=0.0, filters={"errors": [True, False] * 50})
    with run_server(configure(folder)) as result:
        yield result


def test_an_alarm_is_set_and_shown(client: httpx.Client) -> None:
    fields = ALARM | {"key": "/pay", "window": "last:80", "clear": 0.2, "hold": 60, "name": "drift"}
    made = client.post("/api/alarms", json=fields | {"against": {"key": None, "window": "steps:0"}})
    body = made.json()
    assert made.status_code == 201, body
    assert body["against"] == {"key": None, "window": "steps:0", "filter": None}
    assert [body[name] for name in ("measure", "phi", "above", "clear", "eps")] == ["ks", None, 0.5, 0.2, None]
    exact = exact_ks(np.arange(20, 100), np.arange(200))
    assert Fraction(body["value"]["low"]) <= exact <= Fraction(body["value"]["high"])
    assert (body["n"], body["against_n"], body["rank_lo"], body["error"]) == (80, 200, None, None)
    assert (body["state"], body["firing"], body["why"]) == (NO, False, None)
    assert client.get(f"/api/alarms/{body['id']}").json() == body
    [transition] = client.get(f"/api/alarms/{body['id']}/history").json()["transitions"]
    assert (transition["measure"], transition["value"]) == ("ks", body["value"])
    assert client.delete(f"/api/alarms/{body['id']}").status_code == 204


def test_the_reference_has_the_key_and_the_filter_of_the_alarm(client: httpx.Client) -> None:
    fields = ALARM | {"key": "/pay", "window": "last:10", "filter": "errors"}
    for given, shown in (
        ({"window": "last:50"}, {"key": "/pay", "window": "last:50", "filter": "errors"}),
        ({"key": "/cart", "window": "last:10"}, {"key": "/cart", "window": "last:10", "filter": "errors"}),
        ({"filter": None}, {"key": "/pay", "window": "all", "filter": None}),
    ):
        body = client.post("/api/alarms", json=fields | {"against": given}).json()
        assert body["against"] == shown
        assert client.delete(f"/api/alarms/{body['id']}").status_code == 204


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"against": None}, "needs against"),
        ({"against": {"window": "last:2"}}, "is the window itself"),
        ({"against": {"window": "soon"}}, "not a window"),
        ({"against": {"stream": "latency"}}, "stream"),
        ({"against": "steps:7"}, "against is 'steps:7': write a JSON object"),
        ({"against": {"filter": "nothing"}}, "nothing"),
        ({"against": {"window": "steps:1", "filter": "errors"}}, "last_steps"),
        ({"against": {"window": "within:2 d"}}, "reaches back"),
        ({"phi": 0.5}, "has no phi"),
        ({"eps": 0.1}, "has no eps"),
        ({"above": None, "below": 0.5}, "has no below"),
        ({"above": None}, "one threshold"),
        ({"above": 1}, "from 0 to less than 1"),
        ({"above": "0.5"}, "from 0 to less than 1"),
        ({"clear": 0.6}, "clears at"),
        ({"measure": "psi"}, "measure"),
        ({"measure": "quantile"}, "needs phi"),
        ({"measure": "quantile", "phi": 0.5}, "against belongs"),
    ],
    ids=json.dumps,
)
def test_invalid_alarms_are_rejected_by_name(client: httpx.Client, wrong: dict[str, Any], message: str) -> None:
    result = client.post("/api/alarms", json=ALARM | {"window": "last:2"} | wrong)
    assert (result.status_code, message in result.json()["error"]["message"]) == (400, True), result.text
    assert result.json()["error"]["code"] in ("invalid_argument", "span")
    assert client.get("/api/alarms").json() == {"alarms": []}


# Registries of former versions


FORMER = """INSERT INTO alarms (id, name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook,
owner, created, state, firing, since) VALUES (?, 'p50', 'latency', '["a", 1]', 'last:5', NULL, 0.5, 0.1, 1, '100', '50',
30.0, 'https://hooks.example.com/', 'me', 1.5, 'certain', 1, 2.5)"""


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_alarms_of_a_former_registry_are_read(tmp_path: Path, version: int) -> None:
    folder = older(tmp_path / "state", version)
    with sqlite3.connect(folder / "registry.db") as file:
        for id in (3, 7):
            file.execute(FORMER, (id,))
        file.execute("DELETE FROM alarms WHERE id = 7")
        with pytest.raises(sqlite3.IntegrityError):  # the former schema needs a phi
            file.execute(FORMER.replace("0.5", "NULL"), (9,))
    file.close()
    for _ in range(2):
        registry = ServerRegistry(str(folder))
        [row] = registry.rows("SELECT * FROM alarms")
        assert AlarmSetting.of(row) == AlarmSetting(
            *("p50", "latency", ["a", 1], "last:5", None, 0.5, 0.1, True, 100, 50, 30.0),
            *("https://hooks.example.com/", "me", 1.5, "quantile", None),
        )
        assert (row["id"], row["state"], row["firing"], row["since"]) == (3, "certain", 1, 2.5)
        assert registry.rows("PRAGMA user_version")[0][0] == VERSION
        assert registry.rows("SELECT name FROM sqlite_master WHERE name LIKE 'former%'") == []
        registry.close()
    registry = ServerRegistry(str(folder))
    with registry.transaction() as write:  # ids of dropped alarms are not used again
        assert write.execute(FORMER.replace("VALUES (?", "VALUES (NULL")).lastrowid == 8
    registry.close()


def test_a_former_registry_without_alarms(tmp_path: Path) -> None:
    registry = ServerRegistry(str(older(tmp_path / "state", 4)))
    with registry.transaction() as write:
        assert write.execute(FORMER.replace("VALUES (?", "VALUES (NULL")).lastrowid == 1
    registry.close()
