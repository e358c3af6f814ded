"""Local copies: objects of a source that only Spark can read, in a temporary folder while a batch is planned.

Spark has no client of object stores without further jars. Tasks read Parquet themselves, so this is for JSON, CSV and
other formats, and for SQL expressions that only Spark can compute.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from quantide.errors import ConfigError, StorageError
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions
from quantide.store.object_files import SourceAccess

READ_BYTES = 8 << 20


@dataclass(frozen=True)
class LocalCopies:
    """Folder with copies of files; `scheme` is that of their URIs, and `folder` is "" for files that need no copy."""

    folder: str = ""
    scheme: str = ""

    def local_path(self, path: str) -> str:
        """Return the path at which Spark finds a file, or a folder."""
        return os.path.join(self.folder, path.removeprefix(self.scheme)) if self.folder else path

    @property
    def prefix(self) -> tuple[str, str]:
        """Return the beginning of local paths, and the beginning of URIs that replaces it."""
        return (f"{self.folder}/", self.scheme) if self.folder else ("", "")


@contextmanager
def copy_objects(
    files: Sequence[IngestedFile], access: object, session: SparkSession, key: str
) -> Iterator[LocalCopies]:
    """Copy objects to this machine; local files are used where they are."""
    if not isinstance(access, SourceAccess) or not any("://" in file.path for file in files):
        yield LocalCopies()
        return
    if not (session.sparkContext.master or "").startswith("local"):
        raise ConfigError(
            f"{key}.source: on a cluster, Spark cannot read these files from object storage; run ingest with "
            "--master local[*], or write Parquet files, with columns as value and time"
        )
    with tempfile.TemporaryDirectory(prefix="quantide-source-") as folder:
        copies = LocalCopies(folder, files[0].path.partition("://")[0] + "://")
        for file in files:
            _copy(access, file.path, copies.local_path(file.path))
        yield copies


def _copy(access: StorageOptions, path: str, target: str) -> None:
    """Copy an object; one that was removed has no copy, which Spark skips."""
    filesystem, name = access.locate(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        with filesystem.open_input_stream(name) as stream, open(target, "wb") as copy:
            while data := stream.read(READ_BYTES):
                copy.write(data)
    except FileNotFoundError:
        return
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be copied to {tempfile.gettempdir()}: {error}. Free some space there, or set TMPDIR"
        ) from error
