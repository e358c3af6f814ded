"""Continuous queries and their events through the client, with a real server that restarts."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.client import Client, Event, QueryState, event_reader
from quantide.errors import InvalidArgumentError, ServerError, UnknownQueryError, UnknownStreamError
from tests.client.restartable_server import RestartableServer
from tests.client.scripted_server import response, scripted_server
from tests.server.running_server import STREAM, configure, make_store, run_server, traffic

PRICES = '[streams.prices]\nsource = { format = "parquet", path = "in" }\nvalue = "price"\n'


@pytest.fixture
def history(tmp_path: Path, rng: np.random.Generator) -> Iterator[History]:
    with make_store(tmp_path) as history:
        traffic(history, rng, 1000, 0.0)
        yield history


@pytest.fixture
def server(tmp_path: Path, history: History) -> Iterator[RestartableServer]:
    with make_store(tmp_path, "prices", keys=None, filters=None, value_type="decimal[2]") as prices:
        prices.append([Decimal("1.50"), Decimal("2.25")])
    with RestartableServer(configure(tmp_path, streams=STREAM + PRICES)) as server:
        yield server


@pytest.fixture
def client(server: RestartableServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(event_reader, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(event_reader, "LONGEST_PAUSE", 0.05)
    with Client(server.address) as client:
        yield client


@pytest.fixture(scope="module")
def idle_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Client of a server without registered queries."""
    folder = tmp_path_factory.mktemp("idle")
    with make_store(folder) as history:
        traffic(history, np.random.default_rng(3), 1000, 0.0)
    with run_server(configure(folder, "limits = { batch = 50 }")) as server, Client(str(server.base_url)) as client:
        yield client


def states(events: Iterator[Event], count: int) -> dict[int, QueryState]:
    """Read events until there is a state of `count` queries."""
    latest: dict[int, QueryState] = {}
    while len(latest) < count:
        event = next(events)
        if event.kind == "queries":
            latest |= {state.id: state for state in event.data}
    return latest


def test_a_query_is_registered_answered_and_dropped(client: Client) -> None:
    id = client.register("latency", 0.99, eps=0.05, key="/pay", within="5 min", label="page", idle=timedelta(minutes=2))
    assert client.query(id)["idle"] == "2 min"
    query = client.query(id)
    assert [query[name] for name in ("id", "stream", "phi", "key", "window", "label")] == (
        [id, "latency", 0.99, "/pay", "within:5 min", "page"]
    )
    state, expected = query["answer"], client.answer("latency", 0.99, key="/pay", within="5 min")
    assert (state.state, state.n, state.version) == ("value", expected.n, expected.version)
    assert abs(client.rank("latency", state.value, key="/pay", within="5 min")[0] / state.n - 0.99) <= 0.05
    assert query["created"].tzinfo is not None
    assert client.drop(id) == 1
    with pytest.raises(UnknownQueryError):
        client.query(id)
    with pytest.raises(UnknownQueryError):
        client.drop(id)


def test_values_of_queries_have_the_type_of_the_stream(client: Client) -> None:
    assert client.query(client.register("prices", 1.0))["answer"].value == Decimal("2.25")
    assert isinstance(client.query(client.register("latency", 1.0))["answer"].value, np.float64)


def test_many_as_dicts_and_as_columns(client: Client) -> None:
    dicts = client.register_many([{"stream": "latency", "phi": phi, "last": 100, "label": "a"} for phi in (0.5, 0.9)])
    phis = np.array([0.5, 0.9, 0.99])
    columns = client.register_many(stream="latency", phi=phis, key=["/pay", "/cart", None], eps=0.02, label="b")
    assert [one["id"] for one in client.queries()] == [*dicts, *columns]
    queries = list(client.queries(label="b", stream="latency"))
    assert [(one["phi"], one["key"], one["eps"]) for one in queries] == (
        [(0.5, "/pay", 0.02), (0.9, "/cart", 0.02), (0.99, None, 0.02)]
    )
    assert list(client.queries(stream="prices")) == []
    assert client.drop(columns[:2]) == 2
    assert client.drop(label="a") == 2
    assert [one["id"] for one in client.queries()] == columns[2:]


