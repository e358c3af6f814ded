"""Histograms and sketches of other systems, in and out. See docs/histograms.md."""

from quantide.histograms.bucket_counts import BucketCounts, count_buckets
from quantide.histograms.datasketches_import import from_datasketches
from quantide.histograms.ddsketch_import import from_ddsketch
from quantide.histograms.explicit_export import to_otel_explicit, to_prometheus_text
from quantide.histograms.exponential_counts import BucketRange, ExponentialBuckets, exponential_buckets
from quantide.histograms.exponential_export import to_otel_exponential, to_prometheus_native
from quantide.histograms.hdr_import import from_hdr
from quantide.histograms.interval_answer import IntervalAnswer
from quantide.histograms.interval_summary import IntervalSummary
from quantide.histograms.otel_import import from_otel
from quantide.histograms.probable_summary import ProbableAnswer, ProbableSummary
from quantide.histograms.prometheus_import import from_prometheus_buckets, from_prometheus_native, from_prometheus_text

__all__ = [
    "BucketCounts",
    "BucketRange",
    "ExponentialBuckets",
    "IntervalAnswer",
    "IntervalSummary",
    "ProbableAnswer",
    "ProbableSummary",
    "count_buckets",
    "exponential_buckets",
    "from_datasketches",
    "from_ddsketch",
    "from_hdr",
    "from_otel",
    "from_prometheus_buckets",
    "from_prometheus_native",
    "from_prometheus_text",
    "to_otel_explicit",
    "to_otel_exponential",
    "to_prometheus_native",
    "to_prometheus_text",
]
