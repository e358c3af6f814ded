"""Import of OpenTelemetry histograms: exponential and explicit buckets."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from quantide.errors import HistogramError
from quantide.histograms.bucket_intervals import above, join_signs, split_ends, summarize_buckets
from quantide.histograms.exponential_edges import MAX_SCALE, MIN_SCALE, power_buckets
from quantide.histograms.histogram_fields import (
    check_total,
    named_errors,
    read_count,
    read_counts,
    read_edges,
    read_fields,
    read_float,
    read_threshold,
    read_whole,
)
from quantide.histograms.interval_summary import IntervalSummary
from quantide.typing import Floats, Ints

MAX_INDEX = 2**31 - 1


@named_errors
def from_otel(point: Any, *, exact: bool = False) -> IntervalSummary:
    """Return the summary of one data point of a histogram, with explicit or with exponential buckets.

    `point` is a data point of the OpenTelemetry SDK, a protobuf message, or a dict in the shape of either or of the
    JSON of OTLP. `min` and `max`, if they are there, are exact values and narrow the buckets at the ends. With `exact`,
    exponential edges are taken as they are, not widened by the rounding of logarithms: for producers that compare
    values with the edges.

    >>> point = {"count": "3", "scale": 0, "zeroCount": "1", "positive": {"offset": 1, "bucketCounts": ["2"]}}
    >>> answer = from_otel(point, exact=True).answer(0.5)
    >>> answer.value_hi, answer.rank_lo, answer.rank_hi
    (np.float64(4.0), 2, 2)
    """
    fields = read_fields(point)
    exponential = {"scale", "positive", "negative", "zero_count"} & fields.keys()
    if not exponential and not {"bucket_counts", "explicit_bounds", "count"} & fields.keys():
        raise HistogramError(
            f"no data point of a histogram: it has the fields {', '.join(fields) or 'none'}; give one element of "
            "dataPoints (data_points in Python) of a histogram"
        )
    lows, highs, counts = _exponential(fields, exact) if exponential else _explicit(fields)
    check_total("count", fields.get("count"), counts)
    smallest, largest = _extremes(fields)
    return summarize_buckets(*split_ends(lows, highs, counts, smallest, largest), smallest, largest)


def _extremes(fields: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return min and max; the SDK has inf and -inf where they were not recorded."""
    smallest, largest = (read_float(name, fields[name]) if name in fields else None for name in ("min", "max"))
    if smallest is not None and largest is not None and smallest == np.inf and largest == -np.inf:
        return None, None
    return smallest, largest


def _explicit(fields: Mapping[str, Any]) -> tuple[Floats, Floats, Ints]:
    edges = read_edges("explicit_bounds", fields.get("explicit_bounds", ()))
    counts = read_counts("bucket_counts", fields.get("bucket_counts", ()))
    if not len(counts) and not len(edges):  # a point without buckets: all values are in one
        counts = read_counts("count", [fields.get("count", 0)])
    if len(counts) != len(edges) + 1:
        raise HistogramError(f"{len(edges)} explicit_bounds need {len(edges) + 1} bucket_counts, not {len(counts)}")
    return above(np.append(-np.inf, edges)), np.append(edges, np.inf), counts


def _exponential(fields: Mapping[str, Any], exact: bool) -> tuple[Floats, Floats, Ints]:
    scale = read_whole("scale", fields.get("scale", 0), MIN_SCALE, MAX_SCALE)
    threshold = read_threshold(fields.get("zero_threshold", 0.0))
    zeros = read_count("zero_count", fields.get("zero_count", 0))
    positive = _one_sign("positive", fields, scale, exact)
    negative = _one_sign("negative", fields, scale, exact)
    return join_signs(negative, positive, threshold, zeros)


def _one_sign(sign: str, fields: Mapping[str, Any], scale: int, exact: bool) -> tuple[Floats, Floats, Ints]:
    buckets = read_fields(fields.get(sign, {}))
    counts = read_counts(f"{sign}.bucket_counts", buckets.get("bucket_counts", ()))
    offset = read_whole(f"{sign}.offset", buckets.get("offset", 0), -MAX_INDEX - 1, MAX_INDEX)
    some = counts.nonzero()[0]
    lows, highs = power_buckets(offset + some, scale, exact)
    return lows, highs, counts[some]
