"""Bit packing: variable-length bytes for single numbers, fixed bit widths for rows of numbers."""

import numpy as np

from quantide.kernels.jit import compiled
from quantide.typing import Bytes, Words

ONE = np.uint64(1)
LOW_BYTE = np.uint64(0xFF)


@compiled
def bit_width(x: np.uint64) -> int:
    """Number of bits of x; 0 for 0."""
    bits = 0
    while x:
        x >>= ONE
        bits += 1
    return bits


@compiled
def varint_size(x: np.uint64) -> int:
    return max(1, (bit_width(x) + 6) // 7)


@compiled
def put_varint(out: Bytes, offset: int, x: np.uint64) -> int:
    while x > np.uint64(127):
        out[offset] = np.uint8((x & np.uint64(127)) | np.uint64(128))
        x >>= np.uint64(7)
        offset += 1
    out[offset] = np.uint8(x)
    return offset + 1


@compiled
def get_varint(data: Bytes, offset: int, end: int) -> tuple[np.uint64, int]:
    """Return a number and the offset after it; offset -1 if the bytes end first or it has over nine of them."""
    x = np.uint64(0)
    for k in range(9):
        if offset >= end:
            return x, -1
        byte = np.uint64(data[offset])
        x |= (byte & np.uint64(127)) << np.uint64(7 * k)
        offset += 1
        if byte < np.uint64(128):
            return x, offset
    return x, -1


@compiled
def put_bits(out: Bytes, offset: int, numbers: Words, count: int, width: int) -> int:
    """Write numbers of `width` bits each, lowest bit first, from byte `offset` on; return the offset after them."""
    bit = 0
    for k in range(count):
        x = numbers[k]
        remaining = width
        while remaining > 0:
            free = 8 - bit
            out[offset] |= np.uint8((x << np.uint64(bit)) & LOW_BYTE)
            taken = min(free, remaining)
            x >>= np.uint64(taken)
            remaining -= taken
            bit += taken
            if bit == 8:
                bit = 0
                offset += 1
    return offset + 1 if bit else offset


@compiled
def get_bits(data: Bytes, offset: int, numbers: Words, count: int, width: int) -> int:
    """Read what put_bits() wrote; return the offset after it."""
    bit = 0
    for k in range(count):
        x = np.uint64(0)
        filled = 0
        while filled < width:
            taken = min(8 - bit, width - filled)
            piece = (np.uint64(data[offset]) >> np.uint64(bit)) & ((ONE << np.uint64(taken)) - ONE)
            x |= piece << np.uint64(filled)
            filled += taken
            bit += taken
            if bit == 8:
                bit = 0
                offset += 1
        numbers[k] = x
    return offset + 1 if bit else offset
