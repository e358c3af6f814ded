"""Quantiles of data that never stops arriving, with a proved error for every answer."""

from typing import TYPE_CHECKING, Any

from quantide import errors
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

if TYPE_CHECKING:
    from quantide.history.history import History

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


def __getattr__(name: str) -> Any:
    """What needs an extra is imported when it is used."""
    if name == "History":
        from quantide.history.history import History

        return History
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
