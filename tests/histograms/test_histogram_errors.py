"""Histograms that contradict themselves, and data that proved structures do not take, are refused by name."""

import base64
import math
import tempfile
import zlib
from collections.abc import Callable
from typing import Any

import datasketches
import numpy as np
import pytest
from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import CubicallyInterpolatedMapping, LinearlyInterpolatedMapping
from ddsketch.pb.proto import DDSketchProto
from ddsketch.store import DenseStore
from hdrh.histogram import HdrHistogram

from quantide import GKSketch, History, Monitor, SlidingWindow, StreamSketch, Summary
from quantide.errors import (
    CorruptBytesError,
    CountOverflowError,
    EmptyError,
    HistogramError,
    InvalidArgumentError,
    NaNError,
    TypeMismatchError,
    UnprovedError,
)
from quantide.histograms import (
    IntervalSummary,
    ProbableSummary,
    count_buckets,
    exponential_buckets,
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
from quantide.histograms.req_items import read_req_items

INF = math.inf
SPAN = {"positive_span": [{"offset": 0, "length": 2}]}
EXPLICIT = {"explicit_bounds": [1.0, 2.0], "bucket_counts": [1, 2, 3], "count": 6}


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({}, "no data point"),
        ({"name": "latency", "histogram": {"dataPoints": [EXPLICIT]}}, "fields name, histogram; give one element of"),
        (EXPLICIT | {"count": 7}, "count is 7.*6 values"),
        (EXPLICIT | {"bucket_counts": [1, -2, 3]}, "negative count -2"),
        (EXPLICIT | {"bucket_counts": [1, 2.5, 3]}, "2.5.*no count"),
        (EXPLICIT | {"bucket_counts": [1, math.nan, 3]}, "nan.*no count"),
        (EXPLICIT | {"bucket_counts": [1, "x", 3]}, "list of numbers"),
        (EXPLICIT | {"bucket_counts": [1, 5]}, "2 explicit_bounds need 3"),
        (EXPLICIT | {"explicit_bounds": [2.0, 1.0]}, "must increase, unlike 2, 1"),
        (EXPLICIT | {"explicit_bounds": [1.0, 1.0]}, "must increase"),
        (EXPLICIT | {"explicit_bounds": [1.0, math.nan]}, "NaN"),
        (EXPLICIT | {"min": 1.5, "max": 3.0}, "min is 1.5.*outermost bucket.*to 1"),
        (EXPLICIT | {"min": 0.5, "max": 1.5}, "max is 1.5"),
        (EXPLICIT | {"min": 0.5, "max": math.nan}, "max is NaN"),
        ({"bucket_counts": [1], "count": 1, "min": 1.0, "max": 2.0}, "one value"),
        ({"bucket_counts": [2], "count": 2, "min": 3.0, "max": 2.0}, "above max"),
        ({"scale": 1.5, "zero_count": 1}, "scale must be a whole number"),
        ({"scale": 99, "zero_count": 1}, "scale must be a whole number"),
        ({"scale": "fine", "zero_count": 1}, "scale must be a number of at most 64 bits, not 'fine'"),
        (EXPLICIT | {"count": "many"}, "count must be a number of at most 64 bits, not 'many'"),
        ({"scale": 1, "zero_count": 1, "zero_threshold": -1.0}, "zero_threshold"),
        ({"scale": 1, "zero_count": -1}, "negative count"),
        ({"scale": 1, "positive": {"offset": 2**40, "bucket_counts": [1]}}, "positive.offset"),
    ],
)
def test_contradictions_of_otel(point: dict[str, Any], message: str) -> None:
    with pytest.raises(HistogramError, match=message):
        from_otel(point)


@pytest.mark.parametrize(
    ("buckets", "message"),
    [
        ([], "last bucket"),
        ([(1.0, 3)], "last bucket must have le="),
        ([(1.0, 3), (INF, 2)], "fall from 3 to 2 at le=inf"),
        ([(2.0, 1), (1.0, 2), (INF, 3)], "must increase"),
        ([(math.nan, 1), (INF, 3)], "NaN"),
        ([(1.0, 0.5), (INF, 3)], "0.5.*no count"),
        ([("one", 1), (INF, 3)], "list of numbers"),
        ([1.0, 2.0], "must be pairs of le"),
        ([(1.0, 2, 3)], "must be pairs of le"),
        (5, "must be pairs of le"),
    ],
)
def test_contradictions_of_classic_histograms(buckets: Any, message: str) -> None:
    with pytest.raises(HistogramError, match=message):
        from_prometheus_buckets(buckets)


