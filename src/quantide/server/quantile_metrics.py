"""Quantiles of streams for scraping: gauges of the quantiles and windows that the configuration lists.

Windows end at the newest time of a stream, as in other queries. The reader prepares them after each commit, so that a
scrape reads no data.
"""

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quantide.config.stream_metrics import StreamMetrics
from quantide.errors import QuantideError
from quantide.live.live_stream import LiveStream
from quantide.server.prometheus.metric_catalog import (
    BOUND,
    BOUNDS,
    QUANTILE,
    STREAM,
    WINDOW,
    label_names,
    label_text,
    quantile_text,
)
from quantide.server.prometheus.promql_evaluation import to_float
from quantide.server.served_streams import ServedStreams
from quantide.summary.value_json import encode_value
from quantide.windows.time_clock import read_span

QUANTILES = "quantide_quantile"
WINDOW_ROWS = "quantide_window_rows"


class QuantileCollector(Collector):
    """Exported quantiles of all streams, or of those with some names."""

    def __init__(self, streams: ServedStreams, names: frozenset[str] | None = None) -> None:
        self._streams, self._names = streams, names

    def collect(self) -> Iterator[Metric]:
        quantiles = GaugeMetricFamily(QUANTILES, "Quantile of a window, and the bounds that are proved for it")
        rows = GaugeMetricFamily(WINDOW_ROWS, "Rows of the window of a quantile")
        unopened = self._streams.open_errors
        for name in self._streams.names:
            metrics = self._streams.metrics(name)
            if not metrics.exported or name in unopened or (self._names is not None and name not in self._names):
                continue
            live = self._streams.live(name)
            for key in (None, *metrics.keys):
                labels = {STREAM: name} | key_labels(live, key)
                for window in metrics.windows:
                    _add_window(live, metrics, key, window, labels, quantiles, rows)
        yield quantiles
        yield rows


def key_labels(live: LiveStream, key: Any) -> dict[str, str]:
    """Return the labels of a key; none for all keys."""
    parts = () if key is None else key if isinstance(key, tuple) else (key,)
    names = label_names(live.settings.keys)
    return {name: label_text(encode_value(part)) for name, part in zip(names, parts, strict=False)}


def _add_window(
    live: LiveStream,
    metrics: StreamMetrics,
    key: Any,
    window: str,
    labels: dict[str, str],
    quantiles: Metric,
    rows: Metric,
) -> None:
    """Add the samples of a window, unless it has no rows, or one that ended now would have none."""
    lag = live.lag
    if lag is not None and lag > read_span(window):
        return
    try:
        bands = live.bands(metrics.quantiles, key=key, within=window)
    except QuantideError:  # no rows, or not this key; other streams and metrics are scraped
        return
    rows.add_sample(WINDOW_ROWS, labels | {WINDOW: window}, bands[0].answer.n)
    for phi, band in zip(metrics.quantiles, bands, strict=True):
        for bound, value in enumerate((band.answer.value, band.low, band.high)):
            chosen = {QUANTILE: quantile_text(phi), WINDOW: window, BOUND: BOUNDS[bound]}
            quantiles.add_sample(QUANTILES, labels | chosen, to_float(value, bound))
