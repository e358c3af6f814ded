"""The iterator of events against a server that disconnects, stays silent, or sends nonsense."""

import gc
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from quantide.client import Client, Event, Events, event_reader
from quantide.errors import InvalidArgumentError, ServerError, TokenError, UnknownQueryError
from tests.client.scripted_server import EVENTS, STAY_SILENT, response, scripted_server


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reader, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(event_reader, "LONGEST_PAUSE", 0.01)


def message(number: int, kind: str = "update") -> bytes:
    return b'id: 1.%d.0\r\nevent: %b\r\ndata: {"number":\r\ndata: %d}\r\n\r\n' % (number, kind.encode(), number)


def numbers(events: Iterator[Event], count: int) -> list[int]:
    return [next(events).data["number"] for _ in range(count)]


def refusal(code: str, status: str) -> bytes:
    return response(b'{"error": {"code": "%b", "message": "rejected"}}' % code.encode(), status=status)


def test_events_in_order() -> None:
    script = [EVENTS, b"retry: 1\n: hello\n\n", message(1)[:20], message(1)[20:], b":\n\n", message(2), STAY_SILENT]
    with (
        scripted_server(script) as server,
        Client(server.address) as client,
        client.events(queries=[7], label="a b") as events,
    ):
        assert next(events) == Event("update", "1.1.0", {"number": 1})
        assert numbers(events, 1) == [2]
        head = server.requests[0].decode()
        assert head.startswith("GET /api/events?query=7&label=a+b HTTP/1.1\r\n")
        assert "last-event-id" not in head.lower()


def test_a_reader_continues_after_the_last_complete_event() -> None:
    scripts: list[list[bytes | None]] = [
        [EVENTS, message(1), message(2)[:-2]],  # cut in the middle of an event
        [b""],
        [refusal("not_ready", "503 Service Unavailable")],
        [response(b"<html>", "text/html", "502 Bad Gateway")],
        [EVENTS, message(2), message(3)],
        [EVENTS, message(4), STAY_SILENT],
    ]
    with (
        scripted_server(*scripts) as server,
        Client(server.address) as client,
        client.events(streams="latency") as events,
    ):
        assert numbers(events, 4) == [1, 2, 3, 4]
        ids = [head.decode().lower().partition("last-event-id: ")[2].partition("\r\n")[0] for head in server.requests]
        assert ids == ["", "1.1.0", "1.1.0", "1.1.0", "1.1.0", "1.3.0"]


def test_a_reader_continues_after_a_given_event() -> None:
    with scripted_server([EVENTS, STAY_SILENT]) as server, Client(server.address) as client:
        client.events(alarms=True, after="3.2.1").close()
        head = server.requests[0].decode().lower()
        assert "last-event-id: 3.2.1\r\n" in head
        assert head.startswith("get /api/events?alarms=all ")


def test_an_id_that_no_header_can_have_is_not_sent() -> None:
    bad = "id: ü\ndata: {}\n\n".encode()
    with scripted_server([EVENTS, bad], [EVENTS, message(1), STAY_SILENT]) as server, Client(server.address) as client:
        events = client.events(alarms=[1, 2])
        assert next(events).id == "ü"
        assert numbers(events, 1) == [1]
        assert "last-event-id" not in server.requests[1].decode().lower()
        events.close()


def test_a_silent_server_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reader, "READ_TIMEOUT", 0.05)
    scripts = [[EVENTS, message(1), STAY_SILENT], [EVENTS, message(2), STAY_SILENT]]
    with scripted_server(*scripts) as server, Client(server.address) as client, client.events(queries=1) as events:
        assert numbers(events, 2) == [1, 2]


def test_a_loop_that_ends_closes_the_connection() -> None:
    with scripted_server([EVENTS, message(1), STAY_SILENT]) as server, Client(server.address) as client:
        gc.disable()  # nothing but the end of the loop may do it
        try:
            for _ in client.events(queries=1):
                break
            assert server.client_left.wait(10)
        finally:
            gc.enable()