def test_text_as_bytes_is_refused() -> None:
    with pytest.raises(HistogramError, match="type bytes; give a str"):
        from_prometheus_text(b'rpc_bucket{le="+Inf"} 1', "rpc")  # type: ignore[arg-type]


def test_bounds_and_totals_of_classic_histograms() -> None:
    with pytest.raises(HistogramError, match="count is 4"):
        from_prometheus_buckets([(1.0, 1), (INF, 3)], count=4)
    with pytest.raises(HistogramError, match="all are from 2 to inf"):
        from_prometheus_buckets([(1.0, 1), (INF, 3)], smallest=2.0)
    with pytest.raises(HistogramError, match="no label le"):
        from_prometheus_text('a_bucket{x="1"} 3\n', "a")
    whole = ' a_bucket {le="1"}\t3\na_bucket{le="+Inf"}4\na_bucket_b{le="1"} 1\n'  # blanks may be anywhere
    assert from_prometheus_text(whole, "a")[()].n == 4
    for line in ('a_bucket{le="0.5} 1', 'a_bucket{le="0.5"}', "a_bucket 1", 'a_bucket{le="0.5" 1'):
        with pytest.raises(HistogramError, match="a line of a_bucket cannot be read: 'a_bucket"):
            from_prometheus_text(f"{line}\n{whole}", "a")
    with pytest.raises(NaNError, match="sum of a"):
        from_prometheus_text('a_bucket{le="+Inf"} 3\na_sum NaN\n', "a")
    assert from_prometheus_text('a_bucket{le="+Inf"} 3\na_sumnan 3\n', "a")[()].n == 3
    assert from_prometheus_text('a_bucket{le="+Inf"} 3\n', "b") == {}


@pytest.mark.parametrize(
    ("histogram", "message"),
    [
        ({"schema": 9}, "schema must be"),
        ({"buckets": [1, 2]}, "no native histogram: it has the fields buckets"),
        ({"schema": -5}, "schema -5 is unknown"),
        ({"schema": 0, **SPAN, "positive_delta": [1]}, "2 buckets.*1 counts"),
        ({"schema": 0, **SPAN, "positive_delta": [1, -2]}, "negative count -1"),
        ({"schema": 0, **SPAN, "positive_delta": [1, 1], "positive_count": [1, 1]}, "deltas and counts"),
        ({"schema": 0, **SPAN, "positive_count": [1, 1.5]}, "1.5"),
        ({"schema": 0, **SPAN, "positive_count": [1, 1], "sample_count": 3}, "count is 3"),
        ({"schema": 0, "positive_spans": [(0, 1), (-1, 1)], "positive_counts": [1, 1]}, "positive_span.offset"),
        ({"schema": 0, "zero_threshold": INF}, "zero_threshold"),
        ({"schema": -53, "custom_values": [1.0], "positive_spans": [(1, 2)], "positive_counts": [1, 1]}, "custom"),
        ([1, 2], "a dict or an object"),
    ],
)
def test_contradictions_of_native_histograms(histogram: Any, message: str) -> None:
    with pytest.raises(HistogramError, match=message):
        from_prometheus_native(histogram)


def test_counts_beyond_exact_ranks() -> None:
    with pytest.raises(CountOverflowError):
        from_prometheus_buckets([(1.0, 2**53), (INF, 2**53 + 1)])
    with pytest.raises(CountOverflowError):
        from_otel({"bucket_counts": [2**62, 2**62, 2**62], "explicit_bounds": [1.0, 2.0]})
    with pytest.raises(CountOverflowError):
        from_prometheus_native({"schema": 0, **SPAN, "positive_delta": [2**62, 2**62]})


