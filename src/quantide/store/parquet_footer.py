"""Parquet footer: sizes of column chunks, read without pyarrow's metadata of a chunk.

pyarrow does not catch the exceptions that C++ raises in `RowGroupMetaData.column`, in `statistics`, and where a filter
splits a fragment of a dataset. There, statistics that contradict the schema, or an encrypted chunk, end the process.
Reading without a filter raises errors.
"""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from quantide.kernels.footer_scan import (
    CODEC,
    COMPRESSED,
    DEFINITION,
    ENCRYPTED,
    FIELDS,
    LIMITS,
    REPETITION,
    STATISTICS,
    TEXT_BYTES,
    TYPE,
    UNCOMPRESSED,
    VALUES,
    scan_chunks,
)
from quantide.kernels.jit import freeze
from quantide.typing import Ints

MAGIC = b"PAR1"
TAIL = 1 << 16  # bytes that are read first: the footers of most files
LZ4 = 7  # codec LZ4_RAW
TYPES = "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # bytes of a minimum

__all__ = ["CODEC", "COMPRESSED", "LZ4", "UNCOMPRESSED", "VALUES", "read_footer"]


def read_footer(file: Any) -> tuple[Any, Ints]:
    """Return the metadata of an open file, and fields (CODEC, VALUES, ...) of its chunks by row group and column.

    Raise ValueError if its metadata would end the process, and as pyarrow does if it cannot be parsed: OSError,
    ValueError or ArrowException.
    """
    footer = _read_bytes(file)
    metadata = pq.read_metadata(pa.BufferReader(MAGIC + footer + struct.pack("<I", len(footer)) + MAGIC))
    groups, columns = metadata.num_row_groups, metadata.num_columns
    if any(metadata.row_group(group).num_columns != columns for group in range(groups)):
        raise ValueError(f"a row group has other columns than the {columns} of the schema")
    fields = np.zeros((FIELDS, groups * columns), dtype=np.int64)
    if scan_chunks(freeze(np.frombuffer(footer, np.uint8)), fields) != groups * columns:
        raise ValueError("the footer has other column chunks than its schema; write the file again")
    chunks = fields.reshape(FIELDS, groups, columns)
    _check_chunks(chunks, metadata.schema)
    return metadata, chunks


def _read_bytes(file: Any) -> bytes:
    size = file.seek(0, 2)
    file.seek(max(0, size - TAIL))
    tail: bytes = file.read()
    if len(tail) < 12 or tail[-4:] != MAGIC:
        raise ValueError("it is not a Parquet file, or not the whole of one")
    length = struct.unpack("<I", tail[-8:-4])[0]
    if length > size - 12:
        raise ValueError(f"its footer has {length:,} bytes, and the file {size:,}")
    if length > len(tail) - 8:
        file.seek(size - 8 - length)
        tail = file.read(length) + tail[-8:]
    return tail[-8 - length : -8]


def _check_chunks(chunks: Ints, schema: Any) -> None:
    if chunks[ENCRYPTED].any():
        raise ValueError("a column is encrypted")
    for index in np.flatnonzero(chunks[TEXT_BYTES:].any(axis=(0, 1))).tolist():
        column = schema.column(index)
        if _contradicts_type(chunks[:, :, index], column):
            raise ValueError(f"the statistics of the column {column.path[:80]!r} contradict its type")


def _contradicts_type(chunk_fields: Ints, column: Any) -> bool:
    """Return True if statistics of a column's chunks cannot be of its type."""
    levels = {REPETITION: column.max_repetition_level, DEFINITION: column.max_definition_level}
    if any((chunk_fields[row][chunk_fields[row] > 0] != level + 1).any() for row, level in levels.items()):
        return True
    kind = column.physical_type
    if kind != "BYTE_ARRAY" and chunk_fields[TEXT_BYTES].any():
        return True
    if (chunk_fields[TYPE][chunk_fields[STATISTICS] > 0] != TYPES.index(kind)).any():
        return True
    width = WIDTHS.get(kind, column.length if kind == "FIXED_LEN_BYTE_ARRAY" else 0)
    lengths = chunk_fields[list(LIMITS)]
    return bool(((lengths > 0) & (lengths <= width)).any())
