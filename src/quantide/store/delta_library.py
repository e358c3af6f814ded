"""Delta's library as far as it is used here (it comes with an extra), and three checks of checkpoints.

Parquet files have no checksum that every reader verifies, and readers differ: pyarrow accepts some flipped bits on
which Delta's reader fails. Only a load by that reader proves that a checkpoint can replace older entries. Each check
raises FileNotFoundError if the checkpoint was removed.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.errors import MissingPackageError

try:
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError, TableNotFoundError
except ImportError as error:
    raise MissingPackageError.of("a store on disk", "deltalake", "history") from error

__all__ = [
    "DeltaError",
    "DeltaTable",
    "LoadedTable",
    "Schema",
    "TableNotFoundError",
    "has_footer",
    "is_loadable",
    "is_readable",
    "load_table",
    "panics_as_errors",
]


class LoadedTable(NamedTuple):
    """Table, and the number of one of its transactions."""

    table: DeltaTable
    number: int | None


def load_table(
    path: str, version: int | None = None, options: Mapping[str, str] | None = None, app: str = ""
) -> LoadedTable:
    """Load a table and its transactions, which the library otherwise reads on first use; DeltaError if that fails."""
    with panics_as_errors():
        table = DeltaTable(path, version=version, storage_options=None if options is None else dict(options))
        return LoadedTable(table, table.transaction_version(app))


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


def has_footer(path: str) -> bool:
    """Return True if the footer of a checkpoint, which describes the rest, can be read."""
    return _can_read(path, everything=False)


def is_readable(path: str) -> bool:
    """Return True if pyarrow can read all values of a checkpoint."""
    return _can_read(path, everything=True)


def is_loadable(path: str) -> bool:
    """Return True if pyarrow can read all values, and Delta's reader can load a table from this file alone."""
    if not is_readable(path):
        return False
    with tempfile.TemporaryDirectory(prefix="quantide-checkpoint-") as folder:
        log = os.path.join(folder, "_delta_log")
        os.mkdir(log)
        os.symlink(os.path.abspath(path), os.path.join(log, os.path.basename(path)))
        try:
            load_table(folder)
            return True
        except DeltaError:
            os.stat(path)  # raises if the file was removed during the load
            return False


def _can_read(path: str, everything: bool) -> bool:
    try:
        with pq.ParquetFile(path) as file:
            if everything:
                file.read()
        return True
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        return False
