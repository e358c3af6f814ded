"""Server-sent events: the state, then changes only; resumed, restarted; clients that are slow, dead or many."""

import asyncio
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

from quantide.server.app import make_app
from quantide.server.events import event_stream
from quantide.server.http import security
from quantide.server.http.request_limits import WRITE_BUFFER, HttpProtocol
from quantide.server.http.tokens import create_token, revoke_token
from quantide.server.server_registry import ServerRegistry
from quantide.server.service import Service
from quantide.server.subscriptions.continuous_queries import ContinuousQueries
from tests.server.event_client import EventClient, Truth, check_value, open_events
from tests.server.running_server import configure, make_store, run_server

T = TypeVar("T")

LIMITS = "[server.limits]\nevents = 3"
PHIS = (0.1, 0.5, 0.9, 0.99)


class Served:
    """A server over a store that the test writes to; `queries` are registered: p10 to p99 of /pay."""

    def __init__(self, client: httpx.Client, service: Service, truth: Truth) -> None:
        self.client, self.service, self.truth = client, service, truth
        self.queries = register(client, *({"phi": phi, "key": "/pay"} for phi in PHIS))

    def wait(self) -> None:
        """Wait until the server has read all rows."""
        n = b'"n":%d,' % len(self.truth.values)
        wait_until(lambda: n in self.service.queries.stream_events["latency"][1])

    def check(self, changes: dict[int, Any]) -> None:
        """Check that each registered query is within its bound."""
        for id, one in changes.items():
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
        with run_server(config, app) as client:
            yield Served(client, app.state.service, truth)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that append nothing: a change of an answer depends on all rows before it."""
    with served(tmp_path_factory.mktemp("events")) as events:
        yield events


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as result:
        yield result


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; fail after a time."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_state_then_only_changes_each_within_its_bound(server: Served) -> None:
    with open_events(server.client, query=server.queries) as events:
        first = events.changes(4)
        server.check(first)
        assert list(first) == server.queries
        for slow in (5.0, 25.0, 125.0):
            server.truth.append(2000, slow)
            changes = events.changes(1)
            server.check(changes)
            assert all(one["n"] > first[id]["n"] for id, one in changes.items())
            assert all(one["value"] != first[id]["value"] for id, one in changes.items())
            first |= changes
        assert server.client.get(f"/api/queries/{server.queries[3]}").json()["answer"] == first[server.queries[3]]


def test_commits_without_changes_send_no_events(server: Served) -> None:
    with open_events(server.client, query=server.queries, stream="latency") as events:
        events.changes(4)
        for _ in range(3):
            before = server.service.streams.live("latency").version
            server.truth.append(200, keys=["/cart"])
            event = next(event for event in events if event.name == "queries" or event.data["version"] > before)
            assert event.name == "stream"


def test_stream_events(server: Served) -> None:
    with open_events(server.client, stream="latency") as events:
        now = next(events)
        assert (now.name, now.data["n"], now.data["ready"]) == ("stream", len(server.truth.values), True)
        server.truth.append(100, start=1000.0)
        moved = next(event for event in events if event.data["n"] > now.data["n"])
        assert moved.data["n"] == len(server.truth.values)
        assert moved.data["version"] > now.data["version"]
        assert moved.data["newest"] > 1000


def test_a_reconnected_client_receives_only_later_changes(server: Served) -> None:
    mine = [*server.queries, *register(server.client, {"phi": 0.5, "key": "/home"})]
    with open_events(server.client, query=mine) as events:
        event = next(events)
        last, known = event.id, {one["id"]: one for one in event.data["changes"]}
        assert list(known) == mine
    for slow in (300.0, 0.001, 20.0):
        server.truth.append(30_000, slow, keys=["/pay"])  # without a subscriber
        server.wait()
        with open_events(server.client, last, query=mine) as events:
            event = next(events)
            last, changes = event.id, {one["id"]: one for one in event.data["changes"]}
            assert mine[-1] not in changes
            assert {one["n"] for one in changes.values()} == {int((server.truth.keys == "/pay").sum())}
            server.check(changes)
            known |= changes
            now = {id: server.client.get(f"/api/queries/{id}").json()["answer"] for id in mine}
            assert {id: one["value"] for id, one in now.items()} == {id: one["value"] for id, one in known.items()}
    assert server.client.delete(f"/api/queries/{mine[-1]}").status_code == 200


def test_a_reconnected_client_without_changes_receives_nothing(server: Served) -> None:
    with open_events(server.client, query=server.queries, stream="latency") as events:
        last = events.until_id()
    with open_events(server.client, last, query=server.queries, stream="latency") as events:
        server.truth.append(10, keys=["/cart"])
        event = next(events)
        assert (event.name, event.data["n"]) == ("stream", len(server.truth.values))


@pytest.mark.parametrize("last", ["", "999.0.0", "1.999999.0", "0.5.0", "1.0.99999"])
def test_an_id_of_another_server_brings_the_state(shared: Served, last: str) -> None:
    with open_events(shared.client, last, query=shared.queries) as events:
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


def test_headers_of_an_event_stream(shared: Served) -> None:
    with open_events(shared.client, stream="latency") as events:
        head = events.response.headers
        assert head["content-type"].startswith("text/event-stream")
        assert (head["cache-control"], head["x-accel-buffering"]) == ("no-store", "no")


def test_queries_of_a_label(shared: Served) -> None:
    mine = register(shared.client, *({"phi": phi, "label": "page"} for phi in PHIS))
    register(shared.client, {"phi": 0.5, "label": "other"})
    with open_events(shared.client, label=["page", "page"], query=mine[:2]) as events:
        changes = events.changes(4)
        assert sorted(changes) == mine
        for id, phi in zip(mine, PHIS, strict=True):
            shared.truth.check(changes[id], phi, 0.02)


def test_a_dropped_query_is_published_and_others_continue(server: Served) -> None:
    mine = register(server.client, *({"phi": phi, "key": "/home"} for phi in PHIS))
    with open_events(server.client, query=mine) as events:
        last = events.until_id()
        server.client.post("/api/queries/drop", json=mine[1:3]).raise_for_status()
        assert events.changes(2) == {id: {"id": id, "state": "dropped", "value": None} for id in mine[1:3]}
        server.truth.append(5000, 70.0, keys=["/home"])
        changes = events.changes(1)
        assert set(changes) <= {mine[0], mine[3]}
    with open_events(server.client, last, query=mine) as events:
        changes = events.changes(3)
        assert [changes[id]["state"] for id in mine[1:3]] == ["dropped"] * 2
    assert server.client.get("/api/events", params={"query": mine}).status_code == 404


def test_a_window_that_empties_and_fills_is_published(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        [mine] = register(server.client, {"phi": 0.5, "key": "/home", "window": "within:30s"})
        with open_events(server.client, query=mine) as events:
            assert events.changes(1)[mine]["state"] == "value"
            server.truth.append(100, keys=["/pay"], start=100.0)
            assert events.changes(1)[mine] == {"id": mine, "state": "empty", "value": None}
            server.truth.append(100, keys=["/home"], start=110.0)
            changes = events.changes(1)[mine]
            assert changes["n"] == 100
            check_value(changes, server.truth.values[-100:], 0.5, 0.01)


def test_a_store_created_later_is_published(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with run_server(config) as client, open_events(client, stream="latency") as events:
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
        with run_server(config) as client:
            queries = register(client, *({"phi": phi} for phi in PHIS))
            page = stack.enter_context(httpx.Client(base_url=client.base_url, timeout=10))
            cut = stack.enter_context(open_events(page, query=queries))
            first = cut.changes(4)
            truth.append(3000, 9.0)
            last = cut.until_id()
        assert all(event.name == "queries" for event in cut)  # it ends
        truth.append(3000, 81.0)  # while there is no server
        with run_server(config) as client, open_events(client, last, query=queries) as events:
            changes = events.changes(4)
            assert list(changes) == queries
            truth.append(9000, 729.0)
            again = events.changes(1)
            for result in (first, changes, again):
                for id, one in result.items():
                    truth.check(one, PHIS[queries.index(id)], 0.02)
            assert {one["n"] for one in changes.values()} == {6500}
            assert {one["n"] for one in again.values()} == {15500}


def test_a_server_that_stops_ends_its_event_streams(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        app = make_app(config)
        with run_server(config, app) as client, open_events(client, stream="latency") as events:
            next(events)
            app.state.service.hub.close()
            assert list(events) == []
            assert client.get("/api/events?stream=latency").json()["error"]["code"] == "not_ready"


def test_the_number_of_event_streams_is_limited(tmp_path: Path) -> None:
    with served(tmp_path, LIMITS) as server:
        hub = server.service.hub
        with open_events(server.client, stream="latency"), open_events(server.client, stream="latency"):
            with open_events(server.client, stream="latency") as third:
                next(third)
                response = server.client.get("/api/events?stream=latency")
                assert (response.status_code, response.json()["error"]["code"]) == (429, "limit")
            wait_until(lambda: len(hub) == 2)
            with open_events(server.client, query=server.queries) as events:
                server.check(events.changes(4))


def test_silence_is_broken_now_and_then(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.02)
    with open_events(shared.client, stream="latency") as events:
        next(events)
        assert events.lines(3) == [":", ":", ":"]


def test_many_queries_make_several_events_and_only_the_last_has_an_id(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BATCH", 100)
    phis = np.random.default_rng(8).uniform(0.01, 1, 950)
    mine = register(shared.client, *({"phi": phi, "label": "many"} for phi in phis.tolist()))
    with open_events(shared.client, label="many") as events:
        state = [next(events) for _ in range(10)]
        assert [len(event.data["changes"]) for event in state] == [100] * 9 + [50]
        assert [event.id is None for event in state] == [True] * 9 + [False]
        results = [one for event in state for one in event.data["changes"]]
        assert [one["id"] for one in results] == mine
        for one, phi in zip(results, phis, strict=True):
            shared.truth.check(one, phi, 0.02)
    shared.client.delete("/api/queries", params={"label": "many"}).raise_for_status()


def connect(server: Served, path: str) -> socket.socket:
    """Open a client that has sent its request and reads nothing yet."""
    url = server.client.base_url
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((url.host, url.port))
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
    return raw


def test_a_client_that_never_reads_is_aborted_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT", 0.3)
    with served(tmp_path) as server:
        hub = server.service.hub
        for _ in range(3):
            phis = np.random.default_rng(4).uniform(0.01, 1, 20_000).tolist()
            register(server.client, *({"phi": phi, "label": "much"} for phi in phis))
        with open_events(server.client, query=server.queries) as events:
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


def test_clients_that_vanish_leave_no_subscription(shared: Served) -> None:
    hub, standing = shared.service.hub, shared.service.queries
    query = shared.queries[0]
    for abrupt in (False, True):
        raws = [connect(shared, f"/api/events?query={query}&stream=latency") for _ in range(5)]
        wait_until(lambda: len(hub) == 5)
        for raw in raws:
            if abrupt:  # a reset, as of a machine that was switched off and on
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            raw.close()
        wait_until(lambda: len(hub) == 0)
        assert count_subscribed(standing) == 0


def test_a_slow_client_receives_the_newest_state_only(server: Served) -> None:
    """A connection stores a position only: however many commits there were, each query has one change."""
    with open_events(server.client, query=server.queries) as events:
        last = events.until_id()
        for slow in (2.0, 4.0, 8.0, 16.0):
            server.truth.append(20_000, slow, keys=["/pay"])
            events.changes(1)
        server.wait()
    with open_events(server.client, last, query=server.queries) as events:
        event = next(events)
        ids = [one["id"] for one in event.data["changes"]]
        assert len(ids) == len(set(ids))
        assert event.id is not None
        server.check({one["id"]: one for one in event.data["changes"]})


def test_alarm_events_are_the_state_then_every_transition(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        body = {"stream": "latency", "phi": 0.5, "key": "/pay", "above": 1000.0, "window": "last:500"}
        mine, other = (
            server.client.post("/api/alarms", json={**body, "above": limit}).json()["id"] for limit in (1e3, 1e9)
        )
        with open_events(server.client, alarm=mine) as events:
            state = next(events)
            assert (state.name, state.data["alarm"], state.data["firing"]) == ("alarm", mine, False)
            for slow, firing in ((1e5, True), (1.0, False), (1e5, True)):
                server.truth.append(5000, slow, keys=["/pay"])
                assert next(event for event in events if event.data["firing"] == firing).data["alarm"] == mine
        whole = server.service.alarms.transitions(0)
        with open_events(server.client, "1.0.0", alarms="all") as events:
            changes = [next(events) for _ in whole]
            assert [event.data["number"] for event in changes] == [one["number"] for one in whole]
            assert changes[-1].id is not None
            assert changes[-1].id.endswith(f".{whole[-1]['number']}")
        with open_events(server.client, alarms="all") as events:
            assert {next(events).data["alarm"] for _ in range(2)} == {mine, other}
        assert server.client.get("/api/events?alarm=999").json()["error"]["code"] == "unknown_alarm"


def test_a_token_that_is_revoked_ends_its_event_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.05)
    monkeypatch.setattr(security, "ACCESS_CHECK", 0.2)
    config = configure(tmp_path)
    registry = ServerRegistry(config.server.state)
    (_, valid_token), (id, revoked_token) = (create_token(registry, name, "reader") for name in ("valid", "revoked"))
    with make_store(tmp_path) as history:
        Truth(history).append(100)
        with run_server(config) as client:
            mine, theirs = ({"authorization": f"Bearer {token}"} for token in (valid_token, revoked_token))
            chosen = "/api/events?stream=latency"
            with client.stream("GET", chosen, headers=mine) as one, client.stream("GET", chosen, headers=theirs) as two:
                open_client, revoked_client = EventClient(one), EventClient(two)
                assert next(open_client).data == next(revoked_client).data
                revoke_token(registry, id)
                assert list(revoked_client) == []
                assert open_client.lines(3) == [":", ":", ":"]
            assert client.get(chosen, headers=theirs).status_code == 401
    registry.close()


def count_subscribed(queries: ContinuousQueries) -> int:
    """Return the number of windows with a subscriber."""
    return sum(window["listened"] for window in queries.monitors(None))


def all_of(kind: type[T]) -> list[T]:
    return [one for one in gc.get_objects() if isinstance(one, kind)]


def test_clients_that_never_read_use_little_memory(tmp_path: Path) -> None:
    """Changes of 20,000 queries are pending for each of 50 clients; a few events are buffered for each."""
    with served(tmp_path) as server:
        phis = np.random.default_rng(4).uniform(0.01, 1, 20_000).tolist()
        register(server.client, *({"phi": phi, "label": "much"} for phi in phis))
        hub, standing = server.service.hub, server.service.queries
        raws = [connect(server, "/api/events?label=much") for _ in range(50)]
        wait_until(lambda: len(hub) == 50 and count_subscribed(standing) > 0)
        for slow in (40.0, 1600.0):
            server.truth.append(5000, slow)
            response = server.client.get("/api/streams/latency/quantiles", params={"phi": 0.5, "window": "last:1000"})
            assert response.status_code == 200, "questions are answered beside them"

        def unread() -> list[int]:
            lines = [line for line in all_of(HttpProtocol) if not line.transport.is_closing()]
            return [line.transport.get_write_buffer_size() for line in lines]

        wait_until(lambda: sum(size > 0 for size in unread()) >= 50)
        assert max(unread()) <= 4 * WRITE_BUFFER
        streams = [stream for stream in all_of(event_stream.EventStream) if stream._service is server.service]
        assert (len(streams), len({id(stream._queries) for stream in streams})) == (50, 1), "one label, one set"
        for raw in raws:
            raw.close()
        wait_until(lambda: len(hub) == 0 and count_subscribed(standing) == 0)


def test_buffers_of_a_client_that_has_left_are_not_set() -> None:
    """uvloop's closed transport raises RuntimeError, and the log had a traceback of every such client."""
    uvloop = pytest.importorskip("uvloop")

    async def leave() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            transport.abort()
            await asyncio.sleep(0.01)
            with pytest.raises(RuntimeError):
                transport.set_write_buffer_limits(high=WRITE_BUFFER)
            protocol = HttpProtocol.__new__(HttpProtocol)
            protocol.transport = transport
            protocol._bound_buffers()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(leave())