@pytest.mark.parametrize("script", [[EVENTS, STAY_SILENT], [EVENTS]], ids=["reading", "connecting"])
def test_another_thread_may_close(script: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if script == [EVENTS]:
        monkeypatch.setattr(event_reader, "FIRST_PAUSE", 60.0)
        monkeypatch.setattr(event_reader, "LONGEST_PAUSE", 60.0)
    with scripted_server(script) as server, Client(server.address) as client:
        received: list[Event] = []
        events = client.events(queries=1)
        reader = threading.Thread(target=lambda: received.extend(events))
        reader.start()
        while not events._reading:
            time.sleep(0.001)
        events.close()
        reader.join(20)
        assert (reader.is_alive(), received) == (False, [])
        assert list(events) == []


def test_patience_runs_out() -> None:
    with scripted_server([EVENTS, message(1)], [b""]) as server, Client(server.address) as client:
        events = client.events(queries=1, patience=0.05)
        assert numbers(events, 1) == [1]
        with pytest.raises(ServerError, match="has been away for"):
            next(events)
        assert list(events) == []


def test_pauses_get_longer_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reader, "FIRST_PAUSE", 0.25)
    monkeypatch.setattr(event_reader, "LONGEST_PAUSE", 30.0)
    with (
        scripted_server([EVENTS, STAY_SILENT]) as server,
        Client(server.address) as client,
        client.events(queries=1) as events,
    ):
        pauses = [events._choose_pause(ServerError("away")) for _ in range(100)]
    assert pauses[0] <= 0.25
    assert all(longer > shorter for shorter, longer in pairwise(pauses[:8:2]))
    assert 15 <= min(pauses[8:]) <= max(pauses) <= 30


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [("token", "401 Unauthorized", TokenError), ("unknown_query", "404 Not Found", UnknownQueryError)],
)
def test_permanent_errors_are_raised_at_once(code: str, status: str, kind: type[Exception]) -> None:
    with scripted_server([EVENTS, message(1)], [refusal(code, status)]) as server, Client(server.address) as client:
        events = client.events(queries=1)
        assert numbers(events, 1) == [1]
        with pytest.raises(kind, match="rejected"):
            next(events)
        assert len(server.requests) == 2
        with pytest.raises(kind, match="rejected"):
            client.events(queries=1)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ([response(b"{}")], "not events"),
        ([response(b"<html>", "text/html")], "not events"),
        ([b""], "broke"),
        ([b"garbage\r\n\r\n"], "broke|request to .* failed"),
        ([refusal("internal", "500 Oh")], "rejected"),
    ],
)
def test_the_first_connection_must_work(script: list[bytes], message: str) -> None:
    with scripted_server(script) as server, Client(server.address) as client, pytest.raises(ServerError, match=message):
        client.events(queries=1)


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: nonsense\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_events_that_are_not_json(data: bytes) -> None:
    with scripted_server([EVENTS, data, STAY_SILENT]) as server, Client(server.address) as client:
        events = client.events(queries=1)
        with pytest.raises(ServerError, match="not understood"):
            next(events)
        assert list(events) == []
        assert server.client_left.wait(10)


def test_a_client_that_is_closed_ends_its_events() -> None:
    with scripted_server([EVENTS, message(1)]) as server:
        client = Client(server.address)
        events = client.events(queries=1)
        assert numbers(events, 1) == [1]
        client.close()
        with pytest.raises(InvalidArgumentError, match="closed"):
            next(events)


@pytest.mark.parametrize(
    "subscription",
    [{}, {"queries": []}, {"queries": [0]}, {"queries": "7"}, {"queries": True}, {"queries": range(1, 1002)},
     {"alarms": [1.5]}, {"queries": 1, "patience": 0}, {"streams": "a/b"}],
)  # fmt: skip
def test_invalid_subscriptions(subscription: dict[str, Any]) -> None:
    with scripted_server([EVENTS, STAY_SILENT]) as server, Client(server.address) as client:
        with pytest.raises((InvalidArgumentError, KeyError)):
            client.events(**subscription)
        assert server.requests == []


def test_events_are_an_iterator() -> None:
    assert issubclass(Events, Iterator)
