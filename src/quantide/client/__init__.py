"""A client of the server: the questions of a live reader over HTTP, standing queries, alarms and events."""

from quantide.errors import MissingPackageError

try:
    import httpx as _httpx  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.client", "httpx", "client") from error

from quantide.client.answer import CurvePoint, QQPoint, RemoteAnswer
from quantide.client.client import Client
from quantide.client.events import Event, Events
from quantide.client.told import QueryState

__all__ = ["Client", "CurvePoint", "Event", "Events", "QQPoint", "QueryState", "RemoteAnswer"]
