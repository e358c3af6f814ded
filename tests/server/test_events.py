"""Server-sent events: the state, then changes only; resumed, restarted; clients that are slow, dead or many."""

import gc
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import pytest

from quantide.server import eventstream, listener, reply
from quantide.server.app import make_app
from quantide.server.lines import WAITING, Line
from quantide.server.registry import Registry
from quantide.server.service import Service
from quantide.server.tokens import create_token, revoke_token
from tests.server.listening import Listening, Truth, listening
from tests.server.serving import configure, make_store, serving

T = TypeVar("T")

LIMITS = "[server.limits]\nevents = 3"
PHIS = (0.1, 0.5, 0.9, 0.99)


class Served:
    """A server over a store, which a test writes to; `queries` are registered: p10 to p99 of /pay."""

    def __init__(self, client: httpx.Client, service: Service, truth: Truth) -> None:
        self.client, self.service, self.truth = client, service, truth
        self.queries = register(client, *({"phi": phi, "key": "/pay"} for phi in PHIS))

    def wait(self) -> None:
        """Until the server has seen what was appended."""
        n = b'"n":%d,' % len(self.truth.values)
        wait_until(lambda: n in self.service.standing.moves["latency"][1])

    def check(self, told: dict[int, Any]) -> None:
        """Each of the registered queries is within its bound."""
        for id, one in told.items():
            self.truth.check(one, PHIS[self.queries.index(id)], 0.02, "/pay")


def register(client: httpx.Client, *queries: dict[str, Any]) -> list[int]:
    response = client.post("/api/queries", json=[{"stream": "latency", **query} for query in queries])
    return [one["id"] for one in response.json()["queries"]]


