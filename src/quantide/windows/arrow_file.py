"""Memory check of untrusted Arrow files: no part may be compressed or used twice.

Arrow checks that the offsets of a file stay inside it. But it decompresses without a limit, and lets any number of
offsets point to the same bytes: a few kilobytes can stand for gigabytes. Arrow itself writes every part of a file once.
So each table, text, list and buffer that the file references is charged its size, and a file whose parts are larger
than itself is rejected. The format: Arrow's File.fbs, Message.fbs and Schema.fbs, in the encoding of FlatBuffers.
"""

import struct
from collections.abc import Iterator

MAGIC = b"ARROW1"
CONTINUATION = 0xFFFFFFFF  # before the length of a message
MAX_DEPTH = 64  # of nested types; Arrow reads no deeper ones
TIMESTAMP, UNION = 10, 14  # types in Schema.fbs that contain a text or a list
SHARED_TYPES = {22: "run-end encoded", 25: "list view", 26: "large list view"}  # elements may share bytes
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # headers in Message.fbs
BLOCK, NODE, BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq"), struct.Struct("<qq")


def check_arrow_file(data: bytes) -> int:
    """Return the number of elements of all arrays; raise ValueError if reading may need disproportionate memory."""
    try:
        return _ArrowFile(data).check()
    except struct.error as error:
        raise ValueError(f"an offset points outside the file: {error}") from error


class _ArrowFile:
    """Traverses a file as Arrow does; offsets are relative to its first byte."""

    def __init__(self, data: bytes) -> None:
        self.data, self.budget, self.elements = data, len(data), 0

    def check(self) -> int:
        end = len(self.data) - len(MAGIC) - 4
        self._require(end > 0 and self.data.startswith(MAGIC) and self.data.endswith(MAGIC), "no Arrow file")
        length = self._number("<i", end)
        self._require(0 < length <= end, "no footer")
        footer = self._table(end - length)
        self._schema(self._field_offset(footer, 1))
        self._key_values(self._field_offset(footer, 4))
        for dictionary in self._blocks(self._field_offset(footer, 2)):
            batch = self._message(dictionary, DICTIONARY_BATCH)
            self._batch(self._table(self._field_offset(batch, 1)), dictionary[2])
        blocks = list(self._blocks(self._field_offset(footer, 3)))
        self._require(len(blocks) == 1, "several batches, or none")
        self._batch(self._message(blocks[0], RECORD_BATCH), blocks[0][2])
        self._require(self.elements <= 8 * len(self.data), "more elements than bits")
        return self.elements

    def _schema(self, at: int) -> None:
        schema = self._table(at)
        for field in self._tables(self._field_offset(schema, 1)):
            self._field(field, 0)
        self._key_values(self._field_offset(schema, 2))
        self._list(self._field_offset(schema, 3), 8)

    def _field(self, field: int, depth: int) -> None:
        self._require(depth < MAX_DEPTH, f"types inside types, more than {MAX_DEPTH} deep")
        self._list(self._field_offset(field, 0), 1)
        kind = self._number("<B", self._field_offset(field, 2)) if self._field_offset(field, 2) else 0
        self._require(kind not in SHARED_TYPES, f"a {SHARED_TYPES.get(kind)} array")
        type_ = self._table(self._field_offset(field, 3))
        if kind in (TIMESTAMP, UNION):
            self._list(self._field_offset(type_, 1), 1 if kind == TIMESTAMP else 4)
        children = self._tables(self._field_offset(field, 5))
        if encoding := self._field_offset(field, 4):
            self._require(not children, "a dictionary of nested values")
            if index := self._field_offset(self._table(encoding), 1):
                self._table(index)
        for child in children:
            self._field(child, depth + 1)
        self._key_values(self._field_offset(field, 6))

    def _message(self, block: tuple[int, int, int], kind: int) -> int:
        """Return the header of a message, and charge its body."""
        start, head, body = block
        self._require(min(start, body) >= 0 and head >= 8 and start + head + body <= len(self.data), "no message")
        self._require(self._number("<I", start) == CONTINUATION, "a message of an old version")
        message = self._table(start + 8)
        stated = self._field_offset(message, 3)
        self._require(self._number("<q", stated) == body if stated else body == 0, "two lengths of a body")
        self._require(self._number("<B", self._field_offset(message, 1)) == kind, "another kind of message")
        self._key_values(self._field_offset(message, 4))
        self._charge(body)
        return self._table(self._field_offset(message, 2))

    def _batch(self, batch: int, body: int) -> None:
        self._require(not self._field_offset(batch, 3), "a compressed batch")
        for length, _ in self._structs(self._field_offset(batch, 1), NODE):
            self._require(length >= 0, "a negative length")
            self.elements += length
        sizes = [size for _, size in self._structs(self._field_offset(batch, 2), BUFFER)]
        self._require(min(sizes, default=0) >= 0 and sum(sizes) <= body, "buffers that overlap")
        start, count = self._list(self._field_offset(batch, 4), 8)
        views = [self._number("<q", start + 8 * i) for i in range(count)]
        self._require(min(views, default=0) >= 0 and sum(views) <= len(sizes), "more buffers than there are")

    def _blocks(self, at: int) -> Iterator[tuple[int, int, int]]:
        return self._structs(at, BLOCK)  # type: ignore[return-value]

    # FlatBuffers: a table starts with the distance to its vtable, which has the offset of each field, 0 if absent

    def _table(self, at: int) -> int:
        """Return the table that an offset points to."""
        self._require(at > 0, "a missing table")
        table = at + self._number("<I", at)
        self._charge(self._number("<H", self._vtable(table) + 2))
        return table

    def _vtable(self, table: int) -> int:
        return table - self._number("<i", table)

    def _field_offset(self, table: int, field: int) -> int:
        """Return the offset of a field of a table; 0 if it is absent."""
        vtable = self._vtable(table)
        if 4 + 2 * field >= self._number("<H", vtable):
            return 0
        offset = self._number("<H", vtable + 4 + 2 * field)
        return table + offset if offset else 0

    def _list(self, at: int, width: int) -> tuple[int, int]:
        """Return the start and length of a list or a text; (0, 0) if it is absent."""
        if not at:
            return 0, 0
        start = at + self._number("<I", at)
        count = self._number("<I", start)
        self._charge(4 + width * count)
        self._require(start + 4 + width * count <= len(self.data), "a truncated list")
        return start + 4, count

    def _tables(self, at: int) -> list[int]:
        start, count = self._list(at, 4)
        return [self._table(start + 4 * i) for i in range(count)]

    def _key_values(self, at: int) -> None:
        """Charge pairs of a key and a value."""
        for pair in self._tables(at):
            for field in (0, 1):
                self._list(self._field_offset(pair, field), 1)

    def _structs(self, at: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        start, count = self._list(at, form.size)
        return form.iter_unpack(self.data[start : start + form.size * count])

    def _number(self, form: str, at: int) -> int:
        self._require(at >= 0, "an offset that points outside the file")
        number: int = struct.unpack_from(form, self.data, at)[0]
        return number

    def _charge(self, size: int) -> None:
        self.budget -= size
        self._require(self.budget >= 0, "parts that are used more than once")

    def _require(self, condition: bool, fault: str) -> None:
        if not condition:
            raise ValueError(f"the bytes have {fault}")
