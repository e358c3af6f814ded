"""Import of Prometheus histograms: classic ones as pairs or text, and native ones."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from quantide.errors import HistogramError, NaNError
from quantide.histograms.bucket_intervals import above, join_signs, summarize_buckets
from quantide.histograms.exponential_edges import SCHEMAS, power_buckets
from quantide.histograms.histogram_fields import (
    check_total,
    first_field,
    named_errors,
    read_count,
    read_counts,
    read_deltas,
    read_edges,
    read_fields,
    read_range,
    read_threshold,
    read_whole,
)
from quantide.histograms.interval_summary import IntervalSummary
from quantide.typing import Floats, Ints

CUSTOM_BUCKETS = -53  # the schema with a list of edges
NATIVE_FIELDS = ("schema", "sample_", "count", "sum", "zero_", "pos", "neg", "custom_values")  # prefixes of their names
Labels = tuple[tuple[str, str], ...]

_LABELS = r'\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\}'  # up to their own bracket: an exemplar has another
_SAMPLE = re.compile(rf"^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*{_LABELS}[ \t]*(\S+)", re.MULTILINE)
_SUM = re.compile(rf"^[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)_sum(?:[ \t]*{_LABELS}[ \t]*|[ \t]+)[nN][aA][nN]\b", re.MULTILINE)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@named_errors
def from_prometheus_buckets(
    buckets: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    *,
    count: Any = None,
    smallest: float | None = None,
    largest: float | None = None,
) -> IntervalSummary:
    """Return the summary of a classic histogram: a dict or pairs of `le`, an upper edge, and the cumulative count.

    The last edge must be +Inf. `smallest` and `largest` are bounds of all values, if there are any: latencies are not
    below 0. Without them, the first bucket begins at -inf and the last one ends at inf.

    >>> s = from_prometheus_buckets([("0.1", 8), ("1", 9), ("+Inf", 10)], smallest=0.0)
    >>> s.rank(0.1), s.answer(1.0).value
    ((8, 8), np.float64(inf))
    """
    pairs, (smallest, largest) = _read_pairs(buckets), read_range(smallest, largest)
    edges = read_edges("le", [edge for edge, _ in pairs])
    cumulative = read_counts("cumulative counts", [number for _, number in pairs])
    if not len(edges) or edges[-1] != np.inf:
        raise HistogramError("the last bucket must have le=+Inf, or values above the last edge are not counted")
    falling = np.flatnonzero(cumulative[1:] < cumulative[:-1])
    if len(falling):
        a, b = cumulative[falling[0]], cumulative[falling[0] + 1]
        raise HistogramError(f"cumulative counts fall from {a} to {b} at le={edges[falling[0] + 1]:g}")
    counts = np.diff(cumulative, prepend=0)
    check_total("count", count, counts)
    lows = above(np.append(-np.inf, edges[:-1]))
    return summarize_buckets(lows, edges, counts, smallest, largest)


def _read_pairs(buckets: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    try:
        return [(edge, count) for edge, count in (buckets.items() if isinstance(buckets, Mapping) else buckets)]
    except (TypeError, ValueError) as error:
        raise HistogramError("buckets must be pairs of le and a cumulative count, such as (0.5, 90)") from error


@named_errors
def from_prometheus_text(
    text: str, name: str, *, smallest: float | None = None, largest: float | None = None
) -> dict[Labels, IntervalSummary]:
    """Return the classic histograms of this name in a text of the exposition format, by their labels without `le`.

    The name has no suffix such as `_bucket`. Without a histogram of this name, the result is empty.

    >>> text = 'rpc_bucket{code="200",le="1"} 3\\nrpc_bucket{code="200",le="+Inf"} 4\\n'
    >>> from_prometheus_text(text, "rpc")[(("code", "200"),)].n
    4
    """
    if not isinstance(text, str):
        raise HistogramError(f"the text is of type {type(text).__name__}; give a str, such as data.decode()")
    by_labels: dict[Labels, list[tuple[str, str]]] = {}
    bucket, samples = f"{name}_bucket", 0
    for found, labels, number in _SAMPLE.findall(text):
        if found == bucket:
            samples += 1
            edge, key = _parse_labels(labels)
            if edge is None:
                raise HistogramError(f"a bucket of {name} has no label le: {found}{{{labels}}} {number}")
            by_labels.setdefault(key, []).append((edge, number))
    _check_all_read(text, bucket, samples)
    sums = _SUM.findall(text) if "nan" in text.lower() else ()
    unknown = {_parse_labels(labels)[1] for found, labels in sums if found == name}
    for key in by_labels.keys() & unknown:
        raise NaNError(f"the sum of {name}{dict(key)} is NaN: its last bucket may count NaN, which have no rank")
    return {key: from_prometheus_buckets(pairs, smallest=smallest, largest=largest) for key, pairs in by_labels.items()}


def _check_all_read(text: str, bucket: str, samples: int) -> None:
    """Raise if a line of the buckets is not a sample: without it, the histogram would be coarser."""
    lines = re.findall(rf"^[ \t]*{re.escape(bucket)}(?![\w:]).*$", text, re.M) if text.count(bucket) > samples else ()
    if len(lines) > samples:
        line = next(line for line in lines if not _SAMPLE.match(line))
        raise HistogramError(f"a line of {bucket} cannot be read: {line.strip()[:200]!r}")


@lru_cache(maxsize=4096)  # texts of a server have the same labels again and again
def _parse_labels(text: str) -> tuple[str | None, Labels]:
    """Return the label `le`, None if it is missing, and the others."""
    labels = dict(_LABEL.findall(text))
    edge = labels.pop("le", None)
    unescaped = (
        (name, re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), value) if "\\" in value else value)
        for name, value in sorted(labels.items())
    )
    return edge, tuple(unescaped)


@named_errors
def from_prometheus_native(histogram: Any, *, exact: bool = False) -> IntervalSummary:
    """Return the summary of a native histogram: a dict, a protobuf message, or one of prometheus_client.

    Fields have the names of the client model (`positive_span`, `positive_delta`) or of remote write
    (`positive_spans`, `positive_deltas`). Counts must be whole: those of a rate are not. NaN observations, which are in
    no bucket, become `nans`. With `exact`, edges are not widened by the rounding of logarithms, as is right for the Go
    client, which compares values with the edges.
    """
    fields = read_fields(histogram)
    if fields and not any(name.startswith(NATIVE_FIELDS) for name in fields):
        raise HistogramError(f"no native histogram: it has the fields {', '.join(fields)}")
    schema = read_whole("schema", fields.get("schema", 0), CUSTOM_BUCKETS, SCHEMAS[1])
    if schema == CUSTOM_BUCKETS:
        lows, highs, counts = _custom_buckets(fields)
    elif schema < SCHEMAS[0]:
        raise HistogramError(f"schema {schema} is unknown; known are {SCHEMAS[0]} to {SCHEMAS[1]}, {CUSTOM_BUCKETS}")
    else:
        threshold = read_threshold(fields.get("zero_threshold", 0.0))
        names = ("zero_count", "zero_count_int", "zero_count_float")
        zeros = read_count("zero_count", first_field(fields, *names, default=0))
        negative, positive = (_one_sign(fields, sign, schema, exact) for sign in ("negative", "positive"))
        lows, highs, counts = join_signs(negative, positive, threshold, zeros)
    return summarize_buckets(lows, highs, counts, nans=_count_nans(fields, counts))


def _count_nans(fields: Mapping[str, Any], counts: Ints) -> int:
    """Return how many observations are NaN: those beyond the buckets, if the sum is NaN, too."""
    names = ("sample_count", "count", "count_int", "count_value", "sample_count_float", "count_float")
    count, total = first_field(fields, *names), first_field(fields, "sample_sum", "sum", "sum_value", default=0.0)
    nans = 0
    if count is not None and np.isnan(float(total)):
        nans = max(0, read_count("count", count) - int(counts.sum()))
    check_total("count", count, counts, nans)
    return nans


def _one_sign(fields: Mapping[str, Any], sign: str, schema: int, exact: bool) -> tuple[Floats, Floats, Ints]:
    indexes, counts = _sparse_counts(fields, sign)
    some = counts.nonzero()[0]
    # Bucket i of Prometheus ends at base^i, that of OpenTelemetry begins there.
    lows, highs = power_buckets(indexes[some] - 1, schema, exact)
    return lows, highs, counts[some]


def _custom_buckets(fields: Mapping[str, Any]) -> tuple[Floats, Floats, Ints]:
    edges = read_edges("custom_values", fields.get("custom_values", ()))
    edges = edges if len(edges) and edges[-1] == np.inf else np.append(edges, np.inf)
    indexes, counts = _sparse_counts(fields, "positive")
    if len(indexes) and not (indexes[0] >= 0 and indexes[-1] < len(edges)):
        raise HistogramError(f"buckets {indexes[0]} to {indexes[-1]} of {len(edges)} custom ones")
    return above(np.append(-np.inf, edges[:-1]))[indexes], edges[indexes], counts


def _sparse_counts(fields: Mapping[str, Any], sign: str) -> tuple[Ints, Ints]:
    """Return the indexes and counts of the buckets of a sign, from spans and either deltas or counts."""
    spans = first_field(fields, f"{sign}_span", f"{sign}_spans", f"{sign[:3]}_spans", default=None) or ()
    deltas = first_field(fields, f"{sign}_delta", f"{sign}_deltas", f"{sign[:3]}_deltas", default=None)
    plain = first_field(fields, f"{sign}_count", f"{sign}_counts", default=None)
    given = [len(x) for x in (deltas, plain) if x is not None]
    indexes = _span_indexes(sign, spans, max(given, default=0))
    if deltas is not None and len(deltas):
        if plain is not None and len(plain):
            raise HistogramError(f"{sign} buckets have deltas and counts; give one of them")
        plain = read_deltas(f"{sign} deltas", deltas)
    counts = read_counts(f"{sign} buckets", () if plain is None else plain)
    if len(counts) != len(indexes):
        raise HistogramError(f"{sign} spans have {len(indexes)} buckets, but there are {len(counts)} counts")
    return indexes, counts


def _span_indexes(sign: str, spans: Iterable[Any], most: int) -> Ints:
    """Return the index of every bucket of the spans; the offset of a span counts from the end of the one before.

    Raise if there are more buckets than the `most` counts that were given, before they take memory.
    """
    starts, lengths, following, total = list[int](), list[int](), 0, 0
    for number, span in enumerate(spans):
        offset, length = span if isinstance(span, (tuple, list)) else _span_fields(span)
        low = -(2**31) if number == 0 else 0
        start = following + read_whole(f"{sign}_span.offset", offset, low, 2**31)
        length = read_whole(f"{sign}_span.length", length, 0, 2**32 - 1)
        following = start + length
        if total + length > most:
            raise HistogramError(f"{sign} spans have {total + length} buckets or more, but there are {most} counts")
        starts.append(start - total)
        lengths.append(length)
        total += length
    return np.array(starts, dtype=np.int64).repeat(lengths) + np.arange(total) if starts else np.empty(0, np.int64)


def _span_fields(span: Any) -> tuple[Any, Any]:
    if type(span) is dict and type(span.get("offset")) is int and type(span.get("length")) is int:
        return span["offset"], span["length"]
    fields = read_fields(span)
    return fields.get("offset", 0), fields.get("length", 0)
