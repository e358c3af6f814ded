"""Sort: values as they came, with their keys or without, into sorted rows; and sorted pieces into one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.deal import deal
from quantide.kernels.segments import spread
from quantide.store.rows import ALL, SortedRows
from quantide.summary.grouping import group_by_code, sort_segments
from quantide.summary.keys import encode_keys
from quantide.summary.types import ValueType

LOT = 1 << 22  # values that are sorted, and written, by one task
SAMPLE = 1 << 10  # values of each lot that pivots are chosen from


def lots_of(values: NDArray[Any]) -> list[NDArray[Any]]:
    """The values in lots of about LOT, each lot above the one before, none of them sorted yet."""
    lots = min(-(-len(values) // LOT), 64)
    if lots <= 1:
        return [values]
    some = np.sort(values[:: max(1, len(values) // (SAMPLE * lots))])
    pivots = np.unique(some[np.arange(1, lots) * len(some) // lots])
    dealt, bounds = deal(values, pivots)
    return [dealt[start:end] for start, end in pairwise(bounds.tolist()) if end > start]


def sort_values(values: NDArray[Any], kind: ValueType) -> SortedRows:
    """Values without keys, sorted in place."""
    values.sort()
    return SortedRows(kind, ALL, np.array([0, len(values)]), values)


def sort_keyed(keys: pa.Array, values: NDArray[Any], kind: ValueType) -> SortedRows:
    """Values by (key, value)."""
    codes, distinct = encode_keys(keys)
    grouped, bounds = group_by_code(codes, values, len(distinct))
    return SortedRows(kind, distinct, bounds, grouped)


def merge_pieces(pieces: Sequence[SortedRows]) -> SortedRows:
    """Sorted pieces as one. Sorting anew is as fast as merging: np.sort uses the processor's vector units."""
    kind, values = pieces[0].kind, np.concatenate([piece.values for piece in pieces])
    if all(piece.keys is ALL for piece in pieces):
        return sort_values(values, kind)
    codes, distinct = encode_keys(pa.concat_arrays([piece.keys for piece in pieces]))
    counts = np.concatenate([piece.counts for piece in pieces])
    order = np.argsort(codes, kind="stable")
    places, _ = spread(np.concatenate(([0], np.cumsum(counts))), order)
    bounds = np.zeros(len(distinct) + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, weights=counts, minlength=len(distinct)).astype(np.int64), out=bounds[1:])
    grouped = values[places]
    sort_segments(grouped, bounds)
    return SortedRows(kind, distinct, bounds, grouped)
