"""Client of the server: the queries of a live reader over HTTP, continuous queries, alarms and events."""

from quantide.errors import MissingPackageError

try:
    import httpx as _httpx  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.client", "httpx", "client") from error

from quantide.client.buffered_pusher import BufferedPusher, PushHandler
from quantide.client.client import Client
from quantide.client.event_reader import Event, Events
from quantide.client.push_methods import PushReceipt
from quantide.client.response_parsing import CurvePoint, QQPoint, QueryState, RemoteAnswer

__all__ = [
    "BufferedPusher",
    "Client",
    "CurvePoint",
    "Event",
    "Events",
    "PushHandler",
    "PushReceipt",
    "QQPoint",
    "QueryState",
    "RemoteAnswer",
]
