"""Items of a REQ sketch of DataSketches, from its serialised bytes.

The iterator of the library reads beyond the memory of a sketch that is empty or has an empty level, which can end the
process. Serialising such a sketch is safe.
"""

from typing import Any

import numpy as np

from quantide.errors import HistogramError
from quantide.histograms.sketch_structure import PREAMBLE, REQ_LEVEL, REQ_RAW
from quantide.typing import Array, Ints

ESTIMATION_BYTES = 16  # n, smallest and largest value, of a sketch that has dropped values
MAX_EXPONENT = 53


def read_req_items(sketch: Any, is_integer: bool) -> tuple[Array, Ints]:
    """Return the values of a sketch and their weights, as they are stored."""
    dtype = np.dtype("<i4" if is_integer else "<f4")
    if sketch.is_empty():
        return np.empty(0, dtype=dtype), np.empty(0, dtype=np.int64)
    data = sketch.serialize()
    *_, flags, _, levels, raw_items = PREAMBLE.unpack_from(data)
    at = PREAMBLE.size + (ESTIMATION_BYTES if sketch.is_estimation_mode() else 0)
    if flags & REQ_RAW:
        return np.frombuffer(data, dtype, raw_items, at), np.ones(raw_items, dtype=np.int64)
    parts, weights = list[Array](), list[Ints]()
    for _ in range(levels):
        _, _, exponent, _, _, count = REQ_LEVEL.unpack_from(data, at)
        if exponent > MAX_EXPONENT:
            raise HistogramError(f"a level of the sketch has weights of 2^{exponent}; it cannot have so many values")
        parts.append(np.frombuffer(data, dtype, count, at + REQ_LEVEL.size))
        weights.append(np.full(count, 1 << exponent, dtype=np.int64))
        at += REQ_LEVEL.size + count * dtype.itemsize
    return np.concatenate(parts), np.concatenate(weights)
