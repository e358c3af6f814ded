"""Source files: the Parquet files behind a path, glob, folder with hive keys, Delta table or list of those.

Row groups are packed into splits of about equal size, one for each task. A split is read as Arrow tables
of bounded size, straight from Parquet into numpy.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from quantide.errors import InvalidArgumentError, MissingPackageError, QuantideError, TypeMismatchError
from quantide.store.location import StorageOptions, read_error
from quantide.store.parquet_footer import COMPRESSED, UNCOMPRESSED, read_footer
from quantide.store.storage import Storage
from quantide.typing import Ints

MIN_SPLIT, MAX_SPLIT = 8 << 20, 256 << 20  # bytes of a split
READ_BYTES = 64 << 20  # bytes that one call reads; larger row groups are streamed
READ_ROWS = 1 << 20  # rows of a table of a row group that is streamed

FileAccess = StorageOptions | Storage  # to source files, or to files of a store


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
    return SourceFiles(tuple(file for files in by_path for file in files.files), spark_types(schema))


def open_file(storage: FileAccess, uri: str) -> Any:
    """Open a file for pyarrow: a source file by its path or URI, or a file of a store, as a whole, by its name."""
    if isinstance(storage, Storage):
        return pa.BufferReader(pa.py_buffer(storage.map(uri)))
    filesystem, path = storage.locate(uri)
    return filesystem.open_input_file(path)


def spark_types(schema: pa.Schema) -> pa.Schema:
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
        raise InvalidArgumentError(
            f"there is no file or folder {uri}; name a Parquet file, folder, glob or Delta table"
        )
    try:
        dataset = ds.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
        _check_names(dataset.schema)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        if "duplicate field names" in str(error):
            raise InvalidArgumentError(f"{uri} has several columns of one name; rename all but one") from error
        raise read_error(uri, error) from error
    except pa.ArrowNotImplementedError as error:
        raise InvalidArgumentError(f"{uri} has a type that pyarrow cannot read, {error}; write it without") from error
    fragments = list(dataset.get_fragments())
    sizes = filesystem.get_file_info([fragment.path for fragment in fragments])
    scheme = uri.partition("://")[0] + "://" if "://" in uri else ""
    files = []
    for fragment, info in zip(fragments, sizes, strict=True):
        keys = tuple(sorted(ds.get_partition_keys(fragment.partition_expression).items()))
        files.append(SourceDataFile(scheme + fragment.path, info.size, keys))
    return SourceFiles(tuple(files), dataset.schema)


def _check_names(schema: pa.Schema) -> None:
    """Raise UnicodeDecodeError if the name of a column is no text."""
    sorted(schema.names)


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


@dataclass(frozen=True)
class FilePiece:
    """Some row groups of a file; all of them if `groups` is None."""

    file: SourceDataFile
    groups: tuple[int, ...] | None
    size: int


Split = tuple[FilePiece, ...]


def plan_splits(
    files: SourceFiles, columns: Sequence[str], cores: int, storage: FileAccess, split_size: int | None = None
) -> list[Split]:
    """Pack files into splits, in their order. Equal files and cores (or split size) give equal splits.

    Without a split size every core has equally many splits, as few as MAX_SPLIT allows: Spark needs up to a tenth of a
    second for each Python task, in which a core reads and summarises ten million values.
    """
    small = split_size or min(MAX_SPLIT, max(MIN_SPLIT, files.size // (4 * cores)))
    pieces = [piece for file in files.files for piece in _cut_file(file, columns, small, split_size or 0, storage)]
    return _pack_up_to(pieces, split_size) if split_size else _pack_evenly(pieces, cores)


def _pack_up_to(pieces: Sequence[FilePiece], target: int) -> list[Split]:
    """Pack pieces into splits of about `target` bytes."""
    splits: list[Split] = []
    open_split: list[FilePiece] = []
    size = 0
    for piece in pieces:
        if open_split and size + piece.size > target * 5 // 4:
            splits.append(tuple(open_split))
            open_split, size = [], 0
        open_split.append(piece)
        size += piece.size
    return [*splits, tuple(open_split)] if open_split else splits


def _pack_evenly(pieces: Sequence[FilePiece], cores: int) -> list[Split]:
    """Pack pieces into equally many splits for each core: a piece belongs to the split that has its middle."""
    total = sum(piece.size for piece in pieces)
    rounds = math.ceil(total / (cores * MAX_SPLIT))
    count = max(1, min(rounds * cores, total // MIN_SPLIT))
    splits: dict[int, list[FilePiece]] = {}
    before = 0
    for piece in pieces:
        middle = 2 * before + piece.size  # twice the offset, in integers
        splits.setdefault(middle * count // (2 * total) if total else 0, []).append(piece)
        before += piece.size
    return [tuple(_join_pieces(split)) for split in splits.values()]


def _join_pieces(pieces: Sequence[FilePiece]) -> Sequence[FilePiece]:
    """Join row groups of a file that follow each other: a task opens it once. A file named twice stays two pieces."""
    joined: list[FilePiece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.file == piece.file and last.groups and piece.groups and last.groups < piece.groups:
            joined[-1] = FilePiece(piece.file, last.groups + piece.groups, last.size + piece.size)
        else:
            joined.append(piece)
    return joined


def _cut_file(
    file: SourceDataFile, columns: Sequence[str], small: int, target: int, storage: FileAccess
) -> Iterator[FilePiece]:
    """Yield a file of about `small` bytes whole, without opening it, and a larger one in pieces of row groups."""
    if file.size <= small * 5 // 4:
        yield FilePiece(file, None, file.size)
        return
    groups: list[int] = []
    size = 0
    for group, group_size in enumerate(_stored_sizes(file, columns, storage)):
        if groups and size + group_size > target:
            yield FilePiece(file, tuple(groups), size)
            groups, size = [], 0
        groups.append(group)
        size += group_size
    if groups:
        yield FilePiece(file, tuple(groups), size)


def _stored_sizes(file: SourceDataFile, columns: Sequence[str], storage: FileAccess) -> list[int]:
    """Return the compressed bytes of some columns in each row group."""
    try:
        with open_file(storage, file.uri) as opened:
            metadata, chunks = read_footer(opened)
    except (OSError, ValueError) as error:
        raise read_error(file.uri, error) from error
    return [sum(sizes) for sizes in chunks[COMPRESSED][:, _leaves(metadata, columns)].tolist()]


def _leaves(metadata: Any, columns: Sequence[str]) -> list[int]:
    """Return the positions of the leaves of some columns in the schema of a file."""
    return [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in columns]


def read_split(
    split: Split, columns: Sequence[str], schema: pa.Schema, where: Any, storage: FileAccess
) -> Iterator[pa.Table]:
    """Yield tables of some columns, in the types of the schema, with the rows that satisfy `where`."""
    for piece in split:
        try:
            yield from _read_piece(piece, columns, schema, where, storage)
        except QuantideError:
            raise
        except (OSError, ValueError) as error:
            raise read_error(piece.file.uri, error) from error


def _read_piece(
    piece: FilePiece, columns: Sequence[str], schema: pa.Schema, where: Any, storage: FileAccess
) -> Iterator[pa.Table]:
    file = open_file(storage, piece.file.uri)
    metadata, chunks = read_footer(file)
    with pq.ParquetFile(file, metadata=metadata, pre_buffer=False) as parquet:
        groups = _prune_groups(piece, parquet, storage, schema, where)
        present = parquet.schema_arrow.names
        used = [name for name in schema.names if name in columns or _may_use(where, name)]
        stored = [name for name in used if name in present]
        sizes = _memory_sizes(metadata, chunks, stored)
        for together in _pack_groups(groups, sizes):
            for table in _read_groups(parquet, together, stored, sum(sizes[group] for group in together)):
                full = _conform(_add_folder_keys(table, piece, schema), piece, used, schema)
                yield (full.filter(where) if where is not None else full).select(columns)


def _prune_groups(piece: FilePiece, parquet: Any, storage: FileAccess, schema: pa.Schema, where: Any) -> list[int]:
    """Return the row groups that neither their statistics nor the keys of their folder rule out."""
    groups = list(range(parquet.metadata.num_row_groups)) if piece.groups is None else list(piece.groups)
    if where is None or not groups or isinstance(storage, Storage):
        return groups
    filesystem, path = storage.locate(piece.file.uri)
    folder_keys = pc.scalar(True)
    for name, value in piece.file.keys:
        folder_keys = folder_keys & (pc.field(name) == pa.scalar(value, schema.field(name).type))
    fragment = ds.ParquetFileFormat().make_fragment(path, filesystem, folder_keys, row_groups=groups)
    try:
        return [group.id for part in fragment.split_by_row_group(where, schema) for group in part.row_groups]
    except pa.ArrowNotImplementedError:  # Arrow cannot compare the statistics of some types, such as string views
        return groups


def _may_use(where: Any, name: str) -> bool:
    """Return True if an expression may use a column: it contains the name, or refers to columns by position."""
    return where is not None and (name in (text := str(where)) or "FieldPath" in text)


def _pack_groups(groups: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """Yield row groups to read together, up to READ_BYTES."""
    together: list[int] = []
    size = 0
    for group in groups:
        if together and size + sizes[group] > READ_BYTES:
            yield together
            together, size = [], 0
        together.append(group)
        size += sizes[group]
    if together:
        yield together


def _read_groups(parquet: Any, groups: list[int], columns: list[str], size: int) -> Iterator[pa.Table]:
    if size <= 4 * READ_BYTES:
        yield parquet.read_row_groups(groups, columns=columns, use_threads=False)
        return
    for batch in parquet.iter_batches(READ_ROWS, row_groups=groups, columns=columns, use_threads=False):
        yield pa.Table.from_batches([batch])


def _memory_sizes(metadata: Any, chunks: Ints, columns: list[str]) -> list[int]:
    """Return the bytes of some columns of each row group in memory: a value stored in a few bits takes eight bytes."""
    stored = chunks[UNCOMPRESSED][:, _leaves(metadata, columns)].tolist()
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return [sum(max(size, 8 * count) for size in sizes) for sizes, count in zip(stored, rows, strict=True)]


def _add_folder_keys(table: pa.Table, piece: FilePiece, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns that only the name of its folder has."""
    for name, value in piece.file.keys:
        if name not in table.column_names:
            kind = schema.field(name).type
            table = table.append_column(pa.field(name, kind), pa.repeat(pa.scalar(value, kind), len(table)))
    return table


def _conform(table: pa.Table, piece: FilePiece, columns: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return some columns in the types of the schema; a column that this file lacks is null."""
    out = []
    for name in columns:
        kind = schema.field(name).type
        if name not in table.column_names:
            out.append(pa.nulls(len(table), kind))
        elif table[name].type == kind:
            out.append(table[name])
        else:
            try:
                out.append(table[name].cast(kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise TypeMismatchError(
                    f"{piece.file.uri}: column {name!r} is {table[name].type}, other files have {kind}: {error}"
                ) from error
    return pa.table(out, names=list(columns))
