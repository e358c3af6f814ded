"""Structure of the serialised bytes of KLL and REQ sketches of DataSketches.

The library trusts the numbers of levels and items in the bytes, and reads beyond its memory if they are wrong. The
checks here are those that it leaves out.
"""

import struct

from quantide.errors import CorruptBytesError

PREAMBLE = struct.Struct("<4BHBB")
KLL_COUNTS = struct.Struct("<QHBB")  # n, the smallest k of merged sketches, the number of levels
REQ_LEVEL = struct.Struct("<QfBBHI")  # of which [2] is the exponent of the weight, [5] the number of items
KLL_EMPTY, KLL_SINGLE = 1, 4  # flags
REQ_EMPTY, REQ_RAW = 4, 16
KLL_MIN_K, KLL_MAX_LEVELS = 8, 60
ITEM_BYTES = {"doubles": 8, "floats": 4, "ints": 4}


def check_structure(data: bytes, kind: str) -> None:
    """Raise unless all levels of a sketch of a kind, such as "kll_doubles", are within its bytes."""
    family, _, items = kind.partition("_")
    try:
        (_check_kll if family == "kll" else _check_req)(data, ITEM_BYTES[items])
    except struct.error as error:
        raise CorruptBytesError(f"these {len(data)} bytes are not a {kind} sketch: they end too early") from error


def _check_kll(data: bytes, item: int) -> None:
    *_, flags, k, m, _ = PREAMBLE.unpack_from(data)
    if flags & (KLL_EMPTY | KLL_SINGLE):
        return
    _, min_k, count, _ = KLL_COUNTS.unpack_from(data, PREAMBLE.size)
    at = PREAMBLE.size + KLL_COUNTS.size
    if not KLL_MIN_K <= min_k <= k or not 1 <= count <= KLL_MAX_LEVELS:
        raise CorruptBytesError(f"these bytes are not a KLL sketch: {count} levels, of k={k} and a smallest k={min_k}")
    capacity = sum(max(m, _level_capacity(k, depth)) for depth in range(count))
    levels = [*struct.unpack_from(f"<{count}I", data, at), capacity]
    if levels != sorted(levels) or len(data) < at + 4 * count + item * (2 + capacity - levels[0]):
        raise CorruptBytesError("these bytes are not a KLL sketch: its levels are not one after the other")


def _level_capacity(k: int, depth: int) -> int:
    """Return the number of items of a level, two thirds of the one above it, rounded as in the library."""
    if depth <= 30:
        size: int = (2 * k << depth) // 3**depth
        return (size + 1) >> 1
    return _level_capacity(_level_capacity(k, depth // 2), depth - depth // 2)


def _check_req(data: bytes, item: int) -> None:
    *_, flags, _, levels, raw_items = PREAMBLE.unpack_from(data)
    if flags & REQ_EMPTY:
        return
    at = PREAMBLE.size + (8 + 2 * item if levels > 1 else 0)  # n, smallest and largest value
    counts = [raw_items] if flags & REQ_RAW and levels == 1 else list[int]()
    for level in range(0 if counts else levels):
        _, _, exponent, _, _, count = REQ_LEVEL.unpack_from(data, at)
        if exponent != level:
            raise CorruptBytesError(f"these bytes are not a REQ sketch: level {level} has weights of 2^{exponent}")
        at += REQ_LEVEL.size + count * item
        counts.append(count)
    if not counts or not counts[0] or len(data) < at:
        raise CorruptBytesError(f"these bytes are not a REQ sketch: {levels} levels, with items {counts}")
