"""Runs every kernel once for every carrier type, so that its machine code is in the cache."""

from collections.abc import Iterator

import numpy as np

from quantide.kernels import (
    compress,
    deadlines,
    gk,
    intervals,
    keyed,
    marks,
    merge,
    online,
    order,
    pack,
    segments,
    split,
    together,
)
from quantide.kernels.compiled import frozen

CARRIERS = (np.float64, np.float32, np.int64)


def warm() -> Iterator[str]:
    """Compile, or load from the cache, and name what was done."""
    ranks = np.array([1, 2], dtype=np.int64)
    bounds = np.array([0, 2], dtype=np.int64)
    two = np.array([2], dtype=np.int64)
    zero = np.array([0], dtype=np.int64)
    for carrier in CARRIERS:
        values = np.array([1, 2], dtype=carrier)
        order.order_of(values)
        merge.merge_halves(values, 2, values.copy())
        merge.merge_groups(values, ranks, ranks, bounds, two, np.array([0, 1]))
        held, g, delta = np.empty(8, dtype=carrier), np.empty(8, dtype=np.int64), np.empty(8, dtype=np.int64)
        gk.insert_all(values, held, g, delta, 0, 0, 0, 0.1)
        gk.compress(held, g, delta, 2, gk.most_gap(0.1, 2))
        grouped = segments.scatter(np.array([0, 0]), values, bounds)
        segments.sort_short(grouped, bounds, 8)
        rows = np.empty((1, 4), dtype=carrier)
        segments.gather_rows(grouped, bounds, zero, rows)
        segments.return_rows(grouped, bounds, zero, rows)
        segments.sample(grouped, bounds, np.array([1]))
        split.split(values, values[:1])
        yield f"sorting, merging and GK01 for {np.dtype(carrier).name}"
        tuples = values.copy(), ranks.copy(), ranks.copy()
        marks.count(values, *tuples)
        heap, place, due, clusters = np.array([1, 0]), np.array([1]), np.array([-1]), np.array([[0.2, 0.8]])
        state = clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64), *tuples, 2, 0.5
        deadlines.fire(heap, place, due, *state, False)
        together.together(heap[1:], due, *state, False, True)
        one, answers = np.array([0]), (clusters, values[:1].copy(), np.zeros((1, 4), dtype=np.int64))
        keyed.evaluate_keyed(one, one, *answers, due, one, *tuples, bounds, two, 0.5)
        part = frozen(values), frozen(ranks), frozen(ranks), frozen(bounds), frozen(two)
        keyed.add_counts(one, values[:1].copy(), np.zeros(1, dtype=np.int32), *part, one.copy(), one.copy())
        yield f"standing queries for {np.dtype(carrier).name}"
    compress.kept_tuples(ranks, ranks, bounds, two, 1)
    compress.nearest_tuples(ranks, ranks, bounds, np.array([[1]]))
    compress.bracketing_tuples(ranks, ranks, bounds, np.array([[1]]))
    segments.spread(bounds, zero)
    yield "compression and questions"
    left, right = intervals.innermost(np.array([0.2]), np.array([0.8]))
    intervals.fewest(left, right)
    intervals.worst_case(left, right, 0.1)
    a, b, c, d, e, f, g, h = (np.zeros(2, dtype=np.int64) for _ in range(8))
    spans, told = np.zeros((2, 2)), np.zeros(2, dtype=bool)
    online.join(np.array([[0.2, 0.8]]), spans, a, b, c, d, e, f, g, h, told, 0, zero)
    online.leave(zero, spans, a, b, c, d, e, f, g)
    keyed.keep(zero, two, two, two, spans, np.zeros((2, 4), dtype=np.int64), a, 0.1)
    yield "clusters"
    ordinals, prefix = np.array([1, 2], dtype=np.uint64), np.zeros(5, dtype=np.uint8)
    packed, places = pack.encode(ordinals, ranks, ranks, bounds, two, zero, zero, prefix)
    fields = [np.zeros(1, dtype=np.int64) for _ in range(5)]
    pack.scan(frozen(packed), frozen(places), frozen(prefix), 2, *fields)
    pack.decode(frozen(packed), frozen(fields[1]), frozen(bounds), frozen(two), ordinals, ranks.copy(), ranks.copy())
    yield "bytes"
