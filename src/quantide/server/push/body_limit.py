"""Body limit: the memory that the rows of a body take, computed before it is taken.

A body of some hundred bytes may stand for gigabytes of rows: compressed buffers, columns of nulls, dictionaries and
views whose rows all refer to one long text. The declared sizes are read from the metadata first.
"""

import re
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.server.push.parquet_pages import PageHeaders
from quantide.store.parquet_footer import UNCOMPRESSED, VALUES
from quantide.typing import Ints

ROW_BYTES = 16  # of a value and a time
DICTIONARY_BATCH = 2  # header type of an Arrow message
BATCH_TYPES = ("record batch", "dictionary")
BEFORE_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*+")  # which Arrow skips
CSV_FIELD = re.compile(rb'(?:"(?:[^"]++|"")*+"?+)?+[^,\r\n]*+')  # a quote counts where a field begins


def too_large(limit: int) -> InvalidArgumentError:
    return InvalidArgumentError(f"the rows take more than {limit:,} bytes in memory; send them in parts")


def check_cells(rows: int, columns: int, limit: int) -> None:
    """Raise if columns of numbers take more than `limit` bytes."""
    if 8 * rows * max(columns, 2) > limit:
        raise too_large(limit)


def check_table(table: pa.Table, limit: int) -> None:
    """Raise if the rows take more than `limit` bytes without dictionaries and views."""
    size = ROW_BYTES * len(table)
    for column in table.columns:
        for chunk in column.chunks:
            size += _chunk_size(chunk)
    if size > limit:
        raise too_large(limit)


def _chunk_size(chunk: Any) -> int:
    kind, types = chunk.type, pa.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = np.frombuffer(chunk.buffers()[1], np.int32) if len(chunk) else np.zeros(0, np.int32)
        lengths = views[::4][chunk.offset : chunk.offset + len(chunk)]
        return int(np.maximum(lengths, 0).sum(dtype=np.int64))
    if not types.is_dictionary(kind):
        return int(chunk.nbytes)
    value = kind.value_type
    if types.is_string(value) or types.is_large_string(value) or types.is_binary(value) or types.is_large_binary(value):
        lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
        return int(chunk.nbytes) + (pc.sum(lengths.take(chunk.indices)).as_py() or 0)
    if types.is_primitive(value) or types.is_decimal(value):
        return int(chunk.nbytes) + len(chunk) * max(1, int(value.bit_width) // 8)
    raise TypeMismatchError(f"a column is {kind}; send text, numbers, true or false, and times. Nothing was added")


def check_csv_header(body: bytes, most: int) -> None:
    """Raise if the header of a CSV body has more than `most` columns, before Arrow takes memory for each of them."""
    start = BEFORE_HEADER.match(body)
    end = 0 if start is None else start.end()
    for _ in range(most):
        field = CSV_FIELD.match(body, end)
        end = end if field is None else field.end()
        if body[end : end + 1] != b",":
            return
        end += 1
    raise InvalidArgumentError(
        f"the rows have more than {most:,} columns; send those that the stream needs. Nothing was added"
    )


def check_arrow_body(body: bytes, limit: int) -> None:
    """Raise if the batches of an Arrow stream declare more than `limit` bytes, before any is decompressed."""
    size = 0
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        if message.type in BATCH_TYPES:
            size += _batch_size(message.metadata.to_pybytes(), message.body, limit)
            if size > limit:
                raise too_large(limit)


def check_parquet_body(metadata: Any, chunks: Ints, pages: PageHeaders, limit: int) -> None:
    """Raise if a Parquet file, or its pages, declare more than `limit` bytes, or if it has lists."""
    schema, size = metadata.schema, 0
    rows = np.array([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)], np.int64)
    for index in range(len(schema)):
        column = schema.column(index)
        if column.max_repetition_level:
            raise TypeMismatchError(
                f"the column {column.path[:80]!r} is a list; send text, numbers, true or false, and times. Nothing was "
                "added"
            )
        width = max(8, column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0)
        values = np.maximum.reduce([chunks[VALUES, :, index], pages.values[:, index], rows])
        stored = np.maximum(chunks[UNCOMPRESSED, :, index], pages.sizes[:, index])
        for count, in_pages in zip(values.tolist(), stored.tolist(), strict=True):
            size += max(width * count, in_pages)
        if size > limit:
            raise too_large(limit)


class MessageTable:
    """Table of a flatbuffer, which Arrow has verified: fields are found by their number."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._vtable = position - _number("<i", data, position)
        self._size = _number("<H", data, self._vtable)

    def field(self, number: int) -> int | None:
        """Return the position of a field; None if it is not there."""
        entry = 4 + 2 * number
        offset = _number("<H", self._data, self._vtable + entry) if entry < self._size else 0
        return self._position + offset if offset else None

    def table(self, number: int) -> "MessageTable | None":
        position = self.field(number)
        return None if position is None else MessageTable(self._data, position + _number("<I", self._data, position))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two 64-bit integers."""
        position = self.field(number)
        if position is None:
            return []
        start = position + _number("<I", self._data, position)
        count = _number("<I", self._data, start)
        return list(struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count]))


def _batch_size(metadata: bytes, body: Any, limit: int) -> int:
    """Return the bytes of a record batch, or of a dictionary, after decompression; raise if it has too many rows."""
    message = MessageTable(metadata, _number("<I", metadata, 0))
    kind = message.field(1)
    batch = message.table(2)
    if batch is not None and kind is not None and metadata[kind] == DICTIONARY_BATCH:
        batch = batch.table(1)
    if batch is None:
        return 0
    for rows, _ in batch.pairs(1):  # the nodes: of each column, and of what is in it
        check_cells(rows, 1, limit)
    is_compressed = batch.table(3) is not None
    sizes = (_buffer_size(body, *buffer) if is_compressed else buffer[1] for buffer in batch.pairs(2))
    return sum(sizes)


def _buffer_size(body: Any, offset: int, length: int) -> int:
    """Return the size of a compressed buffer, which it begins with; -1 stands for one that is not compressed."""
    if length < 8 or offset < 0 or offset + length > body.size:
        return 0  # empty, or invalid, which Arrow reports
    return max(length, _number("<q", body.slice(offset, 8).to_pybytes(), 0))


def _number(form: str, data: bytes, position: int) -> int:
    try:
        return int(struct.unpack_from(form, data, position)[0])
    except struct.error as error:
        raise InvalidArgumentError("the metadata of an Arrow message is damaged; nothing was added") from error
