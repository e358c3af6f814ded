"""Numbers in few bits: variable-length bytes for single ones, fixed widths for rows of them."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

U1 = np.uint64(1)
LOW8 = np.uint64(0xFF)


@compiled
def bit_width(x: np.uint64) -> int:
    """Bits needed for x; none for 0."""
    bits = 0
    while x:
        x >>= U1
        bits += 1
    return bits


@compiled
def varint_size(x: np.uint64) -> int:
    return max(1, (bit_width(x) + 6) // 7)


@compiled
def put_varint(out: Bytes, at: int, x: np.uint64) -> int:
    while x > np.uint64(127):
        out[at] = np.uint8((x & np.uint64(127)) | np.uint64(128))
        x >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(x)
    return at + 1


@compiled
def get_varint(data: Bytes, at: int, end: int) -> tuple[np.uint64, int]:
    """The number and the place after it; place -1 when the bytes end first or it has over nine of them."""
    x = np.uint64(0)
    for k in range(9):
        if at >= end:
            return x, -1
        byte = np.uint64(data[at])
        x |= (byte & np.uint64(127)) << np.uint64(7 * k)
        at += 1
        if byte < np.uint64(128):
            return x, at
    return x, -1


@compiled
def put_bits(out: Bytes, at: int, numbers: Words, count: int, width: int) -> int:
    """Write numbers of `width` bits each, lowest bit first, from byte `at` on; the place after them."""
    bit = 0
    for k in range(count):
        x = numbers[k]
        left = width
        while left > 0:
            room = 8 - bit
            out[at] |= np.uint8((x << np.uint64(bit)) & LOW8)
            taken = min(room, left)
            x >>= np.uint64(taken)
            left -= taken
            bit += taken
            if bit == 8:
                bit = 0
                at += 1
    return at + 1 if bit else at


@compiled
def get_bits(data: Bytes, at: int, numbers: Words, count: int, width: int) -> int:
    bit = 0
    for k in range(count):
        x = np.uint64(0)
        have = 0
        while have < width:
            taken = min(8 - bit, width - have)
            piece = (np.uint64(data[at]) >> np.uint64(bit)) & ((U1 << np.uint64(taken)) - U1)
            x |= piece << np.uint64(have)
            have += taken
            bit += taken
            if bit == 8:
                bit = 0
                at += 1
        numbers[k] = x
    return at + 1 if bit else at
