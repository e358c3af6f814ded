"""Delta's library as far as it is used here; it comes with an extra."""

from collections.abc import Iterator
from contextlib import contextmanager

from quantide.errors import MissingPackageError

try:
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError
except ImportError as error:
    raise MissingPackageError.of("a store on disk", "deltalake", "history") from error

__all__ = [
    "DeltaError",
    "DeltaTable",
    "Schema",
    "load_table",
    "panics_as_errors",
]


def load_table(path: str, version: int | None = None) -> DeltaTable:
    """Load a table of a folder and its transactions, which the library otherwise reads on first use."""
    with panics_as_errors():
        table = DeltaTable(path, version=version)
        table.transaction_version("")
        return table


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise DeltaError if the library panics, as it does on some damaged files.

    Its PanicException is not an Exception, and cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DeltaError(f"Delta's reader failed: {error}") from error
