"""Files: what a path, glob, folder with hive keys, Delta table or list of those stands for."""

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds

from quantide.errors import InvalidArgumentError, MissingPackageError, QuantideError
from quantide.store.storage import Storage, unreadable


@dataclass(frozen=True)
class DataFile:
    """One Parquet file; `keys` are the columns that only its folder's name (or the Delta log) tells."""

    uri: str
    size: int
    keys: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Files:
    """Files that have one schema, keys included."""

    files: tuple[DataFile, ...]
    schema: pa.Schema

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def find_files(sources: list[str], storage: Storage) -> Files:
    """All files behind these paths. Nothing but listings and one footer a path is read."""
    found = [files for source in sources for files in _behind(source, storage)]
    if not found:
        raise InvalidArgumentError("no paths were given; name a Parquet file, folder, glob or Delta table")
    try:
        schema = pa.unify_schemas([files.schema for files in found], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"the paths hold columns of one name and different types: {error}") from error
    return Files(tuple(file for files in found for file in files.files), _plain(schema))


def _plain(schema: pa.Schema) -> pa.Schema:
    """The types Spark has for what writers store as views, dictionaries or with long offsets."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind

    return pa.schema([field.with_type(plain(field.type)) for field in schema])


def _behind(source: str, storage: Storage) -> list[Files]:
    try:
        paths = storage.expand(source)
        return [_delta(path, storage) if _is_delta(path, storage) else _parquet(path, storage) for path in paths]
    except QuantideError:
        raise
    except OSError as error:
        raise unreadable(source, error) from error


def _is_delta(uri: str, storage: Storage) -> bool:
    filesystem, path = storage.locate(uri)
    return bool(filesystem.get_file_info(f"{path}/_delta_log").type.name == "Directory")


def _parquet(uri: str, storage: Storage) -> Files:
    filesystem, path = storage.locate(uri)
    if filesystem.get_file_info(path).type.name == "NotFound":
        raise InvalidArgumentError(f"there is no file or folder {uri}")
    try:
        dataset = ds.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(uri, error) from error
    fragments = list(dataset.get_fragments())
    sizes = filesystem.get_file_info([fragment.path for fragment in fragments])
    scheme = uri.partition("://")[0] + "://" if "://" in uri else ""
    files = []
    for fragment, info in zip(fragments, sizes, strict=True):
        keys = tuple(sorted(ds.get_partition_keys(fragment.partition_expression).items()))
        files.append(DataFile(scheme + fragment.path, info.size, keys))
    return Files(tuple(files), dataset.schema)


def _delta(uri: str, storage: Storage) -> Files:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise MissingPackageError.of(f"{uri}, a Delta table,", "deltalake", "history") from error
    table = DeltaTable(uri, storage_options=storage.options or None)
    if "deletionVectors" in (table.protocol().reader_features or []):
        raise InvalidArgumentError(f"{uri} may have deletion vectors, which only Spark reads; pass it as a DataFrame")
    schema = pa.schema(table.schema().to_arrow())
    actions = pa.table(table.get_add_actions(flatten=True))
    partitioned = table.metadata().partition_columns
    files = []
    for action in actions.to_pylist():
        keys = tuple((name, action[f"partition.{name}"]) for name in sorted(partitioned))
        path = unquote(action["path"])  # the log writes paths as parts of a URL
        files.append(DataFile(os.path.join(uri, path), action["size_bytes"], keys))
    return Files(tuple(sorted(files, key=lambda file: file.uri)), schema)
