"""Quantiles of data that keeps arriving, with an error bound proved for every answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quantide import errors

if TYPE_CHECKING:
    from quantide.history.history import History
    from quantide.queries.monitor import Monitor
    from quantide.queries.monitor_group import MonitorGroup
    from quantide.sketches.gk_sketch import GKSketch
    from quantide.sketches.stream_sketch import StreamSketch
    from quantide.summary.answer import Answer
    from quantide.summary.summaries import Summaries
    from quantide.summary.summary import Summary
    from quantide.windows.constrained_window import ConstrainedWindow
    from quantide.windows.recent_window import RecentWindow
    from quantide.windows.rolling_quantiles import rolling_quantile
    from quantide.windows.sliding_window import SlidingWindow
    from quantide.windows.window_expression import last, where, within

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "ConstrainedWindow",
    "GKSketch",
    "History",
    "Monitor",
    "MonitorGroup",
    "RecentWindow",
    "SlidingWindow",
    "StreamSketch",
    "Summaries",
    "Summary",
    "errors",
    "last",
    "rolling_quantile",
    "where",
    "within",
]
_MODULES = {
    "Answer": "summary.answer",
    "ConstrainedWindow": "windows.constrained_window",
    "GKSketch": "sketches.gk_sketch",
    "History": "history.history",
    "Monitor": "queries.monitor",
    "MonitorGroup": "queries.monitor_group",
    "RecentWindow": "windows.recent_window",
    "SlidingWindow": "windows.sliding_window",
    "StreamSketch": "sketches.stream_sketch",
    "Summaries": "summary.summaries",
    "Summary": "summary.summary",
    "last": "windows.window_expression",
    "rolling_quantile": "windows.rolling_quantiles",
    "where": "windows.window_expression",
    "within": "windows.window_expression",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing numba takes a second, and History needs an extra."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"quantide.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
