"""Evaluation of queries at one time or at many: numbers, and series of samples.

At time t, a quantile is that of the window (t - window, t] of the rows that are stored now, and rate() counts the rows
of (t - span, t]. A window that begins before the recent rows or after the newest time has no sample, and neither has
a quantile of a window without rows.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import EmptyError, InvalidArgumentError, LimitError, UnknownKeyError
from quantide.live.live_stream import LiveStream
from quantide.live.time_series import LiveTimeSeries
from quantide.server.prometheus.metric_catalog import StreamMetric
from quantide.server.prometheus.promql_parser import (
    NAME,
    BinaryOperation,
    Expression,
    NumberLiteral,
    RowRate,
    VectorSelector,
)
from quantide.server.prometheus.series_selection import Labels, WindowSeries, select_quantiles, select_rows
from quantide.typing import Floats

MAX_SAMPLES = 500_000  # of one response
MAX_SECONDS = 30.0  # for one query
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
LOW, HIGH = 1, 2  # in BOUNDS
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.float_power,
}


@dataclass(frozen=True)
class SampleSeries:
    """A value for each time of evaluation; `present` is False where there is none."""

    labels: Labels
    values: Floats
    present: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class QueryEvaluation:
    """Evaluation of expressions over the metrics that a client may use, at `times` in milliseconds since 1970."""

    metrics: Sequence[StreamMetric]
    times: Sequence[int]
    max_series: int
    started: float = field(default_factory=time.monotonic)

    def evaluate(self, expression: Expression) -> float | list[SampleSeries]:
        """Return a number, or series."""
        if isinstance(expression, NumberLiteral):
            return expression.value
        if isinstance(expression, VectorSelector):
            return self._quantiles(expression)
        if isinstance(expression, RowRate):
            return self._row_rates(expression)
        return self._combine(expression)

    def _quantiles(self, selector: VectorSelector) -> list[SampleSeries]:
        selected = select_quantiles(self.metrics, selector.matchers, self.max_series)
        if not selected and (counters := select_rows(self.metrics, selector.matchers, self.max_series)):
            name = counters[0].labels[NAME]
            raise InvalidArgumentError(f"{name} counts rows; write rate({name}[5m]) or increase({name}[5m])")
        self._check_samples(sum(map(len, selected)))
        return [series for window in selected for series in self._window_series(window, selector.offset)]

    def _window_series(self, window: WindowSeries, offset: int) -> list[SampleSeries]:
        phis = [float(text) for text in window.quantiles]
        points = self._points(window.metric, phis, window.window, offset, window.key, window.filter)
        if points is None:
            return []
        missing, sampled = len(self.times) - len(points.times), []
        for index, bound, labels in window.label_sets():
            line = [None] * missing + [point and to_float(point[bound], bound) for point in points.lines[index]]
            sampled.append(_series_of(labels, line))
        return [series for series in sampled if series.present.any()]

    def _row_rates(self, rate: RowRate) -> list[SampleSeries]:
        selected = select_rows(self.metrics, rate.matchers, self.max_series)
        if not selected and select_quantiles(self.metrics, rate.matchers, self.max_series):
            raise InvalidArgumentError(
                f"{rate.function}() is of a counter of rows, such as latency_rows_total; the window of a quantile is a "
                'label: window="5m"'
            )
        self._check_samples(len(selected))
        span, sampled = Fraction(rate.span, 1000), []
        divisor = float(span) if rate.function == "rate" else 1.0
        for rows in selected:
            newest = newest_ms(rows.metric.live)  # before the rows are read, which may be newer
            points = self._points(rows.metric, [], span, rate.offset, rows.key, rows.filter)
            if points is not None:
                counts = [None] * (len(self.times) - len(points.n)) + [n / divisor for n in points.n]
                begins = [at - rate.offset - rate.span for at in self.times]
                known = [n if begin < newest else None for n, begin in zip(counts, begins, strict=True)]
                sampled.append(_series_of(_without_name(rows.labels), known))
        return [series for series in sampled if series.present.any()]

    def _points(
        self, metric: StreamMetric, phis: Sequence[float], span: Any, offset: int, key: Any, filter: str | None
    ) -> LiveTimeSeries | None:
        """Return the points of a window; None if the key has no rows, or the stream none."""
        self._check_time()
        try:
            moments = [at - offset for at in self.times]
            return metric.live.time_series_at(phis, span, moments, key, filter, self._check_time)
        except (UnknownKeyError, EmptyError):
            return None

    def _combine(self, operation: BinaryOperation) -> float | list[SampleSeries]:
        left, right = self.evaluate(operation.left), self.evaluate(operation.right)
        function = OPERATIONS[operation.operator]
        with np.errstate(all="ignore"):
            if isinstance(left, list) and isinstance(right, list):
                raise InvalidArgumentError(
                    f"{operation.operator} between two metrics is not supported; one side must be a number"
                )
            if isinstance(left, list):
                return [_map(series, function(series.values, right)) for series in left]
            if isinstance(right, list):
                return [_map(series, function(left, series.values)) for series in right]
            return float(function(np.float64(left), np.float64(right)))

    def _check_time(self) -> None:
        if time.monotonic() - self.started > MAX_SECONDS:
            raise LimitError(f"the query takes more than {MAX_SECONDS:g} s; select fewer series or points")

    def _check_samples(self, series: int) -> None:
        if series * len(self.times) > MAX_SAMPLES:
            raise InvalidArgumentError(
                f"the query has {series:,} series of {len(self.times):,} points; together at most {MAX_SAMPLES:,} "
                "points are allowed, so select fewer series or a longer step"
            )


def newest_ms(live: LiveStream) -> float:
    """Return the newest time of a stream in milliseconds since 1970."""
    newest = live.newest
    if newest is None:
        return -math.inf
    return float(newest) * 1000 if isinstance(newest, float) else float(_fraction(newest) * 1000)


def to_float(value: Any, bound: int) -> float:
    """Return a value as a float: times and durations in seconds. A low bound is rounded down, a high one up."""
    if isinstance(value, (float, np.floating)):
        return float(value)
    exact = _fraction(value)
    number = exact.numerator / exact.denominator
    if bound == LOW and Fraction(number) > exact:
        return math.nextafter(number, -math.inf)
    if bound == HIGH and Fraction(number) < exact:
        return math.nextafter(number, math.inf)
    return number


def _fraction(value: Any) -> Fraction:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        unit = np.datetime_data(value.dtype)[0]
        count = int(value.astype(np.int64))
        return Fraction(count * 86_400) if unit == "D" else Fraction(count, PER_SECOND[unit])
    return Fraction(value) if isinstance(value, Decimal) else Fraction(int(value))


def _series_of(labels: Labels, line: Sequence[float | None]) -> SampleSeries:
    present = np.array([value is not None for value in line], dtype=bool)
    return SampleSeries(labels, np.array([value or 0.0 for value in line]), present)


def _map(series: SampleSeries, values: Any) -> SampleSeries:
    return SampleSeries(_without_name(series.labels), np.asarray(values, dtype=np.float64), series.present)


def _without_name(labels: Labels) -> Labels:
    return {name: text for name, text in labels.items() if name != NAME}
