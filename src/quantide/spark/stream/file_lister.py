"""File listers: they find the new files of a source without Spark.

A lister returns the files that were added since a position, and the position after them. The position is part of the
record of the batch that ingests the last of them, so it moves with the commit. A file is new if the ingest log does not
have its path; a listing that is repeated after a crash therefore loses and doubles nothing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from quantide.config import StreamConfig
from quantide.store.ingest_log import IngestedFile
from quantide.store.location import StorageOptions

IsRecorded = Callable[[str], bool]  # True if the ingest log has a path


@dataclass(frozen=True)
class Listing:
    """New files, the position after all of them, and True if the source may have more.

    `partial` is the position until the last of the files is in the store; "" for the one before.
    """

    files: tuple[IngestedFile, ...] = ()
    position: str = ""
    has_more: bool = False
    partial: str = ""


class FileLister(Protocol):
    """Finds the files of one source. `pause` is the time in seconds until the next listing is worth its cost."""

    pause: float

    def list_new(self, position: str, is_recorded: IsRecorded) -> Listing:
        """Return files that were added after a position, "" for the start, except recorded ones."""

    def list_present(self) -> Mapping[str, IngestedFile]:
        """Return all files that the source has now, by path."""


def open_lister(stream: StreamConfig, access: StorageOptions) -> FileLister:
    """Return the lister of a source."""
    source = stream.source
    if source.format == "delta":
        from quantide.spark.stream.delta_lister import DeltaLister

        return DeltaLister(stream)
    if source.format == "iceberg":
        from quantide.spark.stream.iceberg_lister import IcebergLister

        return IcebergLister(stream)
    from quantide.spark.stream.folder_lister import LocalFolderLister, ObjectFolderLister
    from quantide.store.object_files import SourceAccess

    if isinstance(access, SourceAccess):
        return ObjectFolderLister(source, access)
    return LocalFolderLister(stream)


def write_position(kind: str, **fields: Any) -> str:
    """Return a position as text.

    >>> write_position("delta", version=3)
    '{"kind": "delta", "version": 3}'
    """
    return json.dumps({"kind": kind, **fields})


def is_position(text: str) -> bool:
    """Return True for a position of a lister, rather than offsets of Kafka.

    >>> is_position('{"kind": "delta", "version": 3}'), is_position('{"clicks": {"0": 17}}')
    (True, False)
    """
    try:
        fields = json.loads(text)
    except ValueError:
        return False
    return isinstance(fields, dict) and isinstance(fields.get("kind"), str)


def read_position(position: str, kind: str) -> dict[str, Any] | None:
    """Return the fields of a position; None if there is none, or if it is that of another kind of source."""
    try:
        fields = json.loads(position) if position else None
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and fields.get("kind") == kind else None
