"""Reading, inside a task: a split as Arrow tables of bounded size, straight from Parquet into numpy."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from quantide.errors import TypeMismatchError
from quantide.spark.splits import Piece, Split
from quantide.store.storage import Storage, unreadable

AT_ONCE = 64 << 20  # bytes that are read by one call; larger row groups are streamed
ROWS_AT_ONCE = 1 << 20


def read_split(
    split: Split, columns: Sequence[str], schema: pa.Schema, where: Any, storage: Storage
) -> Iterator[pa.Table]:
    """Tables of the wanted columns, of the types of the schema, of the rows for which `where` holds."""
    for piece in split:
        try:
            yield from _read_piece(piece, columns, schema, where, storage)
        except (OSError, pa.ArrowInvalid) as error:
            raise unreadable(piece.file.uri, error) from error


def _read_piece(
    piece: Piece, columns: Sequence[str], schema: pa.Schema, where: Any, storage: Storage
) -> Iterator[pa.Table]:
    filesystem, path = storage.locate(piece.file.uri)
    with pq.ParquetFile(filesystem.open_input_file(path), pre_buffer=False) as parquet:
        groups = _pruned(piece, parquet, path, filesystem, schema, where)
        present = parquet.schema_arrow.names
        used = [name for name in schema.names if name in columns or _may_use(where, name)]
        needed = [name for name in used if name in present]
        for run in _runs(groups, parquet.metadata, needed):
            for table in _read_groups(parquet, run, needed):
                full = _conform(_with_keys(table, piece, schema), piece, used, schema)
                yield (full.filter(where) if where is not None else full).select(columns)


def _pruned(piece: Piece, parquet: Any, path: str, filesystem: Any, schema: pa.Schema, where: Any) -> list[int]:
    """The row groups whose statistics, and whose folder's keys, do not rule them out."""
    groups = list(range(parquet.metadata.num_row_groups)) if piece.groups is None else list(piece.groups)
    if where is None or not groups:
        return groups
    known = pc.scalar(True)
    for name, value in piece.file.keys:
        known = known & (pc.field(name) == pa.scalar(value, schema.field(name).type))
    fragment = ds.ParquetFileFormat().make_fragment(path, filesystem, known, row_groups=groups)
    try:
        return [group.id for part in fragment.split_by_row_group(where, schema) for group in part.row_groups]
    except pa.ArrowNotImplementedError:  # a type whose statistics Arrow cannot compare, as string views: read them all
        return groups


def _may_use(where: Any, name: str) -> bool:
    """Whether an expression can be about a column: its text has the name, or speaks of columns by their places."""
    return where is not None and (name in (text := str(where)) or "FieldPath" in text)


def _runs(groups: list[int], metadata: Any, columns: list[str]) -> Iterator[list[int]]:
    """Row groups that are read together: as many as fit AT_ONCE."""
    run: list[int] = []
    size = 0
    for group in groups:
        bytes_of_group = _size(metadata, group, columns)
        if run and size + bytes_of_group > AT_ONCE:
            yield run
            run, size = [], 0
        run.append(group)
        size += bytes_of_group
    if run:
        yield run


def _read_groups(parquet: Any, run: list[int], columns: list[str]) -> Iterator[pa.Table]:
    size = sum(_size(parquet.metadata, group, columns) for group in run)
    if size <= 4 * AT_ONCE:
        yield parquet.read_row_groups(run, columns=columns, use_threads=False)
        return
    for batch in parquet.iter_batches(ROWS_AT_ONCE, row_groups=run, columns=columns, use_threads=False):
        yield pa.Table.from_batches([batch])


def _size(metadata: Any, group: int, columns: list[str]) -> int:
    """Bytes of some columns of a row group in memory, where a value stored in a few bits takes eight bytes."""
    found = metadata.row_group(group)
    chunks = [found.column(i) for i in range(found.num_columns)]
    wanted = [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns]
    return sum(max(chunk.total_uncompressed_size, 8 * found.num_rows) for chunk in wanted)


def _with_keys(table: pa.Table, piece: Piece, schema: pa.Schema) -> pa.Table:
    """The table with the columns that its folder's name tells."""
    for name, value in piece.file.keys:
        if name not in table.column_names:
            kind = schema.field(name).type
            table = table.append_column(pa.field(name, kind), pa.repeat(pa.scalar(value, kind), len(table)))
    return table


def _conform(table: pa.Table, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The wanted columns in the types of the schema; a column that this file lacks is null."""
    out = []
    for name in columns:
        wanted = schema.field(name).type
        if name not in table.column_names:
            out.append(pa.nulls(len(table), wanted))
        elif table[name].type == wanted:
            out.append(table[name])
        else:
            try:
                out.append(table[name].cast(wanted))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise TypeMismatchError(
                    f"{piece.file.uri}: column {name!r} is {table[name].type}, other files have {wanted}: {error}"
                ) from error
    return pa.table(out, names=list(columns))
