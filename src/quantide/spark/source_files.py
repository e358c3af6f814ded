"""Source files: the Parquet files behind a path, glob, folder with hive keys, Delta table or list of those."""

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds

from quantide.errors import InvalidArgumentError, MissingPackageError, QuantideError
from quantide.store.location import StorageOptions, read_error


@dataclass(frozen=True)
class SourceDataFile:
    """A Parquet file; `keys` are the columns that only the name of its folder (or the Delta log) has."""

    uri: str
    size: int
    keys: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class SourceFiles:
    """Files with one schema, keys included."""

    files: tuple[SourceDataFile, ...]
    schema: pa.Schema

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def find_files(sources: list[str], storage: StorageOptions) -> SourceFiles:
    """Return all files behind these paths. It reads listings, and one footer for each path."""
    by_path = [files for source in sources for files in _expand_source(source, storage)]
    if not by_path:
        raise InvalidArgumentError("no paths were given; name a Parquet file, folder, glob or Delta table")
    try:
        schema = pa.unify_schemas([files.schema for files in by_path], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"the paths have columns of one name and different types: {error}") from error
    return SourceFiles(tuple(file for files in by_path for file in files.files), _spark_types(schema))


def _spark_types(schema: pa.Schema) -> pa.Schema:
    """Replace views, dictionaries and types with long offsets by the types that Spark has."""

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind

    return pa.schema([field.with_type(plain(field.type)) for field in schema])


def _expand_source(source: str, storage: StorageOptions) -> list[SourceFiles]:
    try:
        paths = storage.expand(source)
        return [
            _find_delta(path, storage) if _is_delta(path, storage) else _find_parquet(path, storage) for path in paths
        ]
    except QuantideError:
        raise
    except OSError as error:
        raise read_error(source, error) from error


def _is_delta(uri: str, storage: StorageOptions) -> bool:
    filesystem, path = storage.locate(uri)
    return bool(filesystem.get_file_info(f"{path}/_delta_log").type.name == "Directory")


def _find_parquet(uri: str, storage: StorageOptions) -> SourceFiles:
    filesystem, path = storage.locate(uri)
    if filesystem.get_file_info(path).type.name == "NotFound":
        raise InvalidArgumentError(f"there is no file or folder {uri}")
    try:
        dataset = ds.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
    except (pa.ArrowInvalid, OSError) as error:
        raise read_error(uri, error) from error
    fragments = list(dataset.get_fragments())
    sizes = filesystem.get_file_info([fragment.path for fragment in fragments])
    scheme = uri.partition("://")[0] + "://" if "://" in uri else ""
    files = []
    for fragment, info in zip(fragments, sizes, strict=True):
        keys = tuple(sorted(ds.get_partition_keys(fragment.partition_expression).items()))
        files.append(SourceDataFile(scheme + fragment.path, info.size, keys))
    return SourceFiles(tuple(files), dataset.schema)


def _find_delta(uri: str, storage: StorageOptions) -> SourceFiles:
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
        path = unquote(action["path"])  # the log has paths as parts of a URL
        files.append(SourceDataFile(os.path.join(uri, path), action["size_bytes"], keys))
    return SourceFiles(tuple(sorted(files, key=lambda file: file.uri)), schema)
