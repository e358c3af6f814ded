"""Query labels: quantile, window, bound and filter, which choose what is computed instead of what is stored.

Their values are those that a matcher names, and the defaults of the stream; all matchers of a label select among these.
"""

from collections.abc import Sequence
from itertools import compress

import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.server.prometheus.label_matchers import EQUAL, Matchers, select_all
from quantide.server.prometheus.metric_catalog import (
    BOUND,
    BOUNDS,
    FILTER,
    QUANTILE,
    WINDOW,
    StreamMetric,
    quantile_text,
)
from quantide.windows.time_clock import read_span


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
