"""Export of exponential histograms: those of OpenTelemetry, and the native ones of Prometheus."""

from itertools import pairwise
from typing import Any

import numpy as np

from quantide.histograms.bucket_counts import to_source
from quantide.histograms.explicit_export import known_fields
from quantide.histograms.exponential_counts import MAX_BUCKETS, BucketRange, exponential_buckets
from quantide.histograms.exponential_edges import MIN_NORMAL, SCHEMAS
from quantide.histograms.histogram_fields import named_errors

ZERO_THRESHOLD = 2.0**-128  # the default of Prometheus


@named_errors
def to_otel_exponential(
    source: Any,
    scale: int | None = None,
    *,
    max_buckets: int = MAX_BUCKETS,
    zero_threshold: float = MIN_NORMAL,
    sum: float | None = None,
) -> dict[str, Any]:
    """Return a data point with exponential buckets, in the shape of the JSON of OTLP: counts are texts.

    Without a scale, it is the finest one with at most `max_buckets` for each sign. `exponential_buckets` returns the
    same counts with their bounds.
    """
    summary = to_source(source)
    buckets = exponential_buckets(summary, scale, max_buckets=max_buckets, zero_threshold=zero_threshold)
    signs = {
        name: {"offset": side.first, "bucketCounts": [str(count) for count in side.counts.tolist()]}
        for name, side in (("positive", buckets.positive), ("negative", buckets.negative))
    }
    point = {
        "count": str(summary.n),
        "scale": buckets.scale,
        "zeroCount": str(int(buckets.zero.counts[0])),
        "zeroThreshold": zero_threshold,
    }
    return point | signs | known_fields(summary, sum)


@named_errors
def to_prometheus_native(
    source: Any,
    schema: int | None = None,
    *,
    max_buckets: int = MAX_BUCKETS,
    zero_threshold: float = ZERO_THRESHOLD,
    sum: float | None = None,
) -> dict[str, Any]:
    """Return a native histogram as a dict with the field names of Prometheus' client model.

    Without a schema, it is the finest one with at most `max_buckets` for each sign. `exponential_buckets` returns the
    same counts with their bounds.
    """
    buckets = exponential_buckets(
        source, schema, max_buckets=max_buckets, zero_threshold=zero_threshold, scales=SCHEMAS
    )
    histogram = {
        "sample_count": buckets.n,
        "schema": buckets.scale,
        "zero_threshold": zero_threshold,
        "zero_count": int(buckets.zero.counts[0]),
    }
    for name, side in (("negative", buckets.negative), ("positive", buckets.positive)):
        histogram |= _spans(name, side)
    return histogram | ({} if sum is None else {"sample_sum": sum})


def _spans(name: str, side: BucketRange) -> dict[str, Any]:
    """Return the spans and the deltas of buckets that are not empty; bucket i of Prometheus ends at base^i."""
    some = side.counts.nonzero()[0]
    breaks = [0, *(np.flatnonzero(np.diff(some) > 1) + 1).tolist(), len(some)] if len(some) else []
    spans, following = [], 0
    for start, end in pairwise(breaks):
        first = side.first + 1 + int(some[start])
        spans.append({"offset": first - following, "length": end - start})
        following = first + end - start
    deltas = np.diff(side.counts[some], prepend=0).tolist()
    return {f"{name}_span": spans, f"{name}_delta": deltas}
