"""Series selection: from label matchers to the streams, keys, windows and quantiles that a query is about.

Labels of keys select among the keys that exist. The labels quantile, window, bound and filter choose what is computed:
their values are those that a matcher names, or the defaults of the stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.server.prometheus.label_matchers import EQUAL, NOT_EQUAL, LabelMatcher, select_all
from quantide.server.prometheus.metric_catalog import (
    BOUND,
    BOUNDS,
    FILTER,
    QUANTILE,
    RESERVED,
    STREAM,
    WINDOW,
    StreamMetric,
    label_texts,
    quantile_text,
)
from quantide.server.prometheus.promql_parser import NAME
from quantide.windows.time_clock import read_span

HAS_TEXT = LabelMatcher("", NOT_EQUAL, "")  # a key without any text would have the labels of all keys
Labels = dict[str, str]
Matchers = Sequence[LabelMatcher]


@dataclass(frozen=True)
class SelectedKey:
    """A key and its labels; None stands for all keys."""

    key: Any
    labels: Labels


@dataclass(frozen=True)
class WindowSeries:
    """Series over one window of a key: `labels` are those that all its quantiles and bounds share."""

    metric: StreamMetric
    key: Any
    labels: Labels
    window: str
    filter: str | None
    quantiles: tuple[str, ...]
    bounds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.quantiles) * len(self.bounds)

    def label_sets(self) -> Iterator[tuple[int, int, Labels]]:
        """Yield the index of a quantile, that of a bound in BOUNDS, and all labels of the series."""
        for index, quantile in enumerate(self.quantiles):
            for bound in self.bounds:
                chosen = {QUANTILE: quantile, WINDOW: self.window, BOUND: bound}
                yield index, BOUNDS.index(bound), self.labels | chosen


@dataclass(frozen=True)
class RowSeries:
    """The counter of the rows of a key."""

    metric: StreamMetric
    key: Any
    labels: Labels
    filter: str | None


def select_quantiles(
    metrics: Sequence[StreamMetric], matchers: Matchers, limit: int, listed: bool = False
) -> list[WindowSeries]:
    """Return the series of quantiles that match; raise if there are more than `limit`. `listed` as in select_keys()."""
    selected, count = list[WindowSeries](), 0
    for metric in metrics:
        if not (accepts(matchers, NAME, metric.name) and accepts(matchers, STREAM, metric.stream)):
            continue
        quantiles, windows = choose_quantiles(metric, matchers), choose_windows(metric, matchers)
        bounds, filters = choose_bounds(matchers), choose_filters(metric, matchers)
        each = len(quantiles) * len(windows) * len(bounds) * len(filters)
        if not each:
            continue
        keys = select_keys(metric, matchers, RESERVED, limit, each, listed)
        count += each * len(keys)
        check_limit(count, limit)
        shared = {NAME: metric.name, STREAM: metric.stream}
        for chosen in keys:
            for filter in filters:
                labels = shared | chosen.labels | ({FILTER: filter} if filter else {})
                selected += [
                    WindowSeries(metric, chosen.key, labels, window, filter or None, quantiles, bounds)
                    for window in windows
                ]
    return selected


def select_rows(metrics: Sequence[StreamMetric], matchers: Matchers, limit: int) -> list[RowSeries]:
    """Return the counters of rows that match; raise if there are more than `limit`."""
    selected = list[RowSeries]()
    for metric in metrics:
        shared, filters = {NAME: metric.rows_name, STREAM: metric.stream}, choose_filters(metric, matchers)
        if not (accepts(matchers, NAME, metric.rows_name) and accepts(matchers, STREAM, metric.stream)):
            continue
        for chosen in select_keys(metric, matchers, (NAME, STREAM, FILTER), limit, len(filters), listed=True):
            for filter in filters:
                labels = shared | chosen.labels | ({FILTER: filter} if filter else {})
                selected.append(RowSeries(metric, chosen.key, labels, filter or None))
        check_limit(len(selected), limit)
    return selected


def select_keys(
    metric: StreamMetric,
    matchers: Matchers,
    others: Sequence[str],
    limit: int | None = None,
    each: int = 1,
    listed: bool = False,
) -> list[SelectedKey]:
    """Return the keys that match, after the series of all keys; `others` are labels that are not of keys.

    A key that matchers name completely is returned without a search, unless `listed` demands that it exists. Raise if
    the keys have more than `limit` series, `each` so many.
    """
    names = metric.key_labels
    if not all(one.accepts("") for one in matchers if one.label not in others and one.label not in names):
        return []  # the stream has no such label
    by_label = [[one for one in matchers if one.label == name] for name in names]
    selected = [SelectedKey(None, {})] if all(one.accepts("") for own in by_label for one in own) else []
    if not listed and (named := _named_key(metric, by_label)) is not None:
        return [named]
    columns = metric.live.key_columns()
    if not columns:
        return selected
    texts = [label_texts(column) for column in columns]
    matching = np.logical_and.reduce([select_all(own, text) for own, text in zip(by_label, texts, strict=True)])
    matching &= np.logical_or.reduce([HAS_TEXT.select(text) for text in texts])
    rows = np.flatnonzero(matching)
    if limit is not None:
        check_limit(each * (len(rows) + len(selected)), limit)
    return selected + [_key_at(names, columns, texts, int(row)) for row in rows]


def _named_key(metric: StreamMetric, by_label: Sequence[Matchers]) -> SelectedKey | None:
    """Return the key of which matchers have every text; None if they have not, or if keys are not text."""
    types = metric.live.key_types
    if not types or not all(pa.types.is_string(kind) for kind in types):
        return None
    texts = [next((one.text for one in own if one.operator == EQUAL), "") for own in by_label]
    if not all(texts) or not all(one.accepts(text) for own, text in zip(by_label, texts, strict=True) for one in own):
        return None
    return SelectedKey(texts[0] if len(texts) == 1 else tuple(texts), dict(zip(metric.key_labels, texts, strict=True)))


def _key_at(names: Sequence[str], columns: Sequence[pa.Array], texts: Sequence[pa.Array], row: int) -> SelectedKey:
    parts = [column[row].as_py() for column in columns]
    labels = {name: text[row].as_py() for name, text in zip(names, texts, strict=True)}
    return SelectedKey(parts[0] if len(parts) == 1 else tuple(parts), {n: text for n, text in labels.items() if text})


def choose_quantiles(metric: StreamMetric, matchers: Matchers) -> tuple[str, ...]:
    """Return the texts of the quantiles: those that matchers name, and those of the stream."""
    for one in matchers:
        if one.label == QUANTILE and one.operator == EQUAL and read_quantile(one.text) is None:
            raise InvalidArgumentError(f'quantile="{one.text[:40]}" is not a number from 0 to 1; write quantile="0.99"')
    named = [text for text in _named(matchers, QUANTILE) if read_quantile(text) is not None]
    return _choose(matchers, QUANTILE, [quantile_text(phi) for phi in metric.settings.quantiles], named)


def choose_windows(metric: StreamMetric, matchers: Matchers) -> tuple[str, ...]:
    """Return the texts of the windows: those that matchers name, and those of the stream."""
    for one in matchers:
        if one.label == WINDOW and one.operator == EQUAL and not is_window(one.text):
            raise InvalidArgumentError(f'window="{one.text[:40]}" is not a length of time; write window="5m"')
    named = [text for text in _named(matchers, WINDOW) if is_window(text)]
    return _choose(matchers, WINDOW, metric.settings.windows, named)


def choose_bounds(matchers: Matchers) -> tuple[str, ...]:
    return _choose(matchers, BOUND, BOUNDS[:1], BOUNDS[1:] if any(one.label == BOUND for one in matchers) else ())


def choose_filters(metric: StreamMetric, matchers: Matchers) -> tuple[str, ...]:
    """Return the filters; "" is none, the default."""
    return _choose(matchers, FILTER, [""], metric.filters if any(one.label == FILTER for one in matchers) else ())


def read_quantile(text: str) -> float | None:
    """Return the phi of a text; None if it is none."""
    try:
        phi = float(text)
    except ValueError:
        return None
    return phi if 0 <= phi <= 1 else None


def is_window(text: str) -> bool:
    try:
        read_span(text)
    except InvalidArgumentError:
        return False
    return True


def _named(matchers: Matchers, label: str) -> list[str]:
    return [text for matcher in matchers if matcher.label == label for text in matcher.literals]


def _choose(matchers: Matchers, label: str, defaults: Sequence[str], named: Sequence[str]) -> tuple[str, ...]:
    """Return those of the defaults and the named values that satisfy all matchers of a label."""
    texts = list(dict.fromkeys([*defaults, *named]))
    own = [one for one in matchers if one.label == label]
    return tuple(compress(texts, select_all(own, pa.array(texts, pa.string()))))  # compiles each pattern once


def accepts(matchers: Matchers, label: str, text: str) -> bool:
    """Return True if the text of a label satisfies all matchers of that label."""
    return all(one.accepts(text) for one in matchers if one.label == label)


def check_limit(count: int, limit: int) -> None:
    if count > limit:
        raise InvalidArgumentError(
            f"the query selects more than {limit:,} series; add matchers of labels, or select the series of all keys "
            'with an empty label such as endpoint="". The limit is `series` under [server.limits]'
        )
