"""Forms of histograms: dicts, JSON, messages and objects give the same summary, and known values stay exact."""

import copy
import json
import math
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasketches
import numpy as np
import pytest
from google.protobuf import struct_pb2
from hdrh.histogram import HdrHistogram
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, ExponentialBucketHistogramAggregation
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from quantide import StreamSketch, Summary
from quantide.errors import UnprovedError
from quantide.histograms import (
    IntervalSummary,
    ProbableSummary,
    count_buckets,
    from_datasketches,
    from_ddsketch,
    from_hdr,
    from_otel,
    from_prometheus_buckets,
    from_prometheus_native,
    from_prometheus_text,
    to_otel_explicit,
    to_otel_exponential,
    to_prometheus_native,
    to_prometheus_text,
)
from tests.histograms.producers import otel_points

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("kll_doubles", "kll_floats", "kll_ints", "req_floats", "req_ints")
INF = math.inf


@pytest.mark.parametrize("aggregation", [ExponentialBucketHistogramAggregation(), ExplicitBucketHistogramAggregation()])
def test_the_json_of_a_data_point_is_read_like_the_object(aggregation: Any) -> None:
    [point] = otel_points([[0.0, 0.3, 0.3, 17.0, 9000.0]], aggregation)
    fields = json.loads(point.to_json())
    assert from_otel(fields) == from_otel(point)
    assert from_otel(point).answer(0.0).value_hi == 0.0
    assert from_otel(point).answer(1.0).value_lo == from_otel(point).answer(1.0).value_hi == 9000.0


def test_otlp_json_has_counts_as_texts_and_names_in_camel_case() -> None:
    otlp = {"count": "3", "explicitBounds": [1.0], "bucketCounts": ["1", "2"], "min": 0.5, "max": 4.0}
    plain = {"count": 3, "explicit_bounds": [1.0], "bucket_counts": [1, 2], "min": 0.5, "max": 4.0}
    assert from_otel(otlp) == from_otel(plain) == from_otel(SimpleNamespace(**plain))
    answer = from_otel(otlp).answer(2 / 3)
    assert (answer.value_lo, answer.value_hi) == (math.nextafter(1.0, INF), 4.0)


def test_a_protobuf_message_has_the_fields_that_are_set() -> None:
    message = struct_pb2.Value(number_value=0.0)  # any message: only ListFields() is used
    assert [field.name for field, _ in message.ListFields()] == ["number_value"]
    from quantide.histograms.histogram_fields import read_fields

    assert read_fields(message) == {"number_value": 0.0}


def test_a_point_without_buckets_is_one_interval() -> None:
    summary = from_otel({"count": 4, "min": 1.0, "max": 9.0})
    assert summary.bounds(0.5) == (1.0, 9.0)
    assert summary.bounds(0.0) == (1.0, 1.0)
    assert from_otel({"count": 4}).bounds(0.5) == (-INF, INF)
    assert from_otel({"count": 1, "min": 2.0, "max": 2.0}).bounds(0.5) == (2.0, 2.0)


def test_texts_and_numbers_are_read_in_one_list() -> None:
    mixed = from_prometheus_buckets([("1", "5"), (2, 6), (INF, 7)])
    assert mixed == from_prometheus_buckets([(1.0, 5), (2.0, 6), ("+Inf", 7)])
    assert from_otel({"explicitBounds": ["1", 2.5], "bucketCounts": ["1", 2, 3]}).n == 6


def test_ranks_at_edges_are_exact() -> None:
    classic = from_prometheus_buckets([(0.1, 50), (0.5, 90), ("+Inf", 100)])
    assert classic == from_prometheus_buckets({"0.1": "50", "0.5": "90", "+Inf": "100"})
    assert classic.rank([0.1, 0.5])[0].tolist() == classic.rank([0.1, 0.5])[1].tolist() == [50, 90]
    native = {"schema": 3, "positive_spans": [(-8, 32)], "positive_counts": [1] * 32}
    assert from_prometheus_native(native, exact=True).rank(1.0) == (9, 9)
    assert from_prometheus_native(native).rank(1.0) == (8, 10)  # a value next to 1 may be in either bucket


def test_text_with_labels_and_escapes() -> None:
    text = (
        "# HELP rpc Latency.\n# TYPE rpc histogram\n"
        'rpc_bucket{path="a\\"b\\\\",le="1.0"} 3 1700000000\nrpc_bucket{path="a\\"b\\\\",le="+Inf"} 4\n'
        'rpc_bucket{le="1.0"} 0\nrpc_bucket{le="+Inf"} 0\nrpc_total_bucket{le="+Inf"} 9\nrpc_sum 0\n'
    )
    found = from_prometheus_text(text, "rpc", smallest=0.0)
    assert {labels: s.n for labels, s in found.items()} == {(("path", 'a"b\\'),): 4, (): 0}
    assert found[(("path", 'a"b\\'),)].bounds(0.5) == (0.0, 1.0)