def test_queries_are_fetched_a_page_at_a_time() -> None:
    row = '{"id": %d, "key": ["eu", 1], "created": "2026-01-31T12:00:00.000+00:00"}'
    pages = [f'{{"queries": [{row % id}], "next": {after}}}'.encode() for id, after in ((1, 1), (2, 2), (3, "null"))]
    with scripted_server(*([response(page)] for page in pages)) as server, Client(server.address) as client:
        assert [(one["id"], one["key"]) for one in client.queries(label="x")] == [(id, ("eu", 1)) for id in (1, 2, 3)]
        urls = [head.split(b" ")[1] for head in server.requests]
        assert urls == [b"/api/queries?after=%d&label=x" % after for after in (0, 1, 2)]
    with (
        scripted_server([response(pages[0])]) as server,
        Client(server.address) as client,
        pytest.raises(ServerError, match="leads back"),
    ):
        list(client.queries())


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda c: c.register("nowhere", 0.5), UnknownStreamError),
        (lambda c: c.register("latency", 1.5), InvalidArgumentError),
        (lambda c: c.register("latency", 0.5, eps=2.0), InvalidArgumentError),
        (lambda c: c.register("latency", 0.5, key=("a", "b")), InvalidArgumentError),
        (lambda c: c.register("latency", 0.5, key=float("inf")), InvalidArgumentError),
        (lambda c: c.register("latency", 0.5, mode="exact"), InvalidArgumentError),
        (lambda c: c.register("latency", 0.5, last=5, last_steps=1), InvalidArgumentError),
        (lambda c: c.register_many(), InvalidArgumentError),
        (lambda c: c.register_many([]), InvalidArgumentError),
        (lambda c: c.register_many([{"phi": 0.5}]), InvalidArgumentError),
        (lambda c: c.register_many([{"stream": "latency", "phi": 0.5}], phi=[0.5]), InvalidArgumentError),
        (lambda c: c.register_many(stream="latency", phi=0.5), InvalidArgumentError),
        (lambda c: c.register_many(stream="latency", phi=[0.5, 0.9], eps=[0.1]), InvalidArgumentError),
        (lambda c: c.register_many(stream="latency", phi=[0.5] * 51), InvalidArgumentError),
        (lambda c: c.register_many(stream=["latency", "nowhere"], phi=0.5), UnknownStreamError),
        (lambda c: c.query("7"), InvalidArgumentError),
        (lambda c: c.drop(), InvalidArgumentError),
        (lambda c: c.drop([]), InvalidArgumentError),
        (lambda c: c.drop(10**6), UnknownQueryError),
        (lambda c: c.drop(1, label="x"), InvalidArgumentError),
        (lambda c: c.events(queries=10**6), UnknownQueryError),
        (lambda c: c.events(streams=["latency", "nowhere"]), UnknownStreamError),
    ],
)
def test_rejected_calls_change_nothing(idle_client: Client, call: Any, kind: Any) -> None:
    with pytest.raises(kind):
        call(idle_client)
    assert list(idle_client.queries()) == []


def test_events_report_changes(client: Client, history: History, rng: np.random.Generator) -> None:
    ids = client.register_many(stream="latency", phi=[0.5, 0.99], label="mine")
    with client.events(label="mine", streams=["latency"]) as events:
        before = states(events, 2)
        assert set(before) == set(ids)
        traffic(history, rng, 1000, 10.0, slow=50.0)
        after = states(events, 2)
        assert all(after[id].value > before[id].value for id in ids)
        assert after[ids[0]].n == 2000
        client.drop(ids[0])
        assert states(events, 1) == {ids[0]: QueryState(ids[0], "dropped")}


def test_a_stream_reports_new_versions(client: Client, history: History, rng: np.random.Generator) -> None:
    with client.events(streams="latency") as events:
        traffic(history, rng, 10, 10.0)
        update = next(event for event in events if event.data.get("n") == 1010)
    assert update.kind == "stream"
    assert (update.data["stream"], update.data["newest"]) == ("latency", client.stream("latency")["newest"])


def test_events_continue_when_the_server_restarts(
    client: Client, server: RestartableServer, history: History, rng: np.random.Generator
) -> None:
    ids = client.register_many(stream="latency", phi=[0.5, 0.99])
    with client.events(queries=ids) as events:
        states(events, 2)
        server.stop()
        with pytest.raises(ServerError, match="cannot be reached"):
            client.streams()
        traffic(history, rng, 1000, 10.0, slow=50.0)
        server.start()
        assert {state.n for state in states(events, 2).values()} == {2000}
        traffic(history, rng, 1000, 20.0, slow=500.0)
        assert {state.n for state in states(events, 2).values()} == {3000}
    assert [one["id"] for one in client.queries()] == ids


def test_changes_without_a_subscriber_are_sent_later(
    client: Client, history: History, rng: np.random.Generator
) -> None:
    low, high = client.register_many(stream="prices", phi=[0.5, 1.0])
    other = client.register("latency", 0.5)
    with client.events(queries=[low, high, other]) as events:
        states(events, 3)
        last = next(event for event in _with_traffic(events, history, rng) if event.id).id
    traffic(history, rng, 1000, 20.0, slow=500.0)
    with client.events(queries=[low, high, other], after=last) as events:
        assert set(states(events, 1)) == {other}


def _with_traffic(events: Iterator[Event], history: History, rng: np.random.Generator) -> Iterator[Event]:
    traffic(history, rng, 1000, 10.0, slow=50.0)
    return events
