"""Sorted runs on disk and the open step in memory, asked together."""

from quantide.history.history import History
from quantide.history.reader import HistoryReader

__all__ = ["History", "HistoryReader"]
