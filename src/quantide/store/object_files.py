"""Source files in object storage: read through `obstore`, as a file system that pyarrow can use.

One library reads stores and sources, so both take the same options and credentials, and repeat failed requests alike.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from quantide.errors import InvalidArgumentError
from quantide.store.batch_record import IngestedFile
from quantide.store.location import StorageOptions
from quantide.store.object_storage import ObjectStorage
from quantide.store.storage import FileStatus

WHOLE_BYTES = 8 << 20  # of an object that is fetched at once, however little of it is needed


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket of a URI, as a URI, and the path in it.

    >>> split_uri("s3://bucket/incoming/a.parquet"), split_uri("az://container")
    (('s3://bucket', 'incoming/a.parquet'), ('az://container', ''))
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path.rstrip("/")


@lru_cache(maxsize=64)
def _open_bucket(bucket: str, options: tuple[tuple[str, str], ...]) -> ObjectStorage:
    return ObjectStorage(bucket, dict(options))


@dataclass(frozen=True)
class SourceAccess(StorageOptions):
    """Access to source files in object storage; to local ones, too, if there are some."""

    def bucket(self, uri: str) -> ObjectStorage:
        """Return the bucket of a URI."""
        return _open_bucket(split_uri(uri)[0], tuple(sorted(self.options.items())))

    def locate(self, uri: str) -> tuple[Any, str]:
        if "://" not in uri or uri.startswith("file:"):
            return StorageOptions().locate(uri)
        return pafs.PyFileSystem(ObjectFileSystem(self.bucket(uri))), split_uri(uri)[1]

    def list_below(self, uri: str, after: str | None = None) -> list[FileStatus]:
        """Return the objects below a prefix, with their URIs; only those whose URI sorts after `after`, if given."""
        bucket, prefix = split_uri(uri)
        offset = None if after is None else split_uri(after)[1]
        listed = self.bucket(uri).list_below(prefix, offset)
        return [FileStatus(f"{bucket}/{file.name}", file.size, file.modified) for file in listed]

    def remove_unchanged(self, files: Sequence[IngestedFile]) -> None:
        """Remove objects of one bucket, some at a time, except those that were replaced since they were listed."""
        if files:
            bucket = self.bucket(files[0].path)

            def remove(file: IngestedFile) -> None:
                name = split_uri(file.path)[1]
                with suppress(FileNotFoundError):
                    status = bucket.stat(name)
                    if (status.size, round(status.modified * 1000)) == (file.size, file.modified):
                        bucket.remove(name)

            bucket.map_all(remove, files)


class ObjectFileSystem(pafs.FileSystemHandler):  # type: ignore[misc]
    """File system of one bucket for pyarrow: it stats and reads single objects."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFileSystem) and other._storage is self._storage

    def __hash__(self) -> int:
        return id(self._storage)

    def get_type_name(self) -> str:
        return "obstore"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            status = self._storage.stat(path)
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)
        return pafs.FileInfo(path, pafs.FileType.File, size=status.size, mtime_ns=round(status.modified * 1000) * 10**6)

    def open_input_file(self, path: str) -> Any:
        return self._storage.open_whole(path, WHOLE_BYTES)

    def open_input_stream(self, path: str) -> Any:
        return pa.BufferedInputStream(self.open_input_file(path), WHOLE_BYTES)

    def _refuse(self, *_arguments: Any, **_options: Any) -> Any:
        raise InvalidArgumentError("source files in object storage are only read")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
