"""Splits: files cut at row groups and packed together, so that tasks have about equally many bytes to read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from quantide.spark.files import DataFile, Files
from quantide.store.storage import Storage, unreadable

LEAST, MOST = 8 << 20, 256 << 20  # bytes of a split


@dataclass(frozen=True)
class Piece:
    """Some row groups of a file; all of them when `groups` is None."""

    file: DataFile
    groups: tuple[int, ...] | None
    size: int


Split = tuple[Piece, ...]


def plan(
    files: Files, columns: Sequence[str], cores: int, storage: Storage, size_of_split: int | None = None
) -> list[Split]:
    """Splits in the order of the files: the same files always give the same splits for so many cores (or that size)."""
    target = size_of_split or min(MOST, max(LEAST, files.size // (4 * cores)))
    splits: list[Split] = []
    open_split: list[Piece] = []
    size = 0
    for file in files.files:
        for piece in _cut(file, columns, target, storage):
            if open_split and size + piece.size > target * 5 // 4:
                splits.append(tuple(open_split))
                open_split, size = [], 0
            open_split.append(piece)
            size += piece.size
    return [*splits, tuple(open_split)] if open_split else splits


def _cut(file: DataFile, columns: Sequence[str], target: int, storage: Storage) -> Iterator[Piece]:
    """A small file whole, unopened; a large one by row groups."""
    if file.size <= target * 5 // 4:
        yield Piece(file, None, file.size)
        return
    sizes = _group_sizes(file, columns, storage)
    groups: list[int] = []
    size = 0
    for group, bytes_of_group in enumerate(sizes):
        if groups and size + bytes_of_group > target:
            yield Piece(file, tuple(groups), size)
            groups, size = [], 0
        groups.append(group)
        size += bytes_of_group
    if groups:
        yield Piece(file, tuple(groups), size)


def _group_sizes(file: DataFile, columns: Sequence[str], storage: Storage) -> list[int]:
    """Stored bytes of the wanted columns in each row group."""
    filesystem, path = storage.locate(file.uri)
    try:
        metadata = pq.read_metadata(path, filesystem=filesystem)
    except (OSError, ValueError) as error:
        raise unreadable(file.uri, error) from error
    wanted = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.split(".")[0] in columns]
    sizes = []
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        sizes.append(sum(row_group.column(i).total_compressed_size for i in wanted))
    return sizes
