"""Client: the server's API as Python methods."""

from collections.abc import Iterable
from typing import Any

from quantide.client.alarm_methods import AlarmMethods
from quantide.client.event_reader import Events
from quantide.client.query_methods import QueryMethods
from quantide.client.read_methods import ReadMethods
from quantide.client.request_parameters import check_ids, check_stream_name
from quantide.client.response_parsing import parse_event
from quantide.errors import InvalidArgumentError

MAX_IDS = 1_000  # in one URL


class Client(ReadMethods, QueryMethods, AlarmMethods):
    """Client of a server: the queries of LiveStream, continuous queries, alarms and events.

    Parameters: `address`, such as "http://127.0.0.1:8642"; `token`, sent in a header only, and over plain http to this
    machine only; `timeout`, the seconds that the server may stay silent; `ca`, a file of certificates (PEM) to trust
    instead of the usual ones, for servers with a certificate of their own.

    An error response is raised as the error that the library itself would raise: UnknownKeyError for a key without
    values. A server that cannot be reached, or whose response is not understood, is a ServerError.

    A read is retried once when the connection breaks; a change, such as register(), is never sent twice.
    Threads may share a client. Only one thread at a time may use an iterator of events.

    Guide: docs/client.md.
    """

    def events(
        self,
        queries: int | Iterable[int] = (),
        label: str | Iterable[str] = (),
        streams: str | Iterable[str] = (),
        alarms: bool | int | Iterable[int] = False,
        patience: float | None = None,
        after: str = "",
    ) -> Events:
        """Subscribe to queries (by id, or by their current label), streams (each new version) and alarms (some, or all
        with True); return an iterator of Event.

        It starts with the current values of the queries, then yields changes. It reconnects automatically; `patience`
        is how many seconds the server may be away before a ServerError is raised. `after` is the id of an event that
        was received before: only later changes are sent.
        """
        subscription: dict[str, Any] = {"query": check_ids(queries), "label": _as_list(label)}
        subscription["stream"] = [check_stream_name(name) for name in _as_list(streams)]
        if alarms is True:
            subscription["alarms"] = "all"
        elif alarms is not False:
            subscription["alarm"] = check_ids(alarms)
        if not any(subscription.values()):
            raise InvalidArgumentError("there is nothing to subscribe to; give queries=, label=, streams= or alarms=")
        if max(len(subscription["query"]), len(subscription.get("alarm", ()))) > MAX_IDS:
            raise InvalidArgumentError(
                f"more than {MAX_IDS:,} ids; register queries with a label=, and subscribe to that"
            )
        return Events(self, subscription, parse_event, patience, after)


def _as_list(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
