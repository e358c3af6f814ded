"""Alarms through the client: set, fired, cleared, received as events, dropped."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.client import Client, Event
from quantide.errors import InvalidArgumentError, ServerError, UnknownAlarmError, UnknownStreamError
from tests.client.scripted_server import response, scripted_server
from tests.server.running_server import STREAM, configure, make_store, run_server

PRICES = '[streams.prices]\nsource = { format = "parquet", path = "in" }\nvalue = "price"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alarms")


@pytest.fixture(scope="module")
def history(folder: Path) -> Iterator[History]:
    with make_store(folder, filters=None) as history:
        history.append(np.full(1000, 10.0), key="/pay", times=np.arange(1000.0))
        yield history


@pytest.fixture(scope="module")
def server(folder: Path, history: History) -> Iterator[Client]:
    with make_store(folder, "prices", keys=None, filters=None, value_type="decimal[2]") as prices:
        prices.append([Decimal("1.50"), Decimal("2.25")])
    with run_server(configure(folder, streams=STREAM + PRICES)) as server, Client(str(server.base_url)) as client:
        yield client


@pytest.fixture
def client(server: Client) -> Iterator[Client]:
    """Client of one server for all tests; drops the alarms of each test."""
    yield server
    for alarm in server.alarms():
        server.drop_alarm(alarm["id"])


def wait(events: Iterator[Event], firing: bool) -> dict[str, Any]:
    """Return the event of an alarm that starts or stops firing."""
    alarm: dict[str, Any] = next(e.data for e in events if e.kind == "alarm" and e.data["firing"] is firing)
    return alarm


def test_an_alarm_is_set_fires_clears_and_is_dropped(client: Client, history: History) -> None:
    id = client.alarm("latency", 0.5, above=100.0, clear=50, key="/pay", within="5 min", name="slow")
    state = client.alarm_state(id)
    assert [state[name] for name in ("id", "name", "stream", "key", "window", "phi", "above", "clear", "hold")] == (
        [id, "slow", "latency", "/pay", "within:5 min", 0.5, 100.0, 50.0, 0.0]
    )
    assert (state["state"], state["firing"], state["value"]) == ("no", False, 10.0)
    with client.events(alarms=[id]) as events:
        history.append(np.full(1000, 500.0), key="/pay", times=2000.0 + np.arange(1000.0))
        alarm = wait(events, True)
        assert (alarm["alarm"], alarm["state"], alarm["value"]) == (id, "certain", 500.0)
        assert isinstance(alarm["value"], np.float64)
        assert alarm["since"].tzinfo is not None
        history.append(np.full(1000, 10.0), key="/pay", times=4000.0 + np.arange(1000.0))
        assert wait(events, False)["state"] == "no"
    assert [one["id"] for one in client.alarms()] == [id]
    firing = [one["firing"] for one in client.alarm_history(id)]
    assert firing[0] is False
    assert True in firing
    client.drop_alarm(id)
    assert client.alarms() == []
    for call in (client.alarm_state, client.drop_alarm):
        with pytest.raises(UnknownAlarmError):
            call(id)


def test_thresholds_have_the_type_of_the_stream(client: Client) -> None:
    id = client.alarm("prices", 0.5, below=Decimal("1.75"), clear=Decimal("2.00"), hold=2.5)
    state = client.alarm_state(id)
    assert (state["below"], state["clear"], state["value"]) == (Decimal("1.75"), Decimal("2.00"), Decimal("1.50"))
    assert (state["hold"], state["state"]) == (2.5, "certain")
    with client.events(alarms=True) as events:
        assert next(events).data["alarm"] == id


@pytest.mark.parametrize(
    ("kind", "threshold", "expected"),
    [
        ("int64", 5.5, 5.5),
        ("int64", 2**62 + 1, 2**62 + 1),
        ("int64", "5.25", Decimal("5.25")),
        ("uint8", 300, 300),
        ("float64", "-inf", -np.inf),
        ("float32", 0.1, 0.1),
        ("decimal[2]", 1.5, Decimal("1.5")),
        ("decimal[2]", "1.505", Decimal("1.505")),
        ("duration[ms]", "1 h 30 min", "1 h 30 min"),
        ("timestamp[ms, tz=UTC]", "2026-01-31T12:00:00Z", np.datetime64("2026-01-31T12:00:00")),
        ("date", "2026-01-31", np.datetime64("2026-01-31")),
    ],
)
def test_thresholds_are_returned_as_they_were_set(kind: str, threshold: Any, expected: Any) -> None:
    body = json.dumps({"alarms": [{"key": None, "value_type": kind, "value": None, "above": threshold}]}).encode()
    with scripted_server([response(body)]) as server, Client(server.address) as client:
        [alarm] = client.alarms()
    assert (type(alarm["above"]), alarm["above"]) == (type(expected), expected)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.alarm("nowhere", 0.5, above=1), UnknownStreamError),
        (lambda c: c.alarm("latency", 0.5), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, below=2), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, clear=2), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above="much"), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=float("nan")), InvalidArgumentError),
        (lambda c: c.alarm("latency", 1.5, above=1), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, hold="soon"), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, hold=-1), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, webhook="http://10.0.0.1/"), InvalidArgumentError),
        (lambda c: c.alarm("latency", 0.5, above=1, key=("a", "b")), InvalidArgumentError),
        (lambda c: c.alarm_state("7"), InvalidArgumentError),
        (lambda c: list(c.alarm_history(7)), UnknownAlarmError),
    ],
)
def test_rejected_alarms_are_not_set(client: Client, call: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        call(client)
    assert client.alarms() == []


def test_an_alarm_on_the_distance_of_two_windows(client: Client) -> None:
    drift: dict[str, Any] = {"measure": "ks", "above": 0.5, "last": 2}
    id = client.alarm("latency", **drift, against={"key": None, "last": 500}, key="/pay", clear=0.25, name="drift")
    state = client.alarm_state(id)
    assert [state[name] for name in ("measure", "phi", "above", "clear", "key")] == ["ks", None, 0.5, 0.25, "/pay"]
    assert state["against"] == {"key": None, "window": "last:500", "filter": None}
    low, high = state["value"]
    assert 0 <= low <= high <= 1
    [transition] = client.alarm_history(id)
    assert transition["value"] == state["value"]
    client.drop_alarm(id)
    prices = client.alarm("prices", measure="ks", above=0.5, last=1, against={})
    assert (client.alarm_state(prices)["above"], client.alarm_state(prices)["value_type"][:7]) == (0.5, "decimal")
    client.drop_alarm(prices)


@pytest.mark.parametrize(
    "wrong",
    [
        {"against": None},
        {"against": "steps:7"},
        {"against": {"steps": 7}},
        {"against": {"last": 2}},
        {"phi": 0.5},
        {"measure": "psi"},
        {"measure": "quantile"},
        {"above": None, "below": 0.5},
        {"above": 1},
    ],
    ids=str,
)
def test_a_wrong_alarm_on_a_distance_is_not_set(client: Client, wrong: dict[str, Any]) -> None:
    before = client.alarms()
    drift: dict[str, Any] = {"measure": "ks", "above": 0.5, "last": 2, "against": {}}
    with pytest.raises(InvalidArgumentError):
        client.alarm("latency", **drift | wrong)
    assert client.alarms() == before


def test_history_is_fetched_a_page_at_a_time() -> None:
    pages = [f'{{"transitions": [{{"number": {n}}}], "next": {after}}}'.encode() for n, after in ((9, 9), (8, "null"))]
    with scripted_server(*([response(page)] for page in pages)) as server, Client(server.address) as client:
        assert [one["number"] for one in client.alarm_history(3)] == [9, 8]
        urls = [head.split(b" ")[1] for head in server.requests]
        assert urls == [b"/api/alarms/3/history", b"/api/alarms/3/history?before=9"]
    with (
        scripted_server([response(pages[0])]) as server,
        Client(server.address) as client,
        pytest.raises(ServerError, match="leads back"),
    ):
        list(client.alarm_history(3))
