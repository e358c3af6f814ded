"""Summaries to bytes and back, any number in one call. docs/format.md describes the layout."""

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.bits import (
    LOW8,
    U1,
    Bytes,
    Words,
    bit_width,
    get_bits,
    get_varint,
    put_bits,
    put_varint,
    varint_size,
)
from quantide.kernels.checksum import crc32
from quantide.kernels.compiled import compiled, pure

Ints = NDArray[np.int64]

BLOCK = 64  # tuples that share their bit widths


@compiled
def block_deltas(
    ordinals: Words, rmin: Ints, rmax: Ints, start: int, count: int, out: NDArray[np.uint64], widths: Ints
) -> None:
    """What is stored of `count` tuples from `start` on: three rows of differences, and the bits each row needs."""
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
    """The bytes of every summary, one after the other, and where each starts."""
    places = np.zeros(len(counts) + 1, dtype=np.int64)
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
            block_deltas(ordinals, rmin, rmax, i, count, deltas, widths)
            size += 3
            for row in range(3):
                size += (widths[row] * count + 7) // 8
        places[s + 1] = places[s] + size
    out = np.zeros(places[-1], dtype=np.uint8)
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        at = places[s]
        out[at : at + len(prefix)] = prefix
        at += len(prefix)
        for x in (counts[s], end - start, nulls[s], nans[s]):
            at = put_varint(out, at, np.uint64(x))
        if end > start:
            for k in range(8):
                out[at + k] = np.uint8((ordinals[start] >> np.uint64(8 * k)) & LOW8)
            at = put_varint(out, at + 8, np.uint64(rmin[start] - 1))
            at = put_varint(out, at, np.uint64(rmax[start] - rmin[start]))
        for i in range(start + 1, end, BLOCK):
            count = min(BLOCK, end - i)
            block_deltas(ordinals, rmin, rmax, i, count, deltas, widths)
            for row in range(3):
                out[at + row] = widths[row]
            at += 3
            for row in range(3):
                at = put_bits(out, at, deltas[row], count, widths[row])
        crc = crc32(out, places[s], at)
        for k in range(4):
            out[at + k] = np.uint8((crc >> np.uint32(8 * k)) & np.uint32(0xFF))
    return out, places


OK, CUT, CHECKSUM, HEADER, COUNTS, RANKS = 0, 1, 2, 3, 4, 5


@compiled
def scan(
    data: Bytes,
    places: Ints,
    prefix: Bytes,
    most: int,
    sizes: Ints,
    head: Ints,
    counts: Ints,
    nulls: Ints,
    nans: Ints,
) -> tuple[int, int]:
    """Check the frame of every summary before anything is allocated: (0, 0), or what is wrong and where.

    Fills in the number of tuples, the place after the four counts, and the counts.
    """
    for s in range(len(places) - 1):
        start, end = places[s], places[s + 1] - 4
        if end - start < len(prefix) + 4:
            return CUT, s
        stored = np.uint32(0)
        for k in range(4):
            stored |= np.uint32(data[end + k]) << np.uint32(8 * k)
        if crc32(data, start, end) != stored:
            return CHECKSUM, s
        for k in range(len(prefix)):
            if data[start + k] != prefix[k]:
                return HEADER, s
        at = start + len(prefix)
        n, at = get_varint(data, at, end)
        m, at = get_varint(data, at, end) if at >= 0 else (n, -1)
        skipped, at = get_varint(data, at, end) if at >= 0 else (n, -1)
        not_numbers, at = get_varint(data, at, end) if at >= 0 else (n, -1)
        if at < 0:
            return CUT, s
        limit = np.uint64(most)
        if n > limit or m > n or (m == 0) != (n == 0) or skipped > limit or not_numbers > limit:
            return COUNTS, s
        head[s] = at
        if m:
            at += 8
            low, at = get_varint(data, at, end)
            _, at = get_varint(data, at, end) if at >= 0 else (low, -1)
            if at < 0:
                return CUT, s
        left = int(m) - 1
        while left > 0:
            count = min(BLOCK, left)
            if at + 3 > end:
                return CUT, s
            need = 3
            for row in range(3):
                if data[at + row] > 64:
                    return HEADER, s
                need += (int(data[at + row]) * count + 7) // 8
            at += need
            left -= count
        if at != end:
            return CUT, s
        sizes[s], counts[s], nulls[s], nans[s] = (
            np.int64(m),
            np.int64(n),
            np.int64(skipped),
            np.int64(not_numbers),
        )
    return OK, 0


@compiled
def decode(
    data: Bytes, head: Ints, bounds: Ints, counts: Ints, ordinals: Words, rmin: Ints, rmax: Ints
) -> tuple[int, int]:
    """Fill in the tuples of scanned summaries, checking that values and ranks are in order."""
    deltas = np.empty((3, BLOCK), dtype=np.uint64)
    for s in range(len(counts)):
        start, end = bounds[s], bounds[s + 1]
        if start == end:
            continue
        at = head[s]
        n = np.uint64(counts[s])
        ordinal = np.uint64(0)
        for k in range(8):
            ordinal |= np.uint64(data[at + k]) << np.uint64(8 * k)
        low, at = get_varint(data, at + 8, len(data))
        spread, at = get_varint(data, at, len(data))
        if low > np.uint64(0) or spread > n:  # the first tuple is the minimum
            return RANKS, s
        low += U1
        i = start
        before = np.uint64(0)
        while True:
            high = low + spread
            if low > n or high > n or high < before:
                return RANKS, s
            ordinals[i], rmin[i], rmax[i] = ordinal, np.int64(low), np.int64(high)
            before = high
            k = (i - start) % BLOCK
            i += 1
            if i == end:
                if high != n:  # the last tuple is the maximum
                    return RANKS, s
                break
            if k == 0:
                count = min(BLOCK, end - i)
                place = at
                at += 3
                for row in range(3):
                    at = get_bits(data, at, deltas[row], count, int(data[place + row]))
            if ordinal + deltas[0, k] < ordinal or deltas[1, k] >= n or deltas[2, k] > n:
                return RANKS, s
            ordinal += deltas[0, k]
            low += deltas[1, k] + U1
            spread = deltas[2, k]
    return OK, 0
