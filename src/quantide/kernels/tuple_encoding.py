"""Encoding of summaries as bytes, any number in one call. docs/format.md describes the layout."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.bit_packing import (
    LOW_BYTE,
    ONE,
    bit_width,
    get_bits,
    get_varint,
    put_bits,
    put_varint,
    varint_size,
)
from quantide.kernels.crc32 import crc32
from quantide.kernels.jit import compiled, pure
from quantide.typing import Bytes, Ints, Words

BLOCK = 64  # tuples that share their bit widths


@compiled
def compute_deltas(
    ordinals: Words, rmin: Ints, rmax: Ints, start: int, count: int, out: NDArray[np.uint64], widths: Ints
) -> None:
    """Compute three rows of differences of `count` tuples from `start` on, and the bit width of each row."""
    for row in range(3):
        widths[row] = 0
    for k in range(count):
        i = start + k
        out[0, k] = ordinals[i] - ordinals[i - 1]
        out[1, k] = np.uint64(rmin[i] - rmin[i - 1] - 1)
        out[2, k] = np.uint64(rmax[i] - rmin[i])
        for row in range(3):
            widths[row] = max(widths[row], bit_width(out[row, k]))


@pure
def encode(
    ordinals: Words,
    rmin: Ints,
    rmax: Ints,
    bounds: Ints,
    counts: Ints,
    nulls: Ints,
    nans: Ints,
    prefix: Bytes,
) -> tuple[Bytes, Ints]:
    """Return the bytes of all summaries in one array, and the offset of each."""
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    deltas = np.empty((3, BLOCK), dtype=np.uint64)
    widths = np.zeros(3, dtype=np.int64)
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        size = len(prefix) + 4
        for x in (counts[s], end - start, nulls[s], nans[s]):
            size += varint_size(np.uint64(x))
        if end > start:
            size += 8 + varint_size(np.uint64(rmin[start] - 1)) + varint_size(np.uint64(rmax[start] - rmin[start]))
        for i in range(start + 1, end, BLOCK):
            count = min(BLOCK, end - i)
            compute_deltas(ordinals, rmin, rmax, i, count, deltas, widths)
            size += 3
            for row in range(3):
                size += (widths[row] * count + 7) // 8
        offsets[s + 1] = offsets[s] + size
    out = np.zeros(offsets[-1], dtype=np.uint8)
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        offset = offsets[s]
        out[offset : offset + len(prefix)] = prefix
        offset += len(prefix)
        for x in (counts[s], end - start, nulls[s], nans[s]):
            offset = put_varint(out, offset, np.uint64(x))
        if end > start:
            for k in range(8):
                out[offset + k] = np.uint8((ordinals[start] >> np.uint64(8 * k)) & LOW_BYTE)
            offset = put_varint(out, offset + 8, np.uint64(rmin[start] - 1))
            offset = put_varint(out, offset, np.uint64(rmax[start] - rmin[start]))
        for i in range(start + 1, end, BLOCK):
            count = min(BLOCK, end - i)
            compute_deltas(ordinals, rmin, rmax, i, count, deltas, widths)
            for row in range(3):
                out[offset + row] = widths[row]
            offset += 3
            for row in range(3):
                offset = put_bits(out, offset, deltas[row], count, widths[row])
        crc = crc32(out, offsets[s], offset)
        for k in range(4):
            out[offset + k] = np.uint8((crc >> np.uint32(8 * k)) & np.uint32(0xFF))
    return out, offsets


OK, TRUNCATED, CHECKSUM, HEADER, COUNTS, RANKS = 0, 1, 2, 3, 4, 5


@compiled
def scan(
    data: Bytes,
    offsets: Ints,
    prefix: Bytes,
    max_count: int,
    sizes: Ints,
    tuple_offsets: Ints,
    counts: Ints,
    nulls: Ints,
    nans: Ints,
) -> tuple[int, int]:
    """Check the frame of every summary before anything is allocated; return (OK, 0), or the fault and the summary.

    Fill in the number of tuples, the offset after the four counts, and the counts.
    """
    for s in range(len(offsets) - 1):
        start, end = offsets[s], offsets[s + 1] - 4
        if end - start < len(prefix) + 4:
            return TRUNCATED, s
        stored = np.uint32(0)
        for k in range(4):
            stored |= np.uint32(data[end + k]) << np.uint32(8 * k)
        if crc32(data, start, end) != stored:
            return CHECKSUM, s
        for k in range(len(prefix)):
            if data[start + k] != prefix[k]:
                return HEADER, s
        offset = start + len(prefix)
        n, offset = get_varint(data, offset, end)
        m, offset = get_varint(data, offset, end) if offset >= 0 else (n, -1)
        null_count, offset = get_varint(data, offset, end) if offset >= 0 else (n, -1)
        nan_count, offset = get_varint(data, offset, end) if offset >= 0 else (n, -1)
        if offset < 0:
            return TRUNCATED, s
        limit = np.uint64(max_count)
        if n > limit or m > n or (m == 0) != (n == 0) or null_count > limit or nan_count > limit:
            return COUNTS, s
        tuple_offsets[s] = offset
        if m:
            offset += 8
            low, offset = get_varint(data, offset, end)
            _, offset = get_varint(data, offset, end) if offset >= 0 else (low, -1)
            if offset < 0:
                return TRUNCATED, s
        remaining = int(m) - 1
        while remaining > 0:
            count = min(BLOCK, remaining)
            if offset + 3 > end:
                return TRUNCATED, s
            size = 3
            for row in range(3):
                if data[offset + row] > 64:
                    return HEADER, s
                size += (int(data[offset + row]) * count + 7) // 8
            offset += size
            remaining -= count
        if offset != end:
            return TRUNCATED, s
        sizes[s], counts[s], nulls[s], nans[s] = (
            np.int64(m),
            np.int64(n),
            np.int64(null_count),
            np.int64(nan_count),
        )
    return OK, 0


@compiled
def decode(
    data: Bytes, tuple_offsets: Ints, bounds: Ints, counts: Ints, ordinals: Words, rmin: Ints, rmax: Ints
) -> tuple[int, int]:
    """Fill in the tuples of scanned summaries; check that values and ranks are in order."""
    deltas = np.empty((3, BLOCK), dtype=np.uint64)
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        if start == end:
            continue
        offset = tuple_offsets[s]
        n = np.uint64(counts[s])
        ordinal = np.uint64(0)
        for k in range(8):
            ordinal |= np.uint64(data[offset + k]) << np.uint64(8 * k)
        low, offset = get_varint(data, offset + 8, len(data))
        spread, offset = get_varint(data, offset, len(data))
        if low > np.uint64(0) or spread > n:  # the first tuple is the minimum
            return RANKS, s
        low += ONE
        i = start
        previous = np.uint64(0)
        while True:
            high = low + spread
            if low > n or high > n or high < previous:
                return RANKS, s
            ordinals[i], rmin[i], rmax[i] = ordinal, np.int64(low), np.int64(high)
            previous = high
            k = (i - start) % BLOCK
            i += 1
            if i == end:
                if high != n:  # the last tuple is the maximum
                    return RANKS, s
                break
            if k == 0:
                count = min(BLOCK, end - i)
                widths_offset = offset
                offset += 3
                for row in range(3):
                    offset = get_bits(data, offset, deltas[row], count, int(data[widths_offset + row]))
            if ordinal + deltas[0, k] < ordinal or deltas[1, k] >= n or deltas[2, k] > n:
                return RANKS, s
            ordinal += deltas[0, k]
            low += deltas[1, k] + ONE
            spread = deltas[2, k]
    return OK, 0
