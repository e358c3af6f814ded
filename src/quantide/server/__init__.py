"""The server: questions over HTTP, standing queries, events and alarms, for any number of clients."""

from quantide.errors import MissingPackageError

try:
    import fastapi as _fastapi  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.server", "fastapi", "server") from error
