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
from quantide.store.rows import ALL, SortedRows
from quantide.summary.column import Column, has_nan, nan_error, store
from quantide.summary.grouping import group_by_code, sort_segments
from quantide.summary.keys import encode_keys
from quantide.summary.types import ValueType

A = TypeVar("A")
B = TypeVar("B")

LOT = 1 << 22  # values that one thread sorts, and that one file of a chunk has, or about so many
SAMPLE = 1 << 10  # values of each sorted slice that pivots are chosen from


@dataclass(frozen=True)
class Chunk:
    """Rows that are about to be a chunk: `lots` make its files one by one, each above the one before."""

    rows: int
    nulls: int
    nans: int
    lots: Sequence[Callable[[], SortedRows]]


def in_threads(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """map() on all cores: sorting, reading and writing all let go of the interpreter."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))


def chunk_of(keys: pa.Array | None, column: Column, kind: ValueType, nan: str) -> Chunk:
    """Values and, where there are any, their keys, without nulls."""
    return _of_values(column, kind, nan) if keys is None else _of_keyed(keys, column, kind, nan)


def _of_values(column: Column, kind: ValueType, nan: str) -> Chunk:
    """Slices are sorted at once, each by a thread; lots are merged out of them when they are written."""
    whole = [piece[at : at + LOT] for piece in column.pieces for at in range(0, len(piece), LOT)]

    def sort(piece: NDArray[Any]) -> NDArray[Any]:
        out = np.empty(len(piece), dtype=kind.carrier)
        store(out, piece)
        out.sort()
        return out[: len(out) - _nans(out, nan)]

    slices = in_threads(sort, whole)
    rows = sum(map(len, slices))
    lots = [_lot(pieces, kind) for pieces in _dealt(slices, rows)]
    return Chunk(rows, column.nulls, len(column) - rows, lots)


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
    """Sorted pieces as one: numpy's stable sort finds what is sorted already, and merges it."""
    kind, values = pieces[0].kind, np.concatenate([piece.values for piece in pieces])
    if all(piece.keys is ALL for piece in pieces):
        if len(pieces) > 1:
            values.sort(kind="stable")
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


def _nans(values: NDArray[Any], nan: str) -> int:
    """How many NaN stand at the end of sorted values; none may when they are refused."""
    if values.dtype.kind != "f" or not len(values) or values[-1] == values[-1]:
        return 0
    if nan == "refuse":
        raise nan_error()
    return len(values) - int(np.searchsorted(values, np.nan, side="left"))


def _dealt(slices: list[NDArray[Any]], rows: int) -> list[list[NDArray[Any]]]:
    """For each lot its part of every slice. Equal values share a lot, so lots can be larger than LOT."""
    lots = -(-rows // LOT)
    if lots <= 1:
        return [[piece for piece in slices if len(piece)]] if rows else []
    some = np.sort(np.concatenate([piece[:: max(1, len(piece) // SAMPLE)] for piece in slices if len(piece)]))
    pivots = np.unique(some[np.arange(1, lots) * len(some) // lots])
    edges = [[0, *np.searchsorted(piece, pivots).tolist(), len(piece)] for piece in slices]
    dealt = [
        [piece[bounds[lot] : bounds[lot + 1]] for piece, bounds in zip(slices, edges, strict=True)]
        for lot in range(len(pivots) + 1)
    ]
    return [held for pieces in dealt if (held := [piece for piece in pieces if len(piece)])]


def _lot(pieces: list[NDArray[Any]], kind: ValueType) -> Callable[[], SortedRows]:
    return lambda: merge_pieces([SortedRows(kind, ALL, np.array([0, len(piece)]), piece) for piece in pieces])