def test_ddsketches_that_are_not_supported() -> None:
    def message(mapping: Any) -> Any:
        return DDSketchProto.to_proto(BaseDDSketch(mapping(0.01), DenseStore(), DenseStore(), 0.0))

    plain = {"mapping": {"gamma": 1.02}, "positive_values": {"bin_counts": {"3": 1.0}}}
    assert from_ddsketch(plain, rounding="down").n == 1
    with pytest.raises(HistogramError, match='rounding must be "up"'):
        from_ddsketch(plain)
    with pytest.raises(HistogramError, match="collapsed must be"):
        from_ddsketch(plain, rounding="up", collapsed="all")
    with pytest.raises(HistogramError, match="linear interpolation"):
        from_ddsketch(message(LinearlyInterpolatedMapping), rounding="up")
    with pytest.raises(HistogramError, match="cubic interpolation"):
        from_ddsketch(message(CubicallyInterpolatedMapping), rounding="up")
    with pytest.raises(HistogramError, match="CubicallyInterpolatedMapping"):
        from_ddsketch(BaseDDSketch(CubicallyInterpolatedMapping(0.01), DenseStore(), DenseStore(), 0.0))
    with pytest.raises(HistogramError, match="no count"):
        from_ddsketch(plain | {"zero_count": 0.5}, rounding="up")
    with pytest.raises(HistogramError, match="gamma"):
        from_ddsketch({"mapping": {"gamma": 1.0}}, rounding="up")
    with pytest.raises(HistogramError, match="not a DDSketch message"):
        from_ddsketch(b"\xff\xff\xff", rounding="up")


def encoded(payload: bytes) -> bytes:
    packed = zlib.compress(payload)
    return base64.b64encode(b"\x1c\x84\x93\x14" + len(packed).to_bytes(4, "big") + packed)


def test_damaged_hdr_histograms() -> None:
    histogram = HdrHistogram(1, 10**6, 2)
    histogram.record_value(77)
    raw = base64.b64decode(histogram.encode())
    payload = zlib.decompress(raw[8:])
    assert from_hdr(encoded(payload)).n == 1
    for wrong in (b"", b"abc", "no base64!", base64.b64encode(raw[:-1]), raw + b"x", encoded(payload[:20])):
        with pytest.raises((CorruptBytesError, HistogramError)):
            from_hdr(wrong)
    with pytest.raises(CorruptBytesError, match="announced"):
        from_hdr(encoded(payload + b"\x00"))
    with pytest.raises(HistogramError, match="cookie"):
        from_hdr(encoded(b"\x00" + payload[1:]))
    with pytest.raises(HistogramError, match="doubles"):
        from_hdr(encoded(payload[:32] + b"\x40" + payload[33:]))
    with pytest.raises(HistogramError, match="give an HdrHistogram"):
        from_hdr(7)


class TDigest:
    pass


def test_lowest_values_of_hdr_histograms_whose_logarithm_is_rounded_up() -> None:
    for lowest in (2**50 - 1, 2**56 - 3):  # the library takes units of 2**50 and 2**56
        histogram = HdrHistogram(lowest, 2**61, 1)
        histogram.record_value(2**57 - 1)
        for form in (histogram, histogram.encode()):
            with pytest.raises(HistogramError, match="just below a power of two"):
                from_hdr(form)
    histogram = HdrHistogram(2**50, 2**61, 1)
    histogram.record_value(2**57 - 1)
    assert from_hdr(histogram).rank(2**57) == (1, 1)


def test_digests_are_refused_with_the_reason() -> None:
    digest = datasketches.tdigest_double(100)
    for read in (from_datasketches, from_otel, from_hdr, from_prometheus_native):
        for sketch in (digest, TDigest()):
            with pytest.raises(UnprovedError, match="bounds neither the ranks nor the values"):
                read(sketch)


def test_sketches_that_are_not_supported() -> None:
    with pytest.raises(HistogramError, match="do not contain its type"):
        from_datasketches(b"123")
    with pytest.raises(CorruptBytesError, match="kll_doubles"):
        from_datasketches(b"12345678", "kll_doubles")
    with pytest.raises(HistogramError, match="not supported"):
        from_datasketches(object())


def interval_and_probable() -> list[Any]:
    sketch = datasketches.kll_doubles_sketch(200)
    sketch.update(np.arange(10_000.0))
    return [from_prometheus_buckets([(1.0, 1), (INF, 3)]), from_datasketches(sketch)]


