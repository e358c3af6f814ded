"""HTTP server: queries, continuous queries, event streams and alarms over any number of streams."""

from quantide.errors import MissingPackageError

try:
    import fastapi as _fastapi  # noqa: F401
except ImportError as error:
    raise MissingPackageError.of("quantide.server", "fastapi", "server") from error
