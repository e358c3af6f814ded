"""Quantiles of data that never stops arriving, with a proved error for every answer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quantide import errors

if TYPE_CHECKING:
    from quantide.history.history import History
    from quantide.queries.group import MonitorGroup
    from quantide.queries.monitor import Monitor
    from quantide.sketches.gk import GKSketch
    from quantide.sketches.stream import StreamSketch
    from quantide.summary.answer import Answer
    from quantide.summary.summaries import Summaries
    from quantide.summary.summary import Summary
    from quantide.windows.constrained import ConstrainedWindow
    from quantide.windows.constraint import last, where, within
    from quantide.windows.recent import RecentWindow
    from quantide.windows.sliding import SlidingWindow

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
    "where",
    "within",
]
_WHERE = {
    "Answer": "summary.answer",
    "ConstrainedWindow": "windows.constrained",
    "GKSketch": "sketches.gk",
    "History": "history.history",
    "Monitor": "queries.monitor",
    "MonitorGroup": "queries.group",
    "RecentWindow": "windows.recent",
    "SlidingWindow": "windows.sliding",
    "StreamSketch": "sketches.stream",
    "Summaries": "summary.summaries",
    "Summary": "summary.summary",
    "last": "windows.constraint",
    "where": "windows.constraint",
    "within": "windows.constraint",
}


def __getattr__(name: str) -> Any:
    """Each name is imported when it is used: numba takes a second, and History needs an extra."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"quantide.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
