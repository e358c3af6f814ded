"""Query intervals and clusterings: each against trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import Monitor
from quantide.kernels import interval_clustering
from quantide.queries.query_clusters import cluster_intervals
from quantide.queries.query_registry import compute_intervals
from tests.queries import query_model

EPS = 0.01
queries = st.lists(
    st.tuples(st.integers(1, 40).map(lambda i: i / 40), st.sampled_from([0.01, 0.02, 0.035, 0.06, 0.1, 0.2, 0.7])),
    min_size=1,
    max_size=30,
)


def spans_of(asked: list[tuple[float, float]]) -> np.ndarray:
    phis, epss = (np.array(column) for column in zip(*asked, strict=True))
    return compute_intervals(phis, epss, EPS)


def innermost(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    spans = spans[np.argsort(spans[:, 0])]
    return interval_clustering.select_innermost(spans[:, 0], spans[:, 1])


def test_the_papers_example_of_an_interval() -> None:
    spans = compute_intervals(np.array([0.5, 0.49]), np.array([0.05, 0.06]), 0.01)
    assert spans.round(12).tolist() == [[0.46, 0.54], [0.44, 0.54]]


@given(queries)
def test_preprocessing_keeps_intervals_that_contain_no_other(asked: list[tuple[float, float]]) -> None:
    spans = {(a, b) for a, b in spans_of(asked).tolist()}
    expected = [(a, b) for a, b in sorted(spans) if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    left, right = innermost(spans_of(asked))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected


@given(queries.filter(lambda asked: len(asked) <= 7))
def test_qc_a_is_optimal(asked: list[tuple[float, float]]) -> None:
    left, right = innermost(spans_of(asked))
    lefts, rights = interval_clustering.cluster_worst_case(left, right, EPS)
    cost = sum(1 / np.log1p(x / (2 * (1 - EPS))) for x in (rights - lefts) if x > 0)
    assert cost == pytest.approx(query_model.cheapest(left.tolist(), right.tolist(), EPS), rel=1e-9)


def test_qc_a_is_the_papers_loop_on_many(rng: np.random.Generator) -> None:
    for size in (50, 300):
        spans = compute_intervals(1 - rng.random(size), rng.choice([0.012, 0.03, 0.05], size), EPS)
        left, right = innermost(spans)
        cost = [0.0]
        for i in range(len(left)):
            over = [j for j in range(i + 1) if right[j] > left[i]]
            cost.append(min(cost[j] + 1 / np.log1p((right[j] - left[i]) / (2 * (1 - EPS))) for j in over))
        lefts, rights = interval_clustering.cluster_worst_case(left, right, EPS)
        assert sum(1 / np.log1p((rights - lefts) / (2 * (1 - EPS)))) == pytest.approx(cost[-1], rel=1e-9)


@given(queries.filter(lambda asked: len({b for _, b in spans_of(asked).tolist()}) <= 9))
def test_qc_b_has_the_fewest_clusters(asked: list[tuple[float, float]]) -> None:
    left, right = innermost(spans_of(asked))
    spans = spans_of(asked)
    lefts, _ = interval_clustering.cluster_fewest(left, right)
    assert len(lefts) == query_model.fewest_points(spans[:, 0].tolist(), spans[:, 1].tolist())


def test_qc_b_is_within_the_bound_of_theorem_7(rng: np.random.Generator) -> None:
    for finest in (0.02, 0.05, 0.3):
        spans = compute_intervals(1 - rng.random(2000), rng.uniform(finest, 0.5, 2000), EPS)
        edges, _ = cluster_intervals(spans, "fewest", EPS)
        assert len(edges) <= np.ceil(1 / (2 * (finest - EPS)))


@given(queries, st.sampled_from(["worst-case", "fewest"]))
def test_every_query_contains_its_cluster(asked: list[tuple[float, float]], method: str) -> None:
    spans = spans_of(asked)
    edges, codes = cluster_intervals(spans, method, EPS)
    mine = edges[codes]
    assert (edges[:, 0] <= edges[:, 1]).all()
    assert (spans[:, 0] <= mine[:, 0]).all()
    assert (mine[:, 1] <= spans[:, 1]).all()
    assert set(codes.tolist()) == set(range(len(edges)))


@given(queries, st.randoms(use_true_random=False))
def test_online_clusters_are_valid_after_every_change(asked: list[tuple[float, float]], random: object) -> None:
    """Register queries one by one and drop them in any order, without a new clustering in between."""
    monitor = Monitor(EPS, recluster_after=10_000)
    monitor.register(0.5, 0.4)
    monitor.update(np.arange(1000.0))
    monitor.changes()
    ids = []
    for phi, eps in asked:
        ids.append(monitor.register(phi, eps))
        assert query_model.clusters_faults(monitor) == []
    random.shuffle(ids)  # type: ignore[attr-defined]
    for one in ids:
        monitor.drop(one)
        assert query_model.clusters_faults(monitor) == []
    assert monitor.stats()["clusterings"] == 1


def test_online_needs_few_clusters_more_than_the_fewest(rng: np.random.Generator) -> None:
    monitor = Monitor(0.001, recluster_after=10**9)
    monitor.register(0.5, 0.3)
    monitor.update(np.arange(10_000.0))
    monitor.changes()
    phis, epss = 1 - rng.random(5000), rng.uniform(0.005, 0.05, 5000)
    monitor.register_many(phis, epss)
    monitor.changes()
    fewest, _ = cluster_intervals(compute_intervals(phis, epss, 0.001), "fewest", 0.001)
    assert len(fewest) <= monitor.stats()["clusters"] <= 2 * len(fewest)


def test_many_changes_cluster_all_again(rng: np.random.Generator) -> None:
    monitor = Monitor(0.001, recluster_after=100)
    monitor.register_many(1 - rng.random(50), 0.02)
    monitor.update(rng.random(10_000))
    monitor.changes()
    for _ in range(150):
        monitor.register(1 - rng.random(), 0.02)
        monitor.changes()
    assert monitor.stats()["clusterings"] == 2
    assert query_model.clusters_faults(monitor) == []