@contextmanager
def served(folder: Path, server: str = "") -> Iterator[Served]:
    with make_store(folder) as history:
        truth = Truth(history)
        truth.append(500)
        config = configure(folder, server)
        app = make_app(config)
        with serving(config, app) as client:
            yield Served(client, app.state.service, truth)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For tests that append nothing: what moves an answer depends on all that was appended before."""
    with served(tmp_path_factory.mktemp("events")) as found:
        yield found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def wait_until(holds: Callable[[], bool]) -> None:
    """For what another thread does in its own time; a test that waits for nothing fails."""
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_state_then_only_changes_each_within_its_bound(server: Served) -> None:
    with listening(server.client, query=server.queries) as events:
        first = events.changes(4)
        server.check(first)
        assert list(first) == server.queries
        for slow in (5.0, 25.0, 125.0):
            server.truth.append(2000, slow)
            told = events.changes(1)
            server.check(told)
            assert all(one["n"] > first[id]["n"] for id, one in told.items())
            assert all(one["value"] != first[id]["value"] for id, one in told.items())
            first |= told
        assert server.client.get(f"/api/queries/{server.queries[3]}").json()["answer"] == first[server.queries[3]]


def test_commits_that_change_no_value_are_not_told(server: Served) -> None:
    with listening(server.client, query=server.queries, stream="latency") as events:
        events.changes(4)
        for _ in range(3):
            before = server.service.streams.live("latency").version
            server.truth.append(200, keys=["/cart"])
            event = next(event for event in events if event.name == "queries" or event.data["version"] > before)
            assert event.name == "stream"


def test_streams_tell_where_they_are(server: Served) -> None:
    with listening(server.client, stream="latency") as events:
        now = next(events)
        assert (now.name, now.data["n"], now.data["ready"]) == ("stream", len(server.truth.values), True)
        server.truth.append(100, start=1000.0)
        moved = next(event for event in events if event.data["n"] > now.data["n"])
        assert moved.data["n"] == len(server.truth.values)
        assert moved.data["version"] > now.data["version"]
        assert moved.data["newest"] > 1000


def test_one_who_comes_again_is_told_only_what_changed_meanwhile(server: Served) -> None:
    mine = [*server.queries, *register(server.client, {"phi": 0.5, "key": "/home"})]
    with listening(server.client, query=mine) as events:
        event = next(events)
        last, known = event.id, {one["id"]: one for one in event.data["changes"]}
        assert list(known) == mine
    for slow in (300.0, 0.001, 20.0):
        server.truth.append(30_000, slow, keys=["/pay"])  # while nobody listens
        server.wait()
        with listening(server.client, last, query=mine) as events:
            event = next(events)
            last, told = event.id, {one["id"]: one for one in event.data["changes"]}
            assert mine[-1] not in told
            assert {one["n"] for one in told.values()} == {int((server.truth.keys == "/pay").sum())}
            server.check(told)
            known |= told
            now = {id: server.client.get(f"/api/queries/{id}").json()["answer"] for id in mine}
            assert {id: one["value"] for id, one in now.items()} == {id: one["value"] for id, one in known.items()}
    assert server.client.delete(f"/api/queries/{mine[-1]}").status_code == 200


def test_one_who_saw_everything_is_told_nothing(server: Served) -> None:
    with listening(server.client, query=server.queries, stream="latency") as events:
        last = events.until_id()
    with listening(server.client, last, query=server.queries, stream="latency") as events:
        server.truth.append(10, keys=["/cart"])
        event = next(events)
        assert (event.name, event.data["n"]) == ("stream", len(server.truth.values))


@pytest.mark.parametrize("last", ["", "999.0.0", "1.999999.0", "0.5.0", "1.0.99999"])
def test_an_id_of_another_server_brings_the_state(shared: Served, last: str) -> None:
    with listening(shared.client, last, query=shared.queries) as events:
        shared.check(events.changes(4))


@pytest.mark.parametrize("last", ["x", "1", "1.2", "1.2.3.4", "-1.0.0", "1.2.٣", "1." + "9" * 30 + ".0", "1.2.3x"])
def test_an_id_that_is_none_is_refused(shared: Served, last: str) -> None:
    headers = {b"last-event-id": last.encode()}
    response = shared.client.get("/api/events", params={"query": shared.queries[0]}, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize(
    ("chosen", "status", "code"),
    [
        ("", 400, "invalid_argument"),
        ("query=0", 400, "invalid_argument"),
        ("query=x", 400, "invalid_argument"),
        (f"query={2**63}", 400, "invalid_argument"),
        ("query=99999999", 404, "unknown_query"),
        ("stream=nobody", 404, "unknown_stream"),
        ("stream=" + "s" * 101, 400, "invalid_argument"),
        ("alarms=some", 400, "invalid_argument"),
        ("alarm=0", 400, "invalid_argument"),
        ("label=" + "l" * 101, 400, "invalid_argument"),
        ("everything=1", 400, "invalid_argument"),
    ],
)
def test_wrong_choices_are_refused(shared: Served, chosen: str, status: int, code: str) -> None:
    response = shared.client.get(f"/api/events?{chosen}")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_what_an_event_stream_says_of_itself(shared: Served) -> None:
    with listening(shared.client, stream="latency") as events:
        head = events.response.headers
        assert head["content-type"].startswith("text/event-stream")
        assert (head["cache-control"], head["x-accel-buffering"]) == ("no-store", "no")


def test_queries_of_a_label(shared: Served) -> None:
    mine = register(shared.client, *({"phi": phi, "label": "page"} for phi in PHIS))
    register(shared.client, {"phi": 0.5, "label": "other"})
    with listening(shared.client, label=["page", "page"], query=mine[:2]) as events:
        told = events.changes(4)
        assert sorted(told) == mine
        for id, phi in zip(mine, PHIS, strict=True):
            shared.truth.check(told[id], phi, 0.02)


def test_a_dropped_query_is_told_and_others_go_on(server: Served) -> None:
    mine = register(server.client, *({"phi": phi, "key": "/home"} for phi in PHIS))
    with listening(server.client, query=mine) as events:
        last = events.until_id()
        server.client.post("/api/queries/drop", json=mine[1:3]).raise_for_status()
        assert events.changes(2) == {id: {"id": id, "state": "dropped", "value": None} for id in mine[1:3]}
        server.truth.append(5000, 70.0, keys=["/home"])
        told = events.changes(1)
        assert set(told) <= {mine[0], mine[3]}
    with listening(server.client, last, query=mine) as events:
        told = events.changes(3)
        assert [told[id]["state"] for id in mine[1:3]] == ["dropped"] * 2
    assert server.client.get("/api/events", params={"query": mine}).status_code == 404


def test_a_window_that_empties_and_fills_is_told(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        [mine] = register(server.client, {"phi": 0.5, "key": "/home", "window": "within:30s"})
        with listening(server.client, query=mine) as events:
            assert events.changes(1)[mine]["state"] == "value"
            server.truth.append(100, keys=["/pay"], start=100.0)
            assert events.changes(1)[mine] == {"id": mine, "state": "empty", "value": None}
            server.truth.append(100, keys=["/home"], start=110.0)
            told = events.changes(1)[mine]
            assert told["n"] == 100
            assert sorted(server.truth.values[-100:])[49] == told["value"] or told["error"] <= 0.01


def test_a_store_that_comes_later_is_told(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with serving(config) as client, listening(client, stream="latency") as events:
        first = next(events)
        assert (first.data["ready"], "why" in first.data) == (False, True)
        with make_store(tmp_path) as history:
            Truth(history).append(100)
            assert next(event for event in events if event.data.get("n"))[2]["n"] == 100


def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    with make_store(tmp_path) as history, ExitStack() as stack:
        truth = Truth(history)
        truth.append(500)
        config = configure(tmp_path)
        with serving(config) as client:
            queries = register(client, *({"phi": phi} for phi in PHIS))
            page = stack.enter_context(httpx.Client(base_url=client.base_url, timeout=10))
            cut = stack.enter_context(listening(page, query=queries))
            first = cut.changes(4)
            truth.append(3000, 9.0)
            last = cut.until_id()
        assert all(event.name == "queries" for event in cut)  # it ends
        truth.append(3000, 81.0)  # while there is no server
        with serving(config) as client, listening(client, last, query=queries) as events:
            told = events.changes(4)
            assert list(told) == queries
            truth.append(9000, 729.0)
            again = events.changes(1)
            for found in (first, told, again):
                for id, one in found.items():
                    truth.check(one, PHIS[queries.index(id)], 0.02)
            assert {one["n"] for one in told.values()} == {6500}
            assert {one["n"] for one in again.values()} == {15500}


def test_a_server_that_stops_ends_its_event_streams(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        app = make_app(config)
        with serving(config, app) as client, listening(client, stream="latency") as events:
            next(events)
            app.state.service.hub.close()
            assert list(events) == []
            assert client.get("/api/events?stream=latency").json()["error"]["code"] == "not_ready"


def test_there_are_at_most_so_many_and_one_who_leaves_makes_room(tmp_path: Path) -> None:
    with served(tmp_path, LIMITS) as server:
        hub = server.service.hub
        with listening(server.client, stream="latency"), listening(server.client, stream="latency"):
            with listening(server.client, stream="latency") as third:
                next(third)
                response = server.client.get("/api/events?stream=latency")
                assert (response.status_code, response.json()["error"]["code"]) == (429, "limit")
            wait_until(lambda: len(hub) == 2)
            with listening(server.client, query=server.queries) as events:
                server.check(events.changes(4))


def test_silence_is_broken_now_and_then(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventstream, "KEEP", 0.02)
    with listening(shared.client, stream="latency") as events:
        next(events)
        assert events.lines(3) == [":", ":", ":"]


def test_many_queries_come_in_several_events_and_only_the_last_has_an_id(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TOGETHER", 100)
    phis = np.random.default_rng(8).uniform(0.01, 1, 950)
    mine = register(shared.client, *({"phi": phi, "label": "many"} for phi in phis.tolist()))
    with listening(shared.client, label="many") as events:
        state = [next(events) for _ in range(10)]
        assert [len(event.data["changes"]) for event in state] == [100] * 9 + [50]
        assert [event.id is None for event in state] == [True] * 9 + [False]
        told = [one for event in state for one in event.data["changes"]]
        assert [one["id"] for one in told] == mine
        for one, phi in zip(told, phis, strict=True):
            shared.truth.check(one, phi, 0.02)
    shared.client.delete("/api/queries", params={"label": "many"}).raise_for_status()


def connect(server: Served, path: str) -> socket.socket:
    """A client that has asked, and will not read until it is told to."""
    url = server.client.base_url
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((url.host, url.port))
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
    return raw


def test_a_client_that_never_reads_is_let_go_and_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventstream, "PATIENCE", 0.3)
    with served(tmp_path) as server:
        hub = server.service.hub
        for _ in range(3):
            phis = np.random.default_rng(4).uniform(0.01, 1, 20_000).tolist()
            register(server.client, *({"phi": phi, "label": "much"} for phi in phis))
        with listening(server.client, query=server.queries) as events:
            events.changes(4)
            slow = connect(server, "/api/events?label=much")
            wait_until(lambda: len(hub) == 2)
            server.truth.append(5000, 40.0)
            server.check(events.changes(1))  # while the other does not read
            wait_until(lambda: len(hub) == 1)
            server.truth.append(50_000, 1600.0)
            server.check(events.changes(1))
            slow.settimeout(10)
            rest = b"".join(iter(lambda: slow.recv(1 << 20), b""))
            assert not rest.endswith(b"0\r\n\r\n")  # it was cut off
            slow.close()


def test_clients_that_vanish_leave_nothing_behind(shared: Served) -> None:
    hub, standing = shared.service.hub, shared.service.standing
    query = shared.queries[0]
    for abrupt in (False, True):
        raws = [connect(shared, f"/api/events?query={query}&stream=latency") for _ in range(5)]
        wait_until(lambda: len(hub) == 5)
        for raw in raws:
            if abrupt:  # a reset, as of a machine that was switched off and on
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            raw.close()
        wait_until(lambda: len(hub) == 0)
        assert standing.heard == 0


def test_one_who_is_slow_is_told_the_newest_and_nothing_between(server: Served) -> None:
    """What a connection holds is a number: however many commits there were, each query is told once."""
    with listening(server.client, query=server.queries) as events:
        last = events.until_id()
        for slow in (2.0, 4.0, 8.0, 16.0):
            server.truth.append(20_000, slow, keys=["/pay"])
            events.changes(1)
        server.wait()
    with listening(server.client, last, query=server.queries) as events:
        event = next(events)
        ids = [one["id"] for one in event.data["changes"]]
        assert len(ids) == len(set(ids))
        assert event.id is not None
        server.check({one["id"]: one for one in event.data["changes"]})


def test_alarms_are_told_as_they_stand_then_every_change(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        body = {"stream": "latency", "phi": 0.5, "key": "/pay", "above": 1000.0, "window": "last:500"}
        mine, other = (
            server.client.post("/api/alarms", json={**body, "above": limit}).json()["id"] for limit in (1e3, 1e9)
        )
        with listening(server.client, alarm=mine) as events:
            state = next(events)
            assert (state.name, state.data["alarm"], state.data["firing"]) == ("alarm", mine, False)
            for slow, firing in ((1e5, True), (1.0, False), (1e5, True)):
                server.truth.append(5000, slow, keys=["/pay"])
                assert next(event for event in events if event.data["firing"] == firing).data["alarm"] == mine
        whole = server.service.alarms.transitions(0)
        with listening(server.client, "1.0.0", alarms="all") as events:
            told = [next(events) for _ in whole]
            assert [event.data["number"] for event in told] == [one["number"] for one in whole]
            assert told[-1].id is not None
            assert told[-1].id.endswith(f".{whole[-1]['number']}")
        with listening(server.client, alarms="all") as events:
            assert {next(events).data["alarm"] for _ in range(2)} == {mine, other}
        assert server.client.get("/api/events?alarm=999").json()["error"]["code"] == "unknown_alarm"


def test_a_token_that_is_revoked_ends_its_event_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventstream, "KEEP", 0.05)
    monkeypatch.setattr(reply, "AGAIN", 0.2)
    config = configure(tmp_path)
    registry = Registry(config.server.state)
    (_, kept), (id, gone) = (create_token(registry, name, "reader") for name in ("kept", "gone"))
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        with serving(config) as client:
            mine, theirs = ({"authorization": f"Bearer {token}"} for token in (kept, gone))
            chosen = "/api/events?stream=latency"
            with client.stream("GET", chosen, headers=mine) as one, client.stream("GET", chosen, headers=theirs) as two:
                goes_on, ends = Listening(one), Listening(two)
                assert next(goes_on).data == next(ends).data
                revoke_token(registry, id)
                assert list(ends) == []
                assert goes_on.lines(3) == [":", ":", ":"]
            assert client.get(chosen, headers=theirs).status_code == 401
    registry.close()


def all_of(kind: type[T]) -> list[T]:
    return [one for one in gc.get_objects() if isinstance(one, kind)]


def test_clients_that_never_read_hold_little(tmp_path: Path) -> None:
    """Changes of 20,000 queries wait for each of 50 clients; a few events are kept for each."""
    with served(tmp_path) as server:
        phis = np.random.default_rng(4).uniform(0.01, 1, 20_000).tolist()
        register(server.client, *({"phi": phi, "label": "much"} for phi in phis))
        hub, standing = server.service.hub, server.service.standing
        raws = [connect(server, "/api/events?label=much") for _ in range(50)]
        wait_until(lambda: len(hub) == 50 and standing.heard > 0)
        for slow in (40.0, 1600.0):
            server.truth.append(5000, slow)
            found = server.client.get("/api/streams/latency/quantiles", params={"phi": 0.5, "window": "last:1000"})
            assert found.status_code == 200, "questions are answered beside them"

        def unread() -> list[int]:
            lines = [line for line in all_of(Line) if not line.transport.is_closing()]
            return [line.transport.get_write_buffer_size() for line in lines]

        wait_until(lambda: sum(size > 0 for size in unread()) >= 50)
        assert max(unread()) <= 4 * WAITING
        streams = [stream for stream in all_of(eventstream.EventStream) if stream._service is server.service]
        assert (len(streams), len({id(stream._queries) for stream in streams})) == (50, 1), "one label, one set"
        for raw in raws:
            raw.close()
        wait_until(lambda: len(hub) == 0 and standing.heard == 0)