@pytest.mark.parametrize("data", interval_and_probable(), ids=lambda data: type(data).__name__)
def test_proved_structures_take_neither(data: Any) -> None:
    monitor = Monitor(0.1)
    monitor.register(0.5, 0.1)
    ways: list[Callable[[Any], Any]] = [
        Summary.of,
        lambda x: Summary.merge(Summary.of([1.0]), x),
        StreamSketch(0.1).update_summary,
        StreamSketch(0.1).update,
        GKSketch(0.1).update_summary,
        SlidingWindow(10, 0.1).update_summary,
        monitor.update_summary,
        monitor.update,
    ]
    for way in ways:
        with pytest.raises(UnprovedError, match=f"{type(data).__name__} is refused here: its"):
            way(data)
    with tempfile.TemporaryDirectory() as folder, History(folder) as history:
        with pytest.raises(UnprovedError):
            history.append(data)
        assert history.stats()["values"] == 0


def test_summaries_of_other_data_do_not_combine() -> None:
    low, high = Summary.of([1.0, 5.0]), Summary.of([2.0, 6.0])
    assert IntervalSummary(low, high).answer(1.0).value_hi == 6.0
    with pytest.raises(InvalidArgumentError, match="lower end of 2"):
        IntervalSummary(high, low)
    with pytest.raises(InvalidArgumentError, match="same data"):
        IntervalSummary(low, Summary.of([2.0]))
    with pytest.raises(TypeMismatchError):
        IntervalSummary(low, [2.0])  # type: ignore[arg-type]
    with pytest.raises(TypeMismatchError):
        IntervalSummary.merge(IntervalSummary(low, high), interval_and_probable()[1])
    with pytest.raises(TypeMismatchError):
        ProbableSummary.merge(interval_and_probable()[1], IntervalSummary(low, high))  # type: ignore[arg-type]
    for kind in (IntervalSummary, ProbableSummary):
        with pytest.raises(InvalidArgumentError, match="at least one"):
            kind.merge()
    with pytest.raises(EmptyError):
        from_otel({"bucket_counts": [0], "count": 0}).answer(0.5)


