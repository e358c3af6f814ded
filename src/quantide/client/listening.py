"""Listening: events of chosen queries, streams and alarms."""

from collections.abc import Iterable
from typing import Any

from quantide.client.connection import Connection
from quantide.client.events import Events
from quantide.client.ids import ids_of
from quantide.client.told import read_event
from quantide.client.words import stream_name
from quantide.errors import InvalidArgumentError

MOST = 1_000  # ids in one address


class Listening(Connection):
    """What a server tells by itself."""

    def events(
        self,
        queries: int | Iterable[int] = (),
        label: str | Iterable[str] = (),
        streams: str | Iterable[str] = (),
        alarms: bool | int | Iterable[int] = False,
        patience: float | None = None,
        after: str = "",
    ) -> Events:
        """Changes of queries (by their ids, or by the label they have now), of streams (whenever one has moved on) and
        of alarms (some, or all with True), as they happen: an iterator of Event.

        First come the values that queries have, then what changes. It connects again by itself; `patience` is how many
        seconds the server may be away before a ServerError is raised. `after` is the id of an event that was received
        before: only what changed since is told.
        """
        chosen: dict[str, Any] = {"query": ids_of(queries), "label": _texts(label)}
        chosen["stream"] = [stream_name(name) for name in _texts(streams)]
        if alarms is True:
            chosen["alarms"] = "all"
        elif alarms is not False:
            chosen["alarm"] = ids_of(alarms)
        if not any(chosen.values()):
            raise InvalidArgumentError("nothing is listened to; choose by queries=, label=, streams= or alarms=")
        if max(len(chosen["query"]), len(chosen.get("alarm", ()))) > MOST:
            raise InvalidArgumentError(f"more than {MOST:,} ids; register queries with a label=, and listen to that")
        return Events(self, chosen, read_event, patience, after)


def _texts(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
