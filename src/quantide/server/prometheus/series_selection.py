"""Series selection: from label matchers to the streams, keys, windows and quantiles that a query is about.

Labels of keys select among the keys that exist; query_labels.py chooses the values of the other labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.server.prometheus.label_matchers import EQUAL, NOT_EQUAL, LabelMatcher, Matchers, accepts, select_all
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
)
from quantide.server.prometheus.promql_parser import NAME
from quantide.server.prometheus.query_labels import (
    choose_bounds,
    choose_filters,
    choose_quantiles,
    choose_windows,
)
from quantide.typing import Ints

HAS_TEXT = LabelMatcher("", NOT_EQUAL, "")  # a key without any text would have the labels of all keys
Labels = dict[str, str]


@dataclass(frozen=True)
class SelectedKey:
    """A key and its labels; None stands for all keys."""

    key: Any
    labels: Labels


@dataclass(frozen=True)
class MatchingKeys:
    """Keys that satisfy matchers: rows of the key columns, and of their texts. `with_all` if all keys together do."""

    labels: Sequence[str]
    columns: Sequence[pa.Array]
    texts: Sequence[pa.Array]
    rows: Ints
    with_all: bool

    def __len__(self) -> int:
        """Return the number of series."""
        return len(self.rows) + self.with_all

    def values(self, label: str) -> list[str]:
        """Return the texts of a label, each once."""
        if label not in self.labels or not len(self.rows):
            return []
        texts = self.texts[self.labels.index(label)].take(pa.array(self.rows)).unique()
        return [text for text in texts.to_pylist() if text]

    def to_list(self) -> list[SelectedKey]:
        """Return the series of all keys, and each key."""
        keys = [_key_at(self.labels, self.columns, self.texts, int(row)) for row in self.rows]
        return ([SelectedKey(None, {})] if self.with_all else []) + keys


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
    metric: StreamMetric, matchers: Matchers, others: Sequence[str], limit: int, each: int, listed: bool = False
) -> list[SelectedKey]:
    """Return the keys that match, after the series of all keys; `others` are labels that are not of keys.

    A key that matchers name completely is returned without a search, unless `listed` demands that it exists. Raise if
    the keys have more than `limit` series, `each` so many.
    """
    if not _has_labels(metric, matchers, others):
        return []
    if not listed and (named := _named_key(metric, _by_label(metric, matchers))) is not None:
        return [named]
    found = match_keys(metric, matchers, others)
    check_limit(each * len(found), limit)
    return found.to_list()


def match_keys(metric: StreamMetric, matchers: Matchers, others: Sequence[str]) -> MatchingKeys:
    """Return the keys that exist and match; `others` are labels that are not of keys."""
    none = np.empty(0, dtype=np.int64)
    if not _has_labels(metric, matchers, others):
        return MatchingKeys((), (), (), none, False)
    by_label = _by_label(metric, matchers)
    with_all = all(one.accepts("") for own in by_label for one in own)
    columns = metric.live.key_columns()
    if not columns:
        return MatchingKeys((), (), (), none, with_all)
    texts = [label_texts(column) for column in columns]
    matching = np.logical_and.reduce([select_all(own, text) for own, text in zip(by_label, texts, strict=True)])
    matching &= np.logical_or.reduce([HAS_TEXT.select(text) for text in texts])
    return MatchingKeys(metric.key_labels, columns, texts, np.flatnonzero(matching), with_all)


def _by_label(metric: StreamMetric, matchers: Matchers) -> list[Matchers]:
    """Return the matchers of each label of keys."""
    return [[one for one in matchers if one.label == name] for name in metric.key_labels]


def _has_labels(metric: StreamMetric, matchers: Matchers, others: Sequence[str]) -> bool:
    """Return False if a matcher demands a label that the stream does not have."""
    known = (*others, *metric.key_labels)
    return all(one.accepts("") for one in matchers if one.label not in known)


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


def check_limit(count: int, limit: int) -> None:
    if count > limit:
        raise InvalidArgumentError(
            f"the query selects more than {limit:,} series; add matchers of labels, or select the series of all keys "
            'with an empty label such as endpoint="". The limit is `series` under [server.limits]'
        )
