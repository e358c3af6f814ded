"""A Parquet file whose footer contradicts itself: pyarrow's metadata of a chunk ends the process."""

import io
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from quantide.store.parquet_footer import read_footer


def change_footer(data: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Return a file whose footer was changed."""
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = bytearray(data[-8 - size : -8])
    change(footer)
    return data[: -8 - size] + bytes(footer) + struct.pack("<I", len(footer)) + b"PAR1"


def flip_bit(data: bytes, offset: int, bit: int) -> bytes:
    """Return a file with one flipped bit of the footer."""

    def flip(footer: bytearray) -> None:
        footer[offset] ^= 1 << bit

    return change_footer(data, flip)


CONTRADICTIONS = {
    "type": (18, 1, 0x0A),  # of the column in the schema: DOUBLE becomes FLOAT, unlike that of the column's chunk
    "levels": (20, 1, 0x02),  # the repetition type in the schema: OPTIONAL becomes REQUIRED, with a histogram of two
}
"""Offset in the footer, bit to flip, and byte before of a contradiction between a chunk and the schema."""


def contradicting_file(column: str = "value", contradiction: str = "type") -> bytes:
    """Return a file of a column of doubles whose schema was changed by one flipped bit."""
    (offset, bit, before), data = CONTRADICTIONS[contradiction], _sound_file(column)
    footer = struct.unpack("<I", data[-8:-4])[0]
    assert data[len(data) - 8 - footer + offset] == before, "pyarrow writes another footer"
    return flip_bit(data, offset, bit)


def _sound_file(column: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({column: [1.0, 2.0]}), sink, store_schema=False)
    return sink.getvalue()


def contradicting_files(column: str = "value") -> list[bytes]:
    """Return all files that differ by one flipped bit, and whose statistics contradict their type."""
    data, files = _sound_file(column), list[bytes]()
    for offset in range(struct.unpack("<I", data[-8:-4])[0]):
        for bit in range(8):
            changed = flip_bit(data, offset, bit)
            try:
                read_footer(io.BytesIO(changed))
            except (OSError, ValueError, pa.ArrowException) as error:
                files += [changed] if "contradict" in str(error) else []
    return files
