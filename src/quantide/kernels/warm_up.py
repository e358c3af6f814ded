"""Warm-up: run every kernel once for every carrier type, so that its machine code is in the cache."""

from collections.abc import Iterator

import numpy as np

from quantide.kernels import (
    arrival_counts,
    block_samples,
    cluster_evaluation,
    compression,
    error_profile,
    gk_insertion,
    interval_clustering,
    key_segments,
    keyed_evaluation,
    online_clustering,
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

CARRIERS = (np.float64, np.float32, np.int64)


def warm() -> Iterator[str]:
    """Compile all kernels, or load them from the cache; yield the name of each group when it is ready."""
    ranks = np.array([1, 2], dtype=np.int64)
    bounds = np.array([0, 2], dtype=np.int64)
    two = np.array([2], dtype=np.int64)
    zero = np.array([0], dtype=np.int64)
    limits = 0.1, 0.1, 1.0, 0.1, 1
    for carrier in CARRIERS:
        values = np.array([1, 2], dtype=carrier)
        presort.detect_order(values)
        bits, layout = values.view(f"u{values.itemsize}"), radix_sort.key_layout(values.dtype)
        radix_sort.sort_segments(bits, bounds, zero, layout)
        rank_selection.select_rows(bits.reshape(1, 2), ranks, layout, bits.copy().reshape(1, 2))
        tuple_insertion.insert_rows(values, ranks, ranks, 2, values.reshape(1, 2), ranks, 2, limits)
        tuple_insertion.insert_parts(values, ranks, ranks, 2, values, ranks, ranks, bounds, two, limits)
        run_merge.merge_runs([values, values])
        run_merge.merge_pair(values, 0, 1, 2, values.copy())
        block_samples.sample_blocks(values, block_samples.sorted_positions(bits, layout), 1, 1)
        tuple_merge.merge_groups(values, ranks, ranks, bounds, two, np.array([0, 1]))
        error_profile.select_by_profile(values, ranks, ranks, bounds, two, 1, 0.1)
        error_profile.find_slopes(values, ranks, ranks, bounds, two)
        error_profile.sample_by_profile(values, bounds, two, 0.1)
        inserted, g, delta = np.empty(8, dtype=carrier), np.empty(8, dtype=np.int64), np.empty(8, dtype=np.int64)
        gk_insertion.insert_arrivals(values, inserted, g, delta, 0, 0, 0, 0.1)
        gk_insertion.compress(inserted, g, delta, 2, gk_insertion.max_gap(0.1, 2))
        grouped = key_segments.scatter(np.array([0, 0]), values, bounds)
        key_segments.sort_short(grouped, bounds, 8)
        rows = np.empty((1, 4), dtype=carrier)
        key_segments.gather_rows(grouped, bounds, zero, rows)
        key_segments.write_back_rows(grouped, bounds, zero, rows)
        key_segments.sample(grouped, bounds, np.array([1]))
        presort.partition(values, values[:1])
        yield f"sorting, merging and GK01 for {np.dtype(carrier).name}"
        tuples = values.copy(), ranks.copy(), ranks.copy()
        arrival_counts.count_arrivals(values, bounds, *tuples)
        arrival_counts.count_few_arrivals(values, *tuples)
        due, clusters = np.array([-1]), np.array([[0.2, 0.8]])
        state = clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64), *tuples, 2, 0.5, 0.5, 0.1
        cluster_evaluation.evaluate_pass(zero, due, *state, False, 1.0)
        one, answers = np.array([0]), (clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64))
        keyed_evaluation.evaluate_keyed(one, one, *answers, due, one, *tuples, bounds, two, 0.5, 0.5)
        part = freeze(values), freeze(ranks), freeze(ranks), freeze(bounds), freeze(two)
        keyed_evaluation.add_rank_bounds(
            one, values[:1].copy(), np.zeros(1, dtype=np.int32), *part, one.copy(), one.copy()
        )
        rolled = np.empty((1, 2), dtype=carrier), np.empty(2, dtype=bool)
        read = freeze(values), freeze(bits), freeze(np.empty(0, dtype=bool)), freeze(np.empty(0, dtype=np.int64))
        extremes = np.array([1, 2, 0], dtype=carrier)
        rolling_ranks.roll(*read, 2, np.array([0.5]), rolling_ranks.TARGET, 1, layout, extremes, *rolled)
        yield f"continuous queries and rolling quantiles for {np.dtype(carrier).name}"
    error_profile.ranks_in_range(1, 2, 2, 1, 0.1)
    compression.select_tuples(ranks, ranks, bounds, two, 1)
    compression.find_nearest_tuples(ranks, ranks, bounds, np.array([[1]]))
    compression.find_bracketing_tuples(ranks, ranks, bounds, np.array([[1]]))
    key_segments.permute_segments(bounds, zero)
    error_profile.ranks_of_profile(2, 1, 0.1)
    yield "compression and ranks"
    left, right = interval_clustering.select_innermost(np.array([0.2]), np.array([0.8]))
    interval_clustering.cluster_fewest(left, right)
    interval_clustering.cluster_worst_case(left, right, 0.1)
    a, b, c, d, e, f, g = (np.zeros(2, dtype=np.int64) for _ in range(7))
    spans, published = np.zeros((2, 2)), np.zeros(2, dtype=bool)
    online_clustering.add_queries(np.array([[0.2, 0.8]]), spans, a, b, c, d, e, f, g, published, 0, zero)
    online_clustering.remove_queries(zero, spans, a, b, c, f)
    keyed_evaluation.extend_answers(zero, two, two, two, spans, np.zeros((2, 4), dtype=np.int64), a, 0.1, 0.1)
    yield "clusters"
    ordinals, prefix = np.array([1, 2], dtype=np.uint64), np.zeros(5, dtype=np.uint8)
    packed, offsets = tuple_encoding.encode(ordinals, ranks, ranks, bounds, two, zero, zero, prefix)
    fields = [np.zeros(1, dtype=np.int64) for _ in range(5)]
    tuple_encoding.scan(freeze(packed), freeze(offsets), freeze(prefix), 2, *fields)
    tuple_encoding.decode(
        freeze(packed), freeze(fields[1]), freeze(bounds), freeze(two), ordinals, ranks.copy(), ranks.copy()
    )
    yield "encoding"
