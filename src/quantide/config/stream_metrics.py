"""Metrics of a stream: the quantiles and windows that Prometheus scrapes, and that queries get by default."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quantide.config.toml_table import ConfigTable, format_value
from quantide.errors import ConfigError, QuantideError
from quantide.summary.ranks import check_phi
from quantide.windows.time_clock import read_span, show_span

METRICS_FIX = 'write metrics = { quantiles = [0.5, 0.99], windows = ["5m"], keys = ["/pay"] }'
MAX_EXPORTED = 1_000  # quantiles of a stream, times windows and keys


@dataclass(frozen=True)
class StreamMetrics:
    """Quantiles and windows; `keys` are those that are exported beside the quantiles of all keys."""

    quantiles: tuple[float, ...] = (0.5, 0.9, 0.99)
    windows: tuple[str, ...] = ("5m",)
    keys: tuple[Any, ...] = ()
    exported: bool = False
    """True if `/metrics` has them."""


def parse_metrics(table: ConfigTable | None) -> StreamMetrics:
    """Parse the setting `metrics` of a stream; without it, nothing is exported."""
    if table is None:
        return StreamMetrics()
    metrics = StreamMetrics(
        tuple(_parse_list(table, "quantiles", _parse_phi)) or StreamMetrics.quantiles,
        tuple(_parse_list(table, "windows", _parse_window, read_span)) or StreamMetrics.windows,
        tuple(_parse_list(table, "keys", _parse_key, str)),
        exported=True,
    )
    table.reject_unknown_keys()
    count = len(metrics.quantiles) * len(metrics.windows) * (1 + len(metrics.keys))
    if count > MAX_EXPORTED:
        raise ConfigError(
            f"{table.name} exports {count:,} quantiles; at most {MAX_EXPORTED:,} are cheap enough for every scrape, "
            "so leave some out: queries may use any others"
        )
    return metrics


def check_metrics(metrics: StreamMetrics, stream: str, columns: int, longest: Fraction) -> None:
    """Raise if keys have another number of columns than those of the stream, or a window is too long."""
    for key in metrics.keys:
        if len(key if isinstance(key, tuple) else (key,)) != columns:
            raise ConfigError(
                f"{stream}.metrics.keys has {format_value(list(key) if isinstance(key, tuple) else key)}, and keys of "
                f"the stream have {columns} columns; write a part for each, as a list if there are several"
            )
    for window in metrics.windows if metrics.exported else ():
        if read_span(window) > longest:
            raise ConfigError(
                f"{stream}.metrics.windows has {format_value(window)}, longer than the window of the stream, "
                f"{show_span(longest)}; write a shorter one, or a longer {stream}.window"
            )


def _parse_list(
    table: ConfigTable, name: str, parse: Callable[[Any], Any], identity: Callable[[Any], Any] = lambda value: value
) -> list[Any]:
    """Parse the values of a list, of which no two may have the same identity."""
    values = table.get(name)
    if values is None:
        return []
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{table.key(name)} is {format_value(values)}; {METRICS_FIX}")
    parsed = list[Any]()
    for value in values:
        try:
            parsed.append(parse(value))
        except QuantideError as error:
            raise ConfigError(f"{table.key(name)} has {format_value(value)}: {error}; {METRICS_FIX}") from error
    if len({identity(value) for value in parsed}) < len(parsed):
        raise ConfigError(f"{table.key(name)} has a value twice; leave one out")
    return parsed


def _parse_phi(value: Any) -> float:
    if isinstance(value, bool):
        raise ConfigError("a quantile is a number from 0 to 1")
    return check_phi(value)


def _parse_window(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError("a window is text")
    read_span(value)
    return value.strip()


def _parse_key(value: Any) -> Any:
    """Return one key; a list is a key of several columns."""
    if isinstance(value, list) and value and not any(isinstance(part, (list, dict)) for part in value):
        return tuple(value) if len(value) > 1 else value[0]
    if isinstance(value, (list, dict)):
        raise ConfigError("a key is text, a number, or a list of these for several columns")
    return value
