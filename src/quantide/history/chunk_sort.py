"""Sorting: unsorted values, with or without keys, into sorted rows; sorted pieces into one."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.block_sort import sort
from quantide.kernels.key_segments import permute_segments
from quantide.kernels.presort import partition
from quantide.kernels.run_merge import merge_runs
from quantide.store.stored_rows import ALL, SortedRows
from quantide.summary.key_encoding import encode_keys, group_by_code, sort_segments
from quantide.summary.value_column import ValueColumn, has_nan, nan_error, store
from quantide.summary.value_types import ValueType

A = TypeVar("A")
B = TypeVar("B")

PARTITION_ROWS = 1 << 24  # target rows of a file of a chunk
THREAD_ROWS = 1 << 20  # fewer are not worth a second thread
SAMPLE_SIZE = 1 << 12  # values to choose a pivot from
MAX_RUNS = 1 << 6  # more are sorted anew


@dataclass(frozen=True)
class SortedChunk:
    """Rows of a new chunk; `partitions` return the rows of its files, each above the one before."""

    rows: int
    nulls: int
    nans: int
    partitions: Sequence[Callable[[], SortedRows]]


def in_threads(function: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Map a function over items on all cores; sorting, reading and writing release the interpreter lock."""
    items = list(items)
    if len(items) < 2:  # a small append costs less than a thread
        return [function(item) for item in items]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, items))


def sort_chunk(keys: pa.Array | None, column: ValueColumn, kind: ValueType, nan: str) -> SortedChunk:
    """Return the sorted chunk of values and, in a store with keys, of their keys; both without nulls."""
    return _sort_values(column, kind, nan) if keys is None else _sort_keyed(keys, column, kind, nan)


def _sort_values(column: ValueColumn, kind: ValueType, nan: str) -> SortedChunk:
    """Split values into partitions; the thread that writes a partition sorts it."""
    is_carried = len(column.pieces) == 1 and column.pieces[0].dtype == kind.carrier
    values = column.pieces[0] if is_carried else column.carried()
    if has_nan(values):
        if nan == "refuse":
            raise nan_error()
        values = values[~np.isnan(values)]
    partitions = [_sort_later(part, kind) for part in _split(values, _halvings(len(values)))]
    return SortedChunk(len(values), column.nulls, len(column) - len(values), partitions)


def _sort_keyed(keys: pa.Array, column: ValueColumn, kind: ValueType, nan: str) -> SortedChunk:
    values, nans = column.carried(), 0
    if has_nan(values):
        if nan == "refuse":
            raise nan_error()
        not_nan = ~np.isnan(values)
        keys, values, nans = (
            keys.filter(pa.array(not_nan)),
            values[not_nan],
            len(values) - int(np.count_nonzero(not_nan)),
        )
    codes, distinct = encode_keys(keys)
    grouped, bounds = group_by_code(codes, values, len(distinct))
    rows = SortedRows(kind, distinct, bounds, grouped)
    return SortedChunk(len(rows), column.nulls, nans, [lambda: rows] if len(rows) else [])


def merge_chunk(groups: Sequence[NDArray[Any]], column: ValueColumn, kind: ValueType, nan: str) -> SortedChunk:
    """Return the chunk of sorted groups of values: those of the column that are not NaN."""
    rows = merge_pieces([SortedRows(kind, ALL, np.array([0, len(values)]), values) for values in groups])
    nans = len(column) - len(rows)
    if nans and nan == "refuse":
        raise nan_error()
    parts = [rows.values[start : start + PARTITION_ROWS] for start in range(0, len(rows), PARTITION_ROWS)]
    return SortedChunk(len(rows), column.nulls, nans, [_in_order(part, kind) for part in parts])


def merge_pieces(pieces: Sequence[SortedRows]) -> SortedRows:
    """Merge sorted pieces; many of them are sorted anew, which is faster."""
    if len(pieces) == 1:
        return pieces[0]
    kind = pieces[0].kind
    if all(piece.keys is ALL for piece in pieces):
        values = _merge_values([piece.values for piece in pieces if len(piece)])
        return SortedRows(kind, ALL, np.array([0, len(values)]), values)
    values = np.concatenate([piece.values for piece in pieces])
    codes, distinct = encode_keys(pa.concat_arrays([piece.keys for piece in pieces]))
    counts = np.concatenate([piece.counts for piece in pieces])
    order = np.argsort(codes, kind="stable")
    row_indexes, _ = permute_segments(np.concatenate(([0], np.cumsum(counts))), order)
    bounds = np.zeros(len(distinct) + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, weights=counts, minlength=len(distinct)).astype(np.int64), out=bounds[1:])
    grouped = values[row_indexes]
    sort_segments(grouped, bounds)
    return SortedRows(kind, distinct, bounds, grouped)


def _merge_values(pieces: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Merge sorted values; consecutive pieces that are in order, as files of one run are, count as one."""
    runs: list[list[NDArray[Any]]] = []
    for values in pieces:
        if runs and runs[-1][-1][-1] <= values[0]:
            runs[-1].append(values)
        else:
            runs.append([values])
    if 1 < len(runs) <= MAX_RUNS:
        return merge_runs([np.concatenate(run) if len(run) > 1 else run[0] for run in runs])
    merged = np.concatenate(pieces)
    if len(runs) > 1:
        sort(merged)
    return merged


def _halvings(rows: int) -> int:
    """Return how often to split values in two: often enough for all cores, and for partitions of PARTITION_ROWS."""
    partitions = max(os.cpu_count() or 1 if rows >= THREAD_ROWS else 1, -(-rows // PARTITION_ROWS))
    return (partitions - 1).bit_length()


def _split(values: NDArray[Any], halvings: int) -> list[NDArray[Any]]:
    """Split values into new arrays, each above the one before, about equally long. Equal values stay together."""
    if halvings == 0:
        copy = np.empty_like(values)
        store(copy, values)
        return [copy] if len(copy) else []
    partitions = [values]
    for _ in range(halvings):
        partitions = [half for partition in partitions for half in _halves(partition)]
    return partitions


def _halves(values: NDArray[Any]) -> list[NDArray[Any]]:
    sample = np.sort(values[:: max(1, len(values) // SAMPLE_SIZE)])
    out, low = partition(values, sample[len(sample) // 2 :][:1])
    return [half for half in (out[:low], out[low:]) if len(half)]


def _sort_later(values: NDArray[Any], kind: ValueType) -> Callable[[], SortedRows]:
    def sorted_rows() -> SortedRows:
        sort(values)
        return SortedRows(kind, ALL, np.array([0, len(values)]), values)

    return sorted_rows


def _in_order(values: NDArray[Any], kind: ValueType) -> Callable[[], SortedRows]:
    return lambda: SortedRows(kind, ALL, np.array([0, len(values)]), values)
