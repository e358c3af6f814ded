"""Parser of server-sent events: the examples of the standard, every split of the bytes, hostile bytes."""

import numpy as np
import pytest

from quantide.client import event_reader
from quantide.client.event_reader import EventParser, Message
from quantide.errors import ServerError


def parse(*chunks: bytes) -> list[Message]:
    parser = EventParser()
    return [message for chunk in chunks for message in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Message("message", "YHOO\n+2\n10", "")]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
         [Message("message", "first event", "1"), Message("message", "second event", ""),
          Message("message", " third event", "")]),
        (b"data\n\ndata\ndata\n\ndata:", [Message("message", "", ""), Message("message", "\n", "")]),
        (b"data:test\n\ndata: test\n\n", [Message("message", "test", "")] * 2),
        (b"event: add\ndata: 1\n\ndata: 2\n\n", [Message("add", "1", ""), Message("message", "2", "")]),
        (b"event: add\n\ndata: 2\n\n", [Message("message", "2", "")]),
        (b"id: 7\n\ndata: x\n\n", [Message("message", "x", "7")]),
        (b"id: 7\nid: 8\0\ndata: x\n\n", [Message("message", "x", "7")]),
        (b"dat: x\nDATA: y\n data: z\ndata: ok\n\n", [Message("message", "ok", "")]),
        (b"data: not\xff utf-8 \xe2\x82\xac\n\n", [Message("message", "not� utf-8 €", "")]),
        (b"data: a:b: c\n\n", [Message("message", "a:b: c", "")]),
        (b"data: cut in the middle\n", []),
        (b"", []),
        (b"\n\n\r\n\r\r", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", event_reader.BYTE_ORDER_MARK])
def test_messages_however_they_are_split(sent: bytes, expected: list[Message], end: bytes, mark: bytes) -> None:
    whole = mark + sent.replace(b"\n", end)
    assert parse(whole) == expected
    assert parse(*(whole[at : at + 1] for at in range(len(whole)))) == expected
    for at in range(len(whole)):
        assert parse(whole[:at], b"", whole[at:]) == expected


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    assert parse(event_reader.BYTE_ORDER_MARK + event_reader.BYTE_ORDER_MARK + b"data: x\n\n", b"data: y\n\n") == [
        Message("message", "y", "")
    ]


def test_the_id_advances_with_complete_messages_only() -> None:
    parser = EventParser("5")
    assert list(parser.feed(b"id: 6\ndata: x\n")) == []
    assert parser.last_id == "5"
    assert list(parser.feed(b"\nid: 7\n")) == [Message("message", "x", "6")]
    assert parser.last_id == "6"


@pytest.mark.parametrize(("field", "seconds"), [(b"1500", 1.5), (b"-1", None), (b"1e3", None), (b"", None)])
def test_the_pause_that_the_server_requests(field: bytes, seconds: float | None) -> None:
    parser = EventParser()
    assert list(parser.feed(b"retry: " + field + b"\n\n")) == []
    assert parser.retry == seconds


def test_an_endless_event_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reader, "MAX_MESSAGE_BYTES", 1000)
    parser = EventParser()
    for _ in range(100):  # many small ones are not one large one
        assert len(list(parser.feed(b"data: " + b"x" * 500 + b"\n\n"))) == 1
    assert list(parser.feed(b"x" * 1000)) == []
    with pytest.raises(ServerError, match="1,000 bytes"):
        list(parser.feed(b"x"))


def test_garbage_does_not_harm(rng: np.random.Generator) -> None:
    letters = np.frombuffer(b"\r\n: \0dataeventidretry\xef\xbb\xbf\xff", dtype=np.uint8)
    for _ in range(200):
        garbage = rng.choice(letters, 200).tobytes()
        assert parse(garbage) == parse(*(garbage[at : at + 7] for at in range(0, 200, 7)))
