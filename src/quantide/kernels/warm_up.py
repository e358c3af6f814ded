"""Warm-up: run every kernel once for every carrier type, so that its machine code is in the cache.

Kernels are divided into groups that can be compiled in processes of their own.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from quantide.kernels import (
    arrival_counts,
    band_selection,
    block_samples,
    cell_selection,
    cluster_evaluation,
    compression,
    error_profile,
    footer_scan,
    gk_insertion,
    interval_clustering,
    json_scan,
    key_segments,
    keyed_evaluation,
    online_clustering,
    pane_scan,
    pane_selection,
    presort,
    radix_sort,
    rank_selection,
    rolling_ranks,
    run_merge,
    tuple_encoding,
    tuple_insertion,
    tuple_merge,
)
from quantide.kernels.jit import freeze
from quantide.typing import Array

CARRIERS = ("float64", "float32", "int64")
RANKS = np.array([1, 2], dtype=np.int64)
BOUNDS = np.array([0, 2], dtype=np.int64)
TWO = np.array([2], dtype=np.int64)
ZERO = np.array([0], dtype=np.int64)
LIMITS = 0.1, 0.1, 1.0, 0.1, 1


def groups(carriers: Sequence[str] = CARRIERS) -> dict[str, Callable[[], None]]:
    """Return the groups of kernels by name; calling one compiles its kernels, or loads them from the cache."""
    named: dict[str, Callable[[], None]] = {}
    for carrier in carriers:
        named[f"sorting, merging and GK01 for {carrier}"] = partial(_run_sorting, np.array([1, 2], dtype=carrier))
        named[f"continuous queries for {carrier}"] = partial(_run_queries, np.array([1, 2], dtype=carrier))
        named[f"windows of panes for {carrier}"] = partial(_run_panes, np.array([1, 2], dtype=carrier))
        named[f"rolling quantiles for {carrier}"] = partial(_run_rolling, np.array([1, 2], dtype=carrier))
    shared = {"compression and ranks": _run_ranks, "clusters": _run_clusters, "encoding": _run_encoding}
    return named | shared | {"records": _run_records}


def compile_group(name: str) -> str:
    """Compile a group, in a process of its own; return its name."""
    groups()[name]()
    return name


def warm() -> Iterator[str]:
    """Compile all kernels in this process; yield the name of each group when it is ready."""
    for name, run in groups().items():
        run()
        yield name


def _run_sorting(values: Array) -> None:
    presort.detect_order(values)
    bits, layout = values.view(f"u{values.itemsize}"), radix_sort.key_layout(values.dtype)
    radix_sort.sort_segments(bits, BOUNDS, ZERO, layout)
    rank_selection.select_rows(bits.reshape(1, 2), RANKS, layout, bits.copy().reshape(1, 2))
    lowest, shift = cell_selection.find_cells(freeze(bits), layout, 1)
    cells = freeze(bits), np.uint64(lowest), shift, layout
    cell_selection.count_cells(*cells, np.zeros(2, dtype=np.int64))
    cell_selection.gather_cells(*cells, freeze(np.ones(2, dtype=bool)), bits.copy())
    tuple_insertion.insert_rows(values, RANKS, RANKS, 2, values.reshape(1, 2), RANKS, 2, LIMITS)
    tuple_insertion.insert_parts(values, RANKS, RANKS, 2, values, RANKS, RANKS, BOUNDS, TWO, LIMITS)
    run_merge.merge_runs([values, values])
    run_merge.merge_pair(values, 0, 1, 2, values.copy())
    block_samples.sample_blocks(values, block_samples.sorted_positions(bits, layout), 1, 1)
    tuple_merge.merge_groups(values, RANKS, RANKS, BOUNDS, TWO, np.array([0, 1]))
    error_profile.select_by_profile(values, RANKS, RANKS, BOUNDS, TWO, 1, 0.1)
    error_profile.find_slopes(values, RANKS, RANKS, BOUNDS, TWO)
    error_profile.sample_by_profile(values, BOUNDS, TWO, 0.1)
    inserted, g, delta = np.empty(8, dtype=values.dtype), np.empty(8, dtype=np.int64), np.empty(8, dtype=np.int64)
    gk_insertion.insert_arrivals(values, inserted, g, delta, 0, 0, 0, 0.1)
    gk_insertion.compress(inserted, g, delta, 2, gk_insertion.max_gap(0.1, 2))
    grouped = key_segments.scatter(np.array([0, 0]), values, BOUNDS)
    key_segments.sort_short(grouped, BOUNDS, 8)
    rows = np.empty((1, 4), dtype=values.dtype)
    key_segments.gather_rows(grouped, BOUNDS, ZERO, rows)
    key_segments.write_back_rows(grouped, BOUNDS, ZERO, rows)
    key_segments.sample(grouped, BOUNDS, np.array([1]))
    presort.partition(values, values[:1])
    band_selection.select_rank([values], 1)


def _run_queries(values: Array) -> None:
    tuples = values.copy(), RANKS.copy(), RANKS.copy()
    arrival_counts.count_arrivals(values, BOUNDS, *tuples)
    arrival_counts.count_few_arrivals(values, *tuples)
    due, clusters = np.array([-1]), np.array([[0.2, 0.8]])
    state = clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64), *tuples, 2, 0.5, 0.5, 0.1
    cluster_evaluation.evaluate_pass(ZERO, due, *state, False, 1.0)
    one, answers = np.array([0]), (clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64))
    keyed_evaluation.evaluate_keyed(one, one, *answers, due, one, *tuples, BOUNDS, TWO, 0.5, 0.5)
    part = freeze(values), freeze(RANKS), freeze(RANKS), freeze(BOUNDS), freeze(TWO)
    keyed_evaluation.add_rank_bounds(one, values[:1].copy(), np.zeros(1, dtype=np.int32), *part, one.copy(), one.copy())


def _run_rolling(values: Array) -> None:
    bits, layout = values.view(f"u{values.itemsize}"), radix_sort.key_layout(values.dtype)
    rolled = np.empty((1, 2), dtype=values.dtype), np.empty(2, dtype=bool)
    read = freeze(values), freeze(bits), freeze(np.empty(0, dtype=bool)), freeze(np.empty(0, dtype=np.int64))
    extremes = np.array([1, 2, 0], dtype=values.dtype)
    rolling_ranks.roll(*read, 2, np.array([0.5]), rolling_ranks.TARGET, 1, layout, extremes, *rolled)


def _run_panes(values: Array) -> None:
    bits, layout = values.view(f"u{values.itemsize}"), radix_sort.key_layout(values.dtype)
    panes, needed, first, last = np.zeros(34, dtype=np.int32), np.array([0, 1, 1, 1]), np.array([0]), np.array([1])
    for clock in ("float64", "int64"):
        times, edges = freeze(np.array([1, 2], dtype=clock)), freeze(np.array([1, 2], dtype=clock))
        rows, none = (freeze(values), times), freeze(np.empty(0, dtype=bool))
        pane_scan.count_rows(times, none, 2, 2, first, last, edges, np.zeros(3, dtype=np.int64))
        pane_scan.sample_rows(*rows, none, 2, first, last, edges, needed, 1, np.empty(34, dtype=values.dtype), panes, 0)
        counts, out = np.zeros((4, 3), dtype=np.int64), np.empty(34, dtype=values.dtype)
        pane_scan.gather_rows_in_band(*rows, none, 2, first, last, edges, needed, values, counts, out, panes, 0)
    target, out = np.array([[1]]), np.empty((1, 1), dtype=values.dtype)
    bounds, one = np.array([0, 2]), np.array([1])
    pane_selection.select_in_windows(values, bits, panes[:2], bounds, one - 1, one, target, layout, out)


def _run_ranks() -> None:
    error_profile.ranks_in_range(1, 2, 2, 1, 0.1)
    compression.select_tuples(RANKS, RANKS, BOUNDS, TWO, 1)
    compression.find_nearest_tuples(RANKS, RANKS, BOUNDS, np.array([[1]]))
    compression.find_bracketing_tuples(RANKS, RANKS, BOUNDS, np.array([[1]]))
    key_segments.permute_segments(BOUNDS, ZERO)
    error_profile.ranks_of_profile(2, 1, 0.1)


def _run_clusters() -> None:
    left, right = interval_clustering.select_innermost(np.array([0.2]), np.array([0.8]))
    interval_clustering.cluster_fewest(left, right)
    interval_clustering.cluster_worst_case(left, right, 0.1)
    a, b, c, d, e, f, g = (np.zeros(2, dtype=np.int64) for _ in range(7))
    spans, published = np.zeros((2, 2)), np.zeros(2, dtype=bool)
    online_clustering.add_queries(np.array([[0.2, 0.8]]), spans, a, b, c, d, e, f, g, published, 0, ZERO)
    online_clustering.remove_queries(ZERO, spans, a, b, c, f)
    keyed_evaluation.extend_answers(ZERO, TWO, TWO, TWO, spans, np.zeros((2, 4), dtype=np.int64), a, 0.1, 0.1)


def _run_encoding() -> None:
    ordinals, prefix = np.array([1, 2], dtype=np.uint64), np.zeros(5, dtype=np.uint8)
    packed, offsets = tuple_encoding.encode(ordinals, RANKS, RANKS, BOUNDS, TWO, ZERO, ZERO, prefix)
    fields = [np.zeros(1, dtype=np.int64) for _ in range(5)]
    tuple_encoding.scan(freeze(packed), freeze(offsets), freeze(prefix), 2, *fields)
    tuple_encoding.decode(
        freeze(packed), freeze(fields[1]), freeze(BOUNDS), freeze(TWO), ordinals, RANKS.copy(), RANKS.copy()
    )


def _run_records() -> None:
    record, found = freeze(np.frombuffer(b'{"t":"2026-01-01T00:00:00Z"}', dtype=np.uint8)), np.empty((1, 1), np.int64)
    accepted, whole = np.empty(1, dtype=np.bool_), np.array([0, len(record)])
    ends, names = found.copy(), freeze(np.frombuffer(b"t", dtype=np.uint8))
    kinds = np.array([json_scan.TIMESTAMP])
    json_scan.scan_objects(record, whole, names, np.array([1]), kinds, False, found, ends, accepted)
    json_scan.parse_times(record, found[0], ends[0], ZERO.copy(), accepted)
    json_scan.gather_fields(record, found[0], ends[0], record.copy(), whole.copy())
    footer_scan.scan_chunks(record, np.zeros((footer_scan.FIELDS, 1), dtype=np.int64))
