"""A listener: what a client of the event stream chose, up to where it was told, and what is new since."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import orjson

from quantide.errors import InvalidArgumentError
from quantide.server import told
from quantide.server.columns import Flags, Ints, QuerySet
from quantide.server.service import Service

TOGETHER = 50  # queries in one event, about 8 KB: a client that does not read holds a few of these
EVENT = b"event: %b\ndata: %b\n\n"
CHANGES = b'{"changes":[%b]}'
LAST = b"event: %b\nid: %b\ndata: %b\n\n"

Event = tuple[bytes, bytes]


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a client listens to; `alarms` None: all of them."""

    queries: QuerySet
    streams: list[str]
    alarms: set[int] | None


@dataclass(frozen=True)
class Told:
    """Up to where a client was told; as text the id of an event. `change` counts within one run of the server."""

    run: int
    change: int
    transition: int

    @classmethod
    def read(cls, text: str | None, service: Service) -> Self | None:
        """None: nothing was told yet, or by a server that remembers other things than this one."""
        if not text:
            return None
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
            raise InvalidArgumentError(f"Last-Event-ID is {text[:80]!r}; it is the id of an event, or is left out")
        run, change, transition = map(int, parts)
        if (
            run > service.run
            or transition > service.alarms.last
            or (run == service.run and change > service.standing.change)
        ):
            return None
        return cls(service.run, change if run == service.run else 0, transition)

    def __bytes__(self) -> bytes:
        return b"%d.%d.%d" % (self.run, self.change, self.transition)


class Listener:
    """Finds what a client was not told yet. It holds no news: however slow the client, it is told the newest.

    `told` is None while nothing was told: then all that was chosen is told as it is.
    """

    def __init__(self, service: Service, chosen: Chosen, told: Told | None) -> None:
        self._service, self._chosen, self._told = service, chosen, told
        self._known: Flags | None = None  # the queries that were there when news were made last

    async def news(self) -> Iterator[bytes]:
        """Events, made as they are taken. The last has the id up to which the client was told when it has that: one
        who is lost before is told all of them again."""
        before, upto, last = self._told, self._service.standing.change, self._service.alarms.last
        alarms = await self._alarms(last)
        self._told = Told(self._service.run, upto, max([last, *(one.get("number", 0) for one in alarms)]))
        since = before.change if before is not None else 0
        events = chain(
            self._queries(since, upto),
            self._waiting() if before is None else (),
            self._moves(since, upto),
            ((b"alarm", orjson.dumps(one)) for one in alarms),
        )
        return _numbered(events, self._told)

    async def _alarms(self, last: int) -> list[dict[str, Any]]:
        """How alarms stand, for one who was told nothing yet; else every transition since, none is skipped."""
        alarms, ids = self._service.alarms, self._chosen.alarms
        if ids == set() or (self._told is not None and self._told.transition >= last):
            return []
        if self._told is None:
            return await asyncio.to_thread(alarms.states, ids)
        return await asyncio.to_thread(alarms.transitions, self._told.transition, ids)

    def _queries(self, since: int, upto: int) -> Iterator[Event]:
        """Changes of the chosen queries. They are searched piece by piece, as the client takes events, so that one who
        does not read holds little."""
        columns, texts = self._service.standing.columns, list[bytes]()
        places, known = self._chosen.queries.places(columns)
        gone = self._dropped(known)
        self._known = known
        for start in range(0, len(gone), TOGETHER):
            yield b"queries", CHANGES % b",".join(told.dropped(gone[start : start + TOGETHER]))
        for start in range(0, len(places), TOGETHER):
            piece = places[start : start + TOGETHER]
            changes = columns.change[piece]
            texts += columns.text[piece[(changes > since) & (changes <= upto)]].tolist()
            if len(texts) >= TOGETHER:
                yield b"queries", CHANGES % b",".join(texts)
                texts = []
        if texts:
            yield b"queries", CHANGES % b",".join(texts)

    def _dropped(self, known: Flags) -> Ints:
        """Ids of queries that are gone, and were there before."""
        if known is self._known:
            return self._chosen.queries.ids[:0]
        gone = ~known if self._known is None else self._known & ~known
        return self._chosen.queries.ids[gone]

    def _moves(self, since: int, upto: int) -> Iterator[Event]:
        for name in self._chosen.streams:
            change, text = self._service.standing.moves.get(name, (0, b""))
            if since < change <= upto:
                yield b"stream", text

    def _waiting(self) -> Iterator[Event]:
        """Streams that cannot be read yet."""
        waiting = self._service.streams.waiting
        for name in self._chosen.streams:
            if name in waiting:
                yield b"stream", told.stream(name, ready=False, why=waiting[name])


def _numbered(events: Iterator[Event], told: Told) -> Iterator[bytes]:
    held: Event | None = None
    for event in events:
        if held is not None:
            yield EVENT % held
        held = event
    if held is not None:
        yield LAST % (held[0], bytes(told), held[1])
