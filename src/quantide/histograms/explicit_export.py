"""Export of histograms with given edges: explicit buckets of OpenTelemetry, classic histograms of Prometheus."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError
from quantide.histograms.bucket_counts import count_buckets, extremes, to_source
from quantide.histograms.histogram_fields import named_errors, read_edges
from quantide.typing import Floats

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@named_errors
def to_otel_explicit(source: Any, bounds: Any, *, sum: float | None = None) -> dict[str, Any]:
    """Return a data point with explicit buckets, in the shape of the JSON of OTLP: counts are texts.

    `bounds` are the upper edges of all buckets but the last. A summary does not know the sum of its values; give it if
    you do. `count_buckets` returns the same counts with their bounds.

    >>> from quantide import Summary
    >>> to_otel_explicit(Summary.of([0.2, 0.7, 3.0]), [0.5, 1.0])["bucketCounts"]
    ['1', '1', '1']
    """
    summary = to_source(source)
    counted = count_buckets(summary, _finite(bounds))
    point = {
        "count": str(summary.n),
        "bucketCounts": [str(count) for count in counted.counts.tolist()],
        "explicitBounds": counted.edges.tolist(),
    }
    return point | known_fields(summary, sum)


def known_fields(summary: Any, sum: float | None) -> dict[str, float]:
    """Return the fields of a data point that are optional and known: sum, min and max."""
    smallest, largest = extremes(summary)
    optional = {"sum": sum, "min": smallest, "max": largest}
    return {name: value for name, value in optional.items() if value is not None and np.isfinite(value)}


@named_errors
def to_prometheus_text(
    source: Any, name: str, bounds: Any, *, labels: Mapping[str, str] | None = None, sum: float | None = None
) -> str:
    """Return a classic histogram in the text format that Prometheus scrapes.

    `bounds` are the values of `le` before +Inf. Without `sum`, which a summary does not know, the text has no `_sum`.

    >>> from quantide import Summary
    >>> print(to_prometheus_text(Summary.of([0.2, 0.7]), "latency_seconds", [0.5]), end="")
    # TYPE latency_seconds histogram
    latency_seconds_bucket{le="0.5"} 1
    latency_seconds_bucket{le="+Inf"} 2
    latency_seconds_count 2
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"{name!r} is no name of a metric; use letters, digits and underscores")
    counted = count_buckets(source, _finite(bounds))
    given = [_label_text(label, value) for label, value in (labels or {}).items()]
    edges = [*(f"{edge!r}" for edge in counted.edges.tolist()), "+Inf"]
    lines = [f"# TYPE {name} histogram"]
    for edge, count in zip(edges, counted.counts.cumsum().tolist(), strict=True):
        text = ",".join([*given, f'le="{edge}"'])
        lines.append(f"{name}_bucket{{{text}}} {count}")
    braces = f"{{{','.join(given)}}}" if given else ""
    if sum is not None:
        lines.append(f"{name}_sum{braces} {float(sum)!r}")
    lines.append(f"{name}_count{braces} {counted.n}")
    return "\n".join(lines) + "\n"


def _finite(bounds: Any) -> Floats:
    """Return bounds without a last +Inf; raise if another one is infinite, or if they do not increase."""
    array = read_edges("bounds", bounds)
    array = array[:-1] if len(array) and array[-1] == np.inf else array
    if np.isinf(array).any():
        raise InvalidArgumentError("bounds must be finite; the bucket up to +Inf is added")
    return array


def _label_text(name: str, value: str) -> str:
    if not _LABEL.fullmatch(name) or name == "le":
        raise InvalidArgumentError(f"{name!r} is no name of a label; use letters, digits and underscores, and not le")
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
