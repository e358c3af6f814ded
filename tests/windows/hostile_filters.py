"""Filters that a stranger would write: Arrow files whose few bytes stand for very many.

`python -m tests.windows.hostile_filters NAME` reads one; it prints the error that refuses the filter, its length, and
by how many bytes memory rose.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quantide import ConstrainedWindow, errors, last, where
from quantide.windows.arrow_file import _ArrowFile
from quantide.windows.filter_expressions import filter_text, pack_filter

PLAIN = where(pc.field("a") == 1)


class Positions(_ArrowFile):
    """Positions of the parts of a file."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.lists: list[tuple[int, int, int]] = []
        self.check()

    def _list(self, at: int, width: int) -> tuple[int, int]:
        start, count = super()._list(at, width)
        self.lists.append((start, count, width))
        return start, count

    def of(self, width: int) -> tuple[int, int]:
        """Return the start and length of the longest list of elements of a width."""
        start, count, _ = max((one for one in self.lists if one[2] == width), key=lambda one: one[1])
        return start, count


def window_of(filter: bytes, text: str) -> bytes:
    """Return the bytes of a window with another filter, and a valid checksum."""
    [(name, plain)] = PLAIN.filters.items()
    whole = ConstrainedWindow(last(5) & PLAIN, 0.5).to_bytes()[:-4]
    for old, new in ((filter_text(name).encode(), text.encode()), (pack_filter(plain), filter)):
        whole = whole.replace(struct.pack("<Q", len(old)) + old, struct.pack("<Q", len(new)) + new)
    return whole + struct.pack("<I", zlib.crc32(whole))


def compressed(codec: str) -> Callable[[], bytes]:
    """Return a literal of 50 MB, compressed into a few kilobytes."""

    def made() -> bytes:
        table = pa.ipc.open_file(pa.py_buffer(pack_filter(pc.field("a") == "x"))).read_all()
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        long = pa.table([pa.array([b"\0" * 50_000_000]).cast(pa.string())], schema=table.schema)
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            writer.write_table(long)
        return bytes(sink.getvalue())

    return made


def repeated_token() -> bytes:
    """Return a name of 60,000 characters that 6,000 tokens point to."""
    expression = pc.field("x" * 60_000) == 1
    for i in range(3000):
        expression = pc.or_(expression, pc.field(str(i))) if i % 2 else pc.invert(expression)
        if len(pack_filter(expression)) > 300_000:
            break
    data = bytearray(pack_filter(expression))
    start, count = Positions(bytes(data)).of(4)
    targets = [start + 4 * i + struct.unpack_from("<I", data, start + 4 * i)[0] for i in range(count)]
    longest = max(targets, key=lambda table: _length(data, table))
    for i in range(count):
        struct.pack_into("<I", data, start + 4 * i, longest - start - 4 * i)
    return bytes(data)


def _length(data: bytearray, pair: int) -> int:
    """Return the offset of the value of a key-value pair."""
    fields = pair - struct.unpack_from("<i", data, pair)[0]
    at = pair + struct.unpack_from("<H", data, fields + 6)[0]
    return int(struct.unpack_from("<I", data, at + struct.unpack_from("<I", data, at)[0])[0])


def overlapping() -> bytes:
    """Return a literal of 100,000 characters that 700 literals share."""
    data = bytearray(pack_filter(_balanced(["y" * 100_000] + ["x"] * 700)))
    start, count = Positions(bytes(data)).of(16)
    buffers = [struct.unpack_from("<qq", data, start + 16 * i) for i in range(count)]
    largest = max(range(count), key=lambda i: buffers[i][1])
    for i in range(count):
        struct.pack_into("<qq", data, start + 16 * i, *buffers[largest - largest % 3 + i % 3])
    return bytes(data)


def _balanced(literals: list[str]) -> Any:
    if len(literals) == 1:
        return pc.field("a") == literals[0]
    half = len(literals) // 2
    return _balanced(literals[:half]) | _balanced(literals[half:])


def nulls() -> bytes:
    """Return a literal list of 2**28 nulls, which take no bytes and are printed one by one."""
    data = bytearray(pack_filter(pc.scalar(pa.scalar([None] * 77_777, pa.list_(pa.null()))).is_null()))
    for form in ("<q", "<i"):
        for at in _offsets_of(data, struct.pack(form, 77_777)):
            struct.pack_into(form, data, at, 2**28)
    return bytes(data)


def _offsets_of(data: bytearray, pattern: bytes) -> list[int]:
    offsets, at = [], data.find(pattern)
    while at >= 0:
        offsets.append(at)
        at = data.find(pattern, at + 1)
    return offsets


def long_type() -> bytes:
    """Return 20,000 lists in a list; before each, a type name of 30,000 characters is printed."""
    kind = pa.list_(pa.list_(pa.struct([pa.field("z" * 30_000, pa.int8())])))
    return pack_filter(pc.scalar(pa.scalar([[]] * 20_000, kind)).is_null())


def list_views() -> bytes:
    """Return lists of lists that are all the same: 100 of 100 of 100 of 100."""
    inner: Any = pa.array(range(100), pa.int8())
    for _ in range(4):
        ranges = pa.array([0] * 100, pa.int32()), pa.array([100] * 100, pa.int32())
        inner = pa.ListViewArray.from_arrays(*ranges, inner)
    return pack_filter(pc.scalar(pa.ListArray.from_arrays([0, 100], inner)[0]).is_null())


def string_views() -> bytes:
    """Return a batch that declares two billion buffers of views."""
    data = bytearray(pack_filter(pc.field("a").isin(pa.array(["x" * 40, "y" * 50], pa.string_view()))))
    at, offsets = Positions(bytes(data)), []
    for start, count, width in at.lists:
        if width == 8 and count == 1 and struct.unpack_from("<q", data, start)[0] == 1:
            offsets.append(start)
    struct.pack_into("<q", data, offsets[-1], 2**31 - 1)
    return bytes(data)


def deep() -> bytes:
    """Return 10,000 nested calls, which Arrow itself does not write."""
    table = pa.ipc.open_file(pa.py_buffer(pack_filter(pc.field("a") == 1))).read_all()
    inner = [("call", "equal"), ("field_ref", "a"), ("literal", "0"), ("end", "equal")]
    tokens = [("call", "invert")] * 10_000 + inner + [("end", "invert")] * 10_000
    batch = table.replace_schema_metadata(pa.KeyValueMetadata(tokens)).to_batches()[0]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


FILTERS: dict[str, Callable[[], bytes]] = {
    "zstd": compressed("zstd"),
    "lz4": compressed("lz4"),
    "repeated token": repeated_token,
    "overlapping": overlapping,
    "nulls": nulls,
    "long type": long_type,
    "list views": list_views,
    "string views": string_views,
    "deep": deep,
}


def peak() -> int:
    """Return the peak memory of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main(name: str) -> None:
    """Read a filter that another process made, so that only the memory of reading counts."""
    blob = Path(name).read_bytes()
    ConstrainedWindow.from_bytes(ConstrainedWindow(last(5) & PLAIN, 0.5).to_bytes())
    before = peak()
    try:
        ConstrainedWindow.from_bytes(blob)
        print("taken", end=" ")
    except errors.CorruptBytesError as error:
        print("refused:", str(error)[:200].replace("\n", " "), end=" ")
    print(len(blob), peak() - before)


if __name__ == "__main__":
    main(sys.argv[1])
