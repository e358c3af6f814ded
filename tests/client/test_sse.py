"""The parser of server-sent events: the standard's own examples, every way to cut bytes, hostile bytes."""

import numpy as np
import pytest

from quantide.client import sse
from quantide.client.sse import Message, Parser
from quantide.errors import ServerError


def parsed(*chunks: bytes) -> list[Message]:
    parser = Parser()
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
@pytest.mark.parametrize("mark", [b"", sse.BOM])
def test_messages_however_they_are_cut(sent: bytes, expected: list[Message], end: bytes, mark: bytes) -> None:
    whole = mark + sent.replace(b"\n", end)
    assert parsed(whole) == expected
    assert parsed(*(whole[at : at + 1] for at in range(len(whole)))) == expected
    for at in range(len(whole)):
        assert parsed(whole[:at], b"", whole[at:]) == expected


def test_a_mark_counts_at_the_beginning_only() -> None:
    assert parsed(sse.BOM + sse.BOM + b"data: x\n\n", b"data: y\n\n") == [Message("message", "y", "")]


def test_the_id_moves_on_with_whole_messages_only() -> None:
    parser = Parser("5")
    assert list(parser.feed(b"id: 6\ndata: x\n")) == []
    assert parser.last_id == "5"
    assert list(parser.feed(b"\nid: 7\n")) == [Message("message", "x", "6")]
    assert parser.last_id == "6"


@pytest.mark.parametrize(("said", "seconds"), [(b"1500", 1.5), (b"-1", None), (b"1e3", None), (b"", None)])
def test_the_pause_that_is_asked_for(said: bytes, seconds: float | None) -> None:
    parser = Parser()
    assert list(parser.feed(b"retry: " + said + b"\n\n")) == []
    assert parser.retry == seconds


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LARGEST", 1000)
    parser = Parser()
    for _ in range(100):  # many small ones are not one large one
        assert len(list(parser.feed(b"data: " + b"x" * 500 + b"\n\n"))) == 1
    assert list(parser.feed(b"x" * 1000)) == []
    with pytest.raises(ServerError, match="1,000 bytes"):
        list(parser.feed(b"x"))


def test_garbage_does_not_harm(rng: np.random.Generator) -> None:
    letters = np.frombuffer(b"\r\n: \0dataeventidretry\xef\xbb\xbf\xff", dtype=np.uint8)
    for _ in range(200):
        garbage = rng.choice(letters, 200).tobytes()
        assert parsed(garbage) == parsed(*(garbage[at : at + 7] for at in range(0, 200, 7)))
