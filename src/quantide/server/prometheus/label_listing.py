"""Label listing: names and values of labels, series and metadata, for completion and variables of dashboards."""

from collections.abc import Iterator, Sequence
from typing import Any

from quantide.server.prometheus.label_matchers import Matchers, accepts
from quantide.server.prometheus.metric_catalog import (
    BOUND,
    BOUNDS,
    FILTER,
    QUANTILE,
    RESERVED,
    STREAM,
    WINDOW,
    StreamMetric,
)
from quantide.server.prometheus.promql_parser import NAME
from quantide.server.prometheus.query_labels import (
    choose_bounds,
    choose_filters,
    choose_quantiles,
    choose_windows,
)
from quantide.server.prometheus.series_selection import (
    Labels,
    MatchingKeys,
    match_keys,
    select_quantiles,
    select_rows,
)

Selectors = Sequence[Matchers]
ROW_LABELS = (NAME, STREAM, FILTER)


def list_series(metrics: Sequence[StreamMetric], selectors: Selectors, limit: int) -> list[Labels]:
    """Return the labels of all series that match one of the selectors."""
    found = dict[tuple[tuple[str, str], ...], Labels]()
    for matchers in selectors:
        windows = select_quantiles(metrics, matchers, limit, listed=True)
        labels = [labels for window in windows for _, _, labels in window.label_sets()]
        for each in labels + [rows.labels for rows in select_rows(metrics, matchers, limit)]:
            found[tuple(sorted(each.items()))] = each
    return list(found.values())


def list_label_names(metrics: Sequence[StreamMetric], selectors: Selectors) -> list[str]:
    """Return the names of all labels of the series that match one of the selectors."""
    names = set[str]()
    for metric, is_rows, _, keys in _matching(metrics, selectors):
        names |= {NAME, STREAM, *(() if is_rows else (QUANTILE, WINDOW, BOUND))}
        names |= {label for label in keys.labels if keys.values(label)} | ({FILTER} if metric.filters else set())
    return sorted(names)


def list_label_values(metrics: Sequence[StreamMetric], label: str, selectors: Selectors) -> list[str]:
    """Return the values of a label among the series that match one of the selectors."""
    values = set[str]()
    for metric, is_rows, matchers, keys in _matching(metrics, selectors):
        chosen = {NAME: [metric.rows_name if is_rows else metric.name], STREAM: [metric.stream], FILTER: metric.filters}
        if not is_rows:
            chosen[QUANTILE] = list(choose_quantiles(metric, matchers))
            chosen[WINDOW] = list(choose_windows(metric, matchers))
            chosen[BOUND] = [bound for bound in BOUNDS if accepts(matchers, BOUND, bound)]
        values |= set(chosen.get(label, ())) | set(keys.values(label))
    return sorted(values)


def list_metadata(metrics: Sequence[StreamMetric], name: str | None) -> dict[str, Any]:
    """Return type, help and unit of each metric, or of one."""
    described = {}
    for metric in metrics:
        quantiles = f"Quantiles of {metric.stream}; the labels quantile, window and bound choose which"
        described[metric.name] = [{"type": "gauge", "help": quantiles, "unit": metric.unit or ""}]
        rows = f"Rows of {metric.stream}, for rate() and increase()"
        described[metric.rows_name] = [{"type": "counter", "help": rows, "unit": ""}]
    return described if name is None else {key: entry for key, entry in described.items() if key == name}


def _matching(
    metrics: Sequence[StreamMetric], selectors: Selectors
) -> Iterator[tuple[StreamMetric, bool, Matchers, MatchingKeys]]:
    """Yield each metric that matches, True for its counter of rows, the matchers, and the keys that match."""
    for matchers in selectors or [()]:
        for metric in metrics:
            if not accepts(matchers, STREAM, metric.stream) or not choose_filters(metric, matchers):
                continue
            for is_rows, name in ((False, metric.name), (True, metric.rows_name)):
                if not accepts(matchers, NAME, name) or not (is_rows or _has_quantiles(metric, matchers)):
                    continue
                others = ROW_LABELS if is_rows else RESERVED
                if keys := match_keys(metric, matchers, others):
                    yield metric, is_rows, matchers, keys


def _has_quantiles(metric: StreamMetric, matchers: Matchers) -> bool:
    return bool(choose_quantiles(metric, matchers) and choose_windows(metric, matchers) and choose_bounds(matchers))