def test_damaged_bytes_of_summaries() -> None:
    for data in interval_and_probable():
        packed, kind = data.to_bytes(), type(data)
        assert kind.from_bytes(packed) == data
        for at in range(0, len(packed), max(1, len(packed) // 40)):
            with pytest.raises(CorruptBytesError):
                kind.from_bytes(packed[:at] + bytes([packed[at] ^ 255]) + packed[at + 1 :])
        for short in (b"", packed[:5], packed[:-1], packed + b"x"):
            with pytest.raises(CorruptBytesError):
                kind.from_bytes(short)


def test_exports_that_cannot_be() -> None:
    infinite, times = Summary.of([1.0, INF]), Summary.of(np.array([1, 2], dtype="M8[s]"))
    for export in (to_otel_exponential, to_prometheus_native, exponential_buckets):
        with pytest.raises(HistogramError, match="infinite"):
            export(infinite)
        with pytest.raises(TypeMismatchError, match="convert"):
            export(times)
        with pytest.raises(UnprovedError):
            export(interval_and_probable()[1])
        with pytest.raises(HistogramError, match="max_buckets"):
            export(Summary.of([1e-30, 1e300]), max_buckets=1)
        with pytest.raises(HistogramError, match="zero_threshold"):
            export(Summary.of([1.0]), zero_threshold=-1.0)
    with pytest.raises(HistogramError, match="must increase"):
        count_buckets(Summary.of([1.0]), [2.0, 1.0])
    with pytest.raises(TypeMismatchError, match="give a Summary"):
        count_buckets([1.0], [2.0])
    with pytest.raises(InvalidArgumentError, match="finite"):
        to_otel_explicit(Summary.of([1.0]), [-INF, 1.0])
    for bounds in ("x", 5, [2.0, 1.0]):
        with pytest.raises(HistogramError, match="bounds must"):
            to_otel_explicit(Summary.of([1.0]), bounds)
    with pytest.raises(InvalidArgumentError, match="name of a metric"):
        to_prometheus_text(Summary.of([1.0]), "a b", [1.0])
    with pytest.raises(InvalidArgumentError, match="name of a label"):
        to_prometheus_text(Summary.of([1.0]), "a", [1.0], labels={"le": "x"})


EMPTY_REQ = bytes.fromhex("0201113c0c000000")
WRONG_SKETCHES = {
    "no levels": ("req_ints", "020111000c000000"),
    "no raw items": ("req_floats", "020111380c00010000e66944"),
    "an empty level": ("req_floats", "020111080c0001000000000000000000" + "0000404100030000" + "00000000"),
    "levels beyond the items": ("kll_ints", "05010f003200080088130000000000003200070000800000" + "00" * 900),
    "a k above the largest": ("kll_ints", "05010f00320008008813000000000000ffff0700" + "00" * 900),
    "too short": ("kll_doubles", "05010f00"),
}


@pytest.mark.parametrize(("kind", "data"), WRONG_SKETCHES.values(), ids=WRONG_SKETCHES)
def test_sketches_that_would_end_the_process(kind: str, data: str) -> None:
    """The library accepts such sketches unchecked, and reads beyond its memory for some."""
    with pytest.raises(CorruptBytesError):
        from_datasketches(bytes.fromhex(data), kind)


def test_empty_req_sketches() -> None:
    assert from_datasketches(EMPTY_REQ, "req_floats").n == 0
    assert from_datasketches(datasketches.req_ints_sketch(12)).n == 0


def test_items_of_req_sketches_are_those_of_the_library() -> None:
    for n in (1, 4, 5, 73, 3_000):
        for sketch in (datasketches.req_floats_sketch(12), datasketches.req_ints_sketch(12)):
            is_integer = "ints" in type(sketch).__name__
            for i in range(n):
                sketch.update(i * 7 % n)
            values, weights = read_req_items(sketch, is_integer)
            assert sorted(zip(values.tolist(), weights.tolist(), strict=True)) == sorted(sketch)


def test_spans_that_claim_billions_of_buckets() -> None:
    """Such spans are refused before they take memory."""
    spans = [(0, 10**6)] * 100_000
    with pytest.raises(HistogramError, match="1000000 buckets or more, but there are 1 counts"):
        from_prometheus_native({"schema": 0, "positive_spans": spans, "positive_counts": [1]})
    with pytest.raises(HistogramError, match="4294967295 buckets or more"):
        from_prometheus_native({"schema": 0, "positive_spans": [(0, 2**32 - 1)], "positive_counts": [1]})


def test_exports_with_too_many_buckets() -> None:
    wide = Summary.of([1e-300, 1e300])
    with pytest.raises(HistogramError, match="scale 20 has more than 1,000,000 buckets"):
        exponential_buckets(wide, 20)
    with pytest.raises(HistogramError, match="max_buckets must be"):
        exponential_buckets(wide, max_buckets=2**40)


@pytest.mark.parametrize("bound", [math.nan, "x", [1.0], {}])
def test_bounds_that_are_no_numbers(bound: Any) -> None:
    for name in ("smallest", "largest"):
        with pytest.raises(HistogramError):
            from_prometheus_buckets([(1.0, 1), (INF, 3)], **{name: bound})
    with pytest.raises(HistogramError, match="above largest"):
        from_prometheus_buckets([(INF, 3)], smallest=2.0, largest=1.0)


@pytest.mark.parametrize(
    "read",
    [
        lambda: from_otel({1: 2, "count": 1}),
        lambda: from_otel({"scale": 10**400, "zero_count": 1}),
        lambda: from_prometheus_buckets([1, 2]),  # type: ignore[list-item]
        lambda: from_prometheus_buckets([(1, 2, 3)]),  # type: ignore[list-item]
        lambda: from_prometheus_native({"schema": 0, "positive_spans": 5, "positive_counts": [1]}),
        lambda: from_prometheus_native({"schema": 0, "positive_spans": [[]], "positive_counts": [1]}),
        lambda: from_prometheus_native({"schema": 0, "zero_count": 1, "count": 1, "sum": "x"}),
        lambda: from_ddsketch({"mapping": {"gamma": 1.02}, "positive_values": {"bin_counts": 1}}, rounding="up"),
        lambda: from_ddsketch({"mapping": {"gamma": 1.02, "interpolation": [1]}}, rounding="up"),
        lambda: count_buckets(Summary.of([1.0]), [1.0, ["x"]]),
        lambda: to_otel_explicit(Summary.of([1.0]), {"a": 1}),
        lambda: to_prometheus_text(Summary.of([1.0]), "m", [1.0], labels=5),  # type: ignore[arg-type]
        lambda: exponential_buckets(Summary.of([1.0]), zero_threshold="1"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_are_named(read: Callable[[], Any]) -> None:
    with pytest.raises(HistogramError) as caught:
        read()
    assert len(str(caught.value)) < 500