def test_exemplars_are_not_counts() -> None:
    text = 'a_bucket{x="}",le="1"} 3 # {} 1\na_bucket{x="}",le="+Inf"} 4 # {trace_id="q"} 9 1520879607.789\n'
    found = from_prometheus_text(text, "a")
    assert list(found) == [(("x", "}"),)]
    assert found[(("x", "}"),)].rank(1.0) == (3, 3)
    assert found[(("x", "}"),)].n == 4


def test_native_histograms_of_prometheus_client() -> None:
    text = (
        "# TYPE a histogram\n"
        "a {count:24,sum:100,schema:0,zero_threshold:0.001,zero_count:4,positive_spans:[0:2,1:2],"
        "negative_spans:[0:2,1:2],positive_deltas:[2,1,-2,3],negative_deltas:[2,1,-2,3]}\n# EOF\n"
    )
    parse: Any = text_string_to_metric_families
    [family] = parse(text)
    summary = from_prometheus_native(family.samples[0].native_histogram, exact=True)
    # Buckets: (0.5, 1] has 2, (1, 2] 3, (4, 8] 1, (8, 16] 4; the same below zero; 4 around zero.
    assert (summary.n, summary.rank(-0.5, inclusive=False)) == (24, (10, 10))
    assert [summary.rank(edge) for edge in (0.001, 2.0, 8.0)] == [(14, 14), (19, 19), (20, 20)]


def test_nan_observations_are_counted_apart() -> None:
    native = {"schema": 0, "positive_spans": [(0, 1)], "positive_counts": [3], "count": 5, "sum": math.nan}
    assert (from_prometheus_native(native).n, from_prometheus_native(native).nans) == (3, 2)


def test_custom_buckets() -> None:
    native = {"schema": -53, "custom_values": [1.0, 2.0], "positive_spans": [(0, 3)], "positive_deltas": [1, 1, 1]}
    classic = from_prometheus_buckets([(1.0, 1), (2.0, 3), (INF, 6)])
    assert from_prometheus_native(native) == classic


def test_ddsketch_rounding_and_collapsed_bins() -> None:
    message = {"mapping": {"gamma": 2.0}, "positiveValues": {"contiguousBinCounts": [1.0, 1.0]}}
    up = from_ddsketch(message, rounding="up", collapsed="none")
    down = from_ddsketch(message, rounding="down", collapsed="none")
    assert up.bounds(0.0) == (pytest.approx(0.5), pytest.approx(1.0))
    assert down.bounds(0.0) == (pytest.approx(1.0), pytest.approx(2.0))
    assert from_ddsketch(message, rounding="down").bounds(0.0) == (0.0, pytest.approx(2.0))
    highest = from_ddsketch(message, rounding="down", collapsed="highest")
    assert highest.bounds(1.0) == (pytest.approx(2.0), INF)


def test_hdr_keeps_whole_numbers() -> None:
    histogram = HdrHistogram(1, 2**62, 3)
    for value in (0, 1, 2047, 2048, 10**15):
        histogram.record_value(value)
    summary = from_hdr(histogram)
    assert summary.type.name == "int64"
    assert [summary.bounds(k / 5) for k in (1, 2, 3)] == [(0, 0), (1, 1), (2047, 2047)]
    assert summary.bounds(0.8) == (2048, 2049)
    assert from_hdr(histogram.encode()) == summary
    assert from_hdr(HdrHistogram(1, 1000, 2).encode()).n == 0


def test_sketches_take_part_through_both_ends() -> None:
    low, high = StreamSketch(0.01), StreamSketch(0.01)
    for k in range(20):
        histogram = from_prometheus_buckets([(1.0, 10), (2.0, 30 + k), (INF, 50 + k)], smallest=0.0, largest=3.0)
        low.update_summary(histogram.low)
        high.update_summary(histogram.high)
    both = IntervalSummary(low.summary(), high.summary())
    assert both.n == sum(50 + k for k in range(20))
    assert both.bounds(0.4) == (math.nextafter(1.0, INF), 2.0)


def test_copies_and_bytes() -> None:
    interval = from_prometheus_buckets([(1.0, 1), (INF, 3)])
    probable = from_datasketches((GOLDEN / "kll_doubles.bin").read_bytes(), "kll_doubles")
    for summary in (interval, probable):
        assert copy.deepcopy(summary) == copy.copy(summary) == summary
        assert pickle.loads(pickle.dumps(summary)) == summary
        assert hash(pickle.loads(pickle.dumps(summary))) == hash(summary)
        assert summary != 1
    assert interval.nulls == interval.nans == 0
    assert interval.cdf(1.0) == pytest.approx(1 / 3)
    assert "between" in str(interval.answer(0.5))
    assert "99% confidence for all answers at once" in str(probable.answer(0.5))


