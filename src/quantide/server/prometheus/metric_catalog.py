"""Metric catalog: the metrics that streams appear as, and the names of their labels."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from quantide.config.stream_metrics import StreamMetrics
from quantide.live.live_stream import LiveStream
from quantide.server.prometheus.promql_parser import NAME
from quantide.summary.value_json import encode_value

STREAM, QUANTILE, WINDOW, BOUND, FILTER = "stream", "quantile", "window", "bound", "filter"
RESERVED = (NAME, STREAM, QUANTILE, WINDOW, BOUND, FILTER)
BOUNDS = ("value", "low", "high")  # in the order of a point of a time series
ROWS = "_rows_total"
INVALID = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True)
class StreamMetric:
    """A stream as a metric: its quantiles, and the counter of its rows."""

    stream: str
    live: LiveStream
    settings: StreamMetrics
    unit: str | None = None

    @property
    def name(self) -> str:
        return metric_name(self.stream)

    @property
    def rows_name(self) -> str:
        return self.name + ROWS

    @property
    def key_labels(self) -> list[str]:
        return label_names(self.live.settings.keys)

    @property
    def filters(self) -> list[str]:
        return list(self.live.settings.filters)


def metric_name(stream: str) -> str:
    """Return the name of a stream as a valid name of a metric.

    >>> metric_name("web.latency-ms"), metric_name("5xx")
    ('web_latency_ms', '_5xx')
    """
    name = INVALID.sub("_", stream)
    return f"_{name}" if name[:1].isdigit() else name


def label_names(columns: Iterable[str]) -> list[str]:
    """Return a valid and unique name of a label for each key column.

    >>> label_names(["endpoint", "data center", "window"])
    ['endpoint', 'data_center', 'key_window']
    """
    names = list[str]()
    for column in columns:
        name = metric_name(column)
        if name in RESERVED or name.startswith("__"):
            name = f"key_{name}"
        while name in names:
            name += "_"
        names.append(name)
    return names


def label_texts(column: pa.Array) -> pa.Array:
    """Return the parts of keys as texts of labels; null is "", which is a missing label."""
    if pa.types.is_string(column.type):
        return column.fill_null("")
    texts = [encode_value(part) for part in column.to_pylist()]
    return pa.array(["" if text is None else label_text(text) for text in texts], pa.string())


def label_text(value: object) -> str:
    """Return a part of a key as the text of a label."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def quantile_text(phi: float) -> str:
    """Return a phi as the text of a label.

    >>> quantile_text(0.99), quantile_text(1.0)
    ('0.99', '1')
    """
    return repr(float(phi)).removesuffix(".0")
