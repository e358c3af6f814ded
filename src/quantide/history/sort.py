"""Sort: values as they came, with their keys or without, into sorted rows; and sorted pieces into one."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.segments import spread
from quantide.kernels.split import split
from quantide.store.rows import ALL, SortedRows
from quantide.summary.column import Column, has_nan, nan_error, store
from quantide.summary.grouping import group_by_code, sort_segments
from quantide.summary.keys import encode_keys
from quantide.summary.types import ValueType

A = TypeVar("A")
B = TypeVar("B")

LOT = 1 << 24  # values of a file of a chunk, about
SMALL = 1 << 20  # values that are not worth a second thread
SAMPLE = 1 << 12  # values that a pivot is chosen from


@dataclass(frozen=True)
class Chunk:
    """Rows that are about to be a chunk: `lots` make its files one by one, each above the one before."""

    rows: int
    nulls: int
    nans: int
    lots: Sequence[Callable[[], SortedRows]]


def in_threads(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """map() on all cores: sorting, reading and writing all let go of the interpreter."""
    items = list(items)
    if len(items) < 2:  # threads would cost more than a small append
        return [function(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))


def chunk_of(keys: pa.Array | None, column: Column, kind: ValueType, nan: str) -> Chunk:
    """Values and, where there are any, their keys, without nulls."""
    return _of_values(column, kind, nan) if keys is None else _of_keyed(keys, column, kind, nan)


def _of_values(column: Column, kind: ValueType, nan: str) -> Chunk:
    """Values are split into lots; each is sorted by the thread that writes it."""
    as_they_are = len(column.pieces) == 1 and column.pieces[0].dtype == kind.carrier
    values = column.pieces[0] if as_they_are else column.carried()
    if has_nan(values):
        if nan == "refuse":
            raise nan_error()
        values = values[~np.isnan(values)]
    lots = [_lot(part, kind) for part in _split(values, _halvings(len(values)))]
    return Chunk(len(values), column.nulls, len(column) - len(values), lots)


def _of_keyed(keys: pa.Array, column: Column, kind: ValueType, nan: str) -> Chunk:
    values, nans = column.carried(), 0
    if has_nan(values):
        if nan == "refuse":
            raise nan_error()
        good = ~np.isnan(values)
        keys, values, nans = keys.filter(pa.array(good)), values[good], len(values) - int(np.count_nonzero(good))
    codes, distinct = encode_keys(keys)
    grouped, bounds = group_by_code(codes, values, len(distinct))
    rows = SortedRows(kind, distinct, bounds, grouped)
    return Chunk(len(rows), column.nulls, nans, [lambda: rows] if len(rows) else [])


def merge_pieces(pieces: Sequence[SortedRows]) -> SortedRows:
    """Sorted pieces as one. Sorting anew is faster than merging: np.sort uses the processor's vector units."""
    kind, values = pieces[0].kind, np.concatenate([piece.values for piece in pieces])
    if all(piece.keys is ALL for piece in pieces):
        if len(pieces) > 1:
            values.sort()
        return SortedRows(kind, ALL, np.array([0, len(values)]), values)
    codes, distinct = encode_keys(pa.concat_arrays([piece.keys for piece in pieces]))
    counts = np.concatenate([piece.counts for piece in pieces])
    order = np.argsort(codes, kind="stable")
    places, _ = spread(np.concatenate(([0], np.cumsum(counts))), order)
    bounds = np.zeros(len(distinct) + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, weights=counts, minlength=len(distinct)).astype(np.int64), out=bounds[1:])
    grouped = values[places]
    sort_segments(grouped, bounds)
    return SortedRows(kind, distinct, bounds, grouped)


def _halvings(rows: int) -> int:
    """How often values are split in two: often enough for all cores, and for lots that are not too large."""
    lots = max(os.cpu_count() or 1 if rows >= SMALL else 1, -(-rows // LOT))
    return (lots - 1).bit_length()


def _split(values: NDArray[Any], halvings: int) -> list[NDArray[Any]]:
    """Arrays of our own, each above the one before, about equally long. Equal values stay together."""
    if halvings == 0:
        own = np.empty_like(values)
        store(own, values)
        return [own] if len(own) else []
    lots = [values]
    for _ in range(halvings):
        lots = [half for lot in lots for half in _halves(lot)]
    return lots


def _halves(values: NDArray[Any]) -> list[NDArray[Any]]:
    some = np.sort(values[:: max(1, len(values) // SAMPLE)])
    out, low = split(values, some[len(some) // 2 :][:1])
    return [half for half in (out[:low], out[low:]) if len(half)]


def _lot(values: NDArray[Any], kind: ValueType) -> Callable[[], SortedRows]:
    def sort() -> SortedRows:
        values.sort()
        return SortedRows(kind, ALL, np.array([0, len(values)]), values)

    return sort