@pytest.mark.parametrize("kind", KINDS)
def test_stored_sketches_of_datasketches(kind: str) -> None:
    """Sketches of a permutation of 0..2999, in which the rank of v is v + 1; stored, because they are random."""
    summary = from_datasketches((GOLDEN / f"{kind}.bin").read_bytes(), kind)
    assert (summary.n, summary.confidence, summary.simultaneous) == (3000, 0.99, kind.startswith("kll"))
    assert (summary.min, summary.max) == (0, 2999)
    answers = [summary.answer(phi) for phi in np.arange(0, 1001) / 1000]
    held = [answer.rank_lo <= answer.value + 1 <= answer.rank_hi for answer in answers]
    assert np.mean(held) >= (1.0 if summary.simultaneous else 0.99)
    assert {answer.confidence for answer in answers} == {0.99}
    low, high = summary.rank(np.arange(3000))
    held = (low <= np.arange(1, 3001)) & (np.arange(1, 3001) <= high)
    assert np.mean(held) >= (1.0 if summary.simultaneous else 0.99)


def test_req_sketches_whose_own_bounds_fail_are_refused() -> None:
    sketch = datasketches.req_floats_sketch(4, True)
    sketch.update(np.arange(1000, dtype=np.float32))
    with pytest.raises(UnprovedError, match="k=4"):
        from_datasketches(sketch)


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_of_random_sketches_are_in_order(kind: str) -> None:
    """Tuples of random sketches have the form of a summary, which from_bytes() checks."""
    rng = np.random.default_rng(6)
    for n in (1, 10, 300, 5000):
        for values in (rng.integers(0, 3, n), rng.integers(0, 10**6, n), np.zeros(n), np.sort(rng.integers(0, 90, n))):
            sketch = getattr(datasketches, f"{kind}_sketch")(*([20] if kind.startswith("kll") else [12, True]))
            sketch.update(values.astype({"doubles": "f8", "floats": "f4", "ints": "i4"}[kind.partition("_")[2]]))
            summary = from_datasketches(sketch)
            assert ProbableSummary.from_bytes(summary.to_bytes()) == summary
            assert (summary.n, summary.min, summary.max) == (n, values.min(), values.max())
            assert sketch.is_estimation_mode() or summary.confidence == 1.0


def test_probabilities_of_failure_add_up() -> None:
    kll, req = (
        from_datasketches((GOLDEN / f"{kind}.bin").read_bytes(), kind) for kind in ("kll_doubles", "req_floats")
    )
    merged = ProbableSummary.merge(kll, req, kll, Summary.of([1.0]))
    assert merged.n == 9001
    assert merged.confidence == pytest.approx(0.97)
    assert not merged.simultaneous
    assert merged.compress(10).answer(0.5).confidence == merged.confidence
    assert ProbableSummary.merge(*[kll] * 101).confidence == 0.0


def test_exports_round_trip() -> None:
    values = [-3.0, 0.0, 0.2, 0.7, 3.0, 100.0]
    summary = Summary.of(values)
    point = to_otel_explicit(summary, [0.0, 1.0, INF], sum=math.fsum(values))
    assert from_otel(point).rank(0.0) == (2, 2)
    assert (point["min"], point["max"], point["sum"]) == (-3.0, 100.0, math.fsum(values))
    text = to_prometheus_text(summary, "a", [0.0, 1.0], labels={"x": 'q"\\\n'}, sum=1.5)
    assert from_prometheus_text(text, "a")[(("x", 'q"\\\n'),)].rank(1.0) == (4, 4)
    assert 'a_sum{x="q\\"\\\\\\n"} 1.5' in text
    for source in (summary, StreamSketch(0.01)):
        if isinstance(source, StreamSketch):
            source.update(values)
        assert from_prometheus_native(to_prometheus_native(source, 3), exact=True).rank(-1.0) == (1, 1)
        assert from_otel(to_otel_exponential(source)).bounds(1.0) == (100.0, 100.0)
    empty = to_prometheus_native(Summary.of([]))
    assert from_prometheus_native(empty).n == from_otel(to_otel_exponential(Summary.of([]))).n == 0


def test_extremes_that_no_float_has_are_not_exported() -> None:
    summary = Summary.of(np.array([3, 2**53 + 1]))
    point = to_otel_explicit(summary, [10.0])
    assert point["min"] == 3.0
    assert "max" not in point
    low, high = from_otel(point).bounds(1.0)
    assert low <= 2**53 + 1 <= high


def test_counts_of_integers_and_decimals() -> None:
    integers = Summary.of(np.array([-(2**63), -1, 5, 2**63 - 1]))
    assert count_buckets(integers, [-1.0, 4.5, 5.0]).counts.tolist() == [2, 0, 1, 1]
    native = from_prometheus_native(to_prometheus_native(integers))
    assert (native.n, native.rank(0.0)) == (4, (2, 2))
    assert count_buckets(from_prometheus_buckets([(1.0, 1), (INF, 3)]), [1.0]).lo.tolist() == [1, 2]


def test_empty_sketches_of_datasketches() -> None:
    for sketch in (datasketches.req_floats_sketch(12, True), datasketches.kll_doubles_sketch(200)):
        for _ in range(100):  # iterating an empty REQ sketch reads beyond its memory, and mostly ends the process
            found = from_datasketches(sketch)
        assert (found.n, found.confidence) == (0, 1.0)
