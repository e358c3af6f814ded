"""The iterator of events against a server that breaks off, says nothing, or says nonsense."""

import gc
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from quantide.client import Client, Event, Events, events
from quantide.errors import InvalidArgumentError, ServerError, TokenError, UnknownQueryError
from tests.client.raw import EVENTS, HOLD, raw, response


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(events, "LONGEST_PAUSE", 0.01)


def message(number: int, kind: str = "news") -> bytes:
    return b'id: 1.%d.0\r\nevent: %b\r\ndata: {"number":\r\ndata: %d}\r\n\r\n' % (number, kind.encode(), number)


def numbers(found: Iterator[Event], count: int) -> list[int]:
    return [next(found).data["number"] for _ in range(count)]


def refusal(code: str, status: str) -> bytes:
    return response(b'{"error": {"code": "%b", "message": "told so"}}' % code.encode(), status=status)


def test_events_as_they_come() -> None:
    script = [EVENTS, b"retry: 1\n: hello\n\n", message(1)[:20], message(1)[20:], b":\n\n", message(2), HOLD]
    with raw(script) as server, Client(server.address) as client, client.events(queries=[7], label="a b") as found:
        assert next(found) == Event("news", "1.1.0", {"number": 1})
        assert numbers(found, 1) == [2]
        head = server.requests[0].decode()
        assert head.startswith("GET /api/events?query=7&label=a+b HTTP/1.1\r\n")
        assert "last-event-id" not in head.lower()


def test_it_goes_on_after_the_last_whole_event() -> None:
    scripts: list[list[bytes | None]] = [
        [EVENTS, message(1), message(2)[:-2]],  # cut in the middle of an event
        [b""],
        [refusal("not_ready", "503 Service Unavailable")],
        [response(b"<html>", "text/html", "502 Bad Gateway")],
        [EVENTS, message(2), message(3)],
        [EVENTS, message(4), HOLD],
    ]
    with raw(*scripts) as server, Client(server.address) as client, client.events(streams="latency") as found:
        assert numbers(found, 4) == [1, 2, 3, 4]
        told = [head.decode().lower().partition("last-event-id: ")[2].partition("\r\n")[0] for head in server.requests]
        assert told == ["", "1.1.0", "1.1.0", "1.1.0", "1.1.0", "1.3.0"]


def test_it_goes_on_after_an_event_of_another_day() -> None:
    with raw([EVENTS, HOLD]) as server, Client(server.address) as client:
        client.events(alarms=True, after="3.2.1").close()
        head = server.requests[0].decode().lower()
        assert "last-event-id: 3.2.1\r\n" in head
        assert head.startswith("get /api/events?alarms=all ")


def test_an_id_that_no_header_can_have_is_not_sent() -> None:
    bad = "id: ü\ndata: {}\n\n".encode()
    with raw([EVENTS, bad], [EVENTS, message(1), HOLD]) as server, Client(server.address) as client:
        found = client.events(alarms=[1, 2])
        assert next(found).id == "ü"
        assert numbers(found, 1) == [1]
        assert "last-event-id" not in server.requests[1].decode().lower()
        found.close()


def test_a_silent_server_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SILENCE", 0.05)
    scripts = [[EVENTS, message(1), HOLD], [EVENTS, message(2), HOLD]]
    with raw(*scripts) as server, Client(server.address) as client, client.events(queries=1) as found:
        assert numbers(found, 2) == [1, 2]


def test_a_loop_that_ends_closes_the_connection() -> None:
    with raw([EVENTS, message(1), HOLD]) as server, Client(server.address) as client:
        gc.disable()  # nothing but the end of the loop may do it
        try:
            for _ in client.events(queries=1):
                break
            assert server.left.wait(10)
        finally:
            gc.enable()


@pytest.mark.parametrize("script", [[EVENTS, HOLD], [EVENTS]], ids=["listening", "connecting"])
def test_another_thread_may_close(script: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if script == [EVENTS]:
        monkeypatch.setattr(events, "FIRST_PAUSE", 60.0)
        monkeypatch.setattr(events, "LONGEST_PAUSE", 60.0)
    with raw(script) as server, Client(server.address) as client:
        heard: list[Event] = []
        found = client.events(queries=1)
        listener = threading.Thread(target=lambda: heard.extend(found))
        listener.start()
        while not found._listening:
            time.sleep(0.001)
        found.close()
        listener.join(20)
        assert (listener.is_alive(), heard) == (False, [])
        assert list(found) == []


def test_patience_comes_to_an_end() -> None:
    with raw([EVENTS, message(1)], [b""]) as server, Client(server.address) as client:
        found = client.events(queries=1, patience=0.05)
        assert numbers(found, 1) == [1]
        with pytest.raises(ServerError, match="has been away for"):
            next(found)
        assert list(found) == []


def test_pauses_get_longer_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE", 0.25)
    monkeypatch.setattr(events, "LONGEST_PAUSE", 30.0)
    with raw([EVENTS, HOLD]) as server, Client(server.address) as client, client.events(queries=1) as found:
        pauses = [found._pause(ServerError("gone")) for _ in range(100)]
    assert pauses[0] <= 0.25
    assert all(longer > shorter for shorter, longer in pairwise(pauses[:8:2]))
    assert 15 <= min(pauses[8:]) <= max(pauses) <= 30


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [("token", "401 Unauthorized", TokenError), ("unknown_query", "404 Not Found", UnknownQueryError)],
)
def test_what_does_not_pass_is_raised_at_once(code: str, status: str, kind: type[Exception]) -> None:
    with raw([EVENTS, message(1)], [refusal(code, status)]) as server, Client(server.address) as client:
        found = client.events(queries=1)
        assert numbers(found, 1) == [1]
        with pytest.raises(kind, match="told so"):
            next(found)
        assert len(server.requests) == 2
        with pytest.raises(kind, match="told so"):
            client.events(queries=1)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([response(b"{}")], "not events"),
        ([response(b"<html>", "text/html")], "not events"),
        ([b""], "broke"),
        ([b"garbage\r\n\r\n"], "broke|cannot be asked"),
        ([refusal("internal", "500 Oh")], "told so"),
    ],
)
def test_the_first_connection_must_work(script: list[bytes], says: str) -> None:
    with raw(script) as server, Client(server.address) as client, pytest.raises(ServerError, match=says):
        client.events(queries=1)


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: nonsense\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_events_that_are_no_json(data: bytes) -> None:
    with raw([EVENTS, data, HOLD]) as server, Client(server.address) as client:
        found = client.events(queries=1)
        with pytest.raises(ServerError, match="not understood"):
            next(found)
        assert list(found) == []
        assert server.left.wait(10)


def test_a_client_that_is_closed_ends_its_events() -> None:
    with raw([EVENTS, message(1)]) as server:
        client = Client(server.address)
        found = client.events(queries=1)
        assert numbers(found, 1) == [1]
        client.close()
        with pytest.raises(InvalidArgumentError, match="closed"):
            next(found)


@pytest.mark.parametrize(
    "chosen",
    [{}, {"queries": []}, {"queries": [0]}, {"queries": "7"}, {"queries": True}, {"queries": range(1, 1002)},
     {"alarms": [1.5]}, {"queries": 1, "patience": 0}, {"streams": "a/b"}],
)  # fmt: skip
def test_choices_that_are_none(chosen: dict[str, Any]) -> None:
    with raw([EVENTS, HOLD]) as server, Client(server.address) as client:
        with pytest.raises((InvalidArgumentError, KeyError)):
            client.events(**chosen)
        assert server.requests == []


def test_events_are_an_iterator() -> None:
    assert issubclass(Events, Iterator)
