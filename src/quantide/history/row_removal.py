"""Removal of the rows of a key from Parquet files outside of the table: rows in quarantine, and files set aside."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quantide.history.run import Key
from quantide.store.data_file import COMPRESSION, PARQUET_ERRORS
from quantide.store.storage import Storage


def remove_rows(
    storage: Storage, name: str, types: Mapping[str, pa.DataType], key: Key, dry_run: bool
) -> tuple[int, bool]:
    """Remove the rows of a key from a file; `types` are those of the key columns, by name.

    Return the number of removed rows, and True if no other row can be of that key: rows in quarantine may have no
    readable key. With `dry_run` the file stays as it is.
    """
    try:
        table = pq.read_table(pa.BufferReader(storage.read(name)))
    except PARQUET_ERRORS:
        return 0, False
    if not set(types) <= set(table.column_names):
        return 0, not len(table)
    is_own, may_be_own = pa.repeat(True, len(table)), pa.repeat(True, len(table))
    for (column, kind), part in zip(types.items(), key, strict=True):
        equal, unknown = _compare(table[column].combine_chunks(), kind, part)
        is_own, may_be_own = pc.and_(is_own, equal), pc.and_(may_be_own, pc.or_(equal, unknown))
    removed, possible = (pc.sum(mask).as_py() or 0 for mask in (is_own, may_be_own))
    if removed and not dry_run:
        sink = pa.BufferOutputStream()
        pq.write_table(table.filter(pc.invert(is_own)), sink, compression=COMPRESSION)
        storage.replace(name, sink.getvalue().to_pybytes())
    return removed, possible == removed


def _compare(column: Any, kind: pa.DataType, part: Any) -> tuple[Any, Any]:
    """Return which values of a column equal a part of a key, and which of them cannot be read as one."""
    is_null = column.is_null()
    if part is None:
        return is_null, pa.repeat(False, len(column))
    try:
        values, expected = column.cast(kind), pa.scalar(part, kind)
    except pa.ArrowException:  # a column of texts, some of which are no keys
        values, expected = column.cast(pa.string()), pa.scalar(str(part))
    equal = pc.is_nan(values) if part != part else pc.equal(values, expected)
    return equal.fill_null(False), is_null
