"""Sorted runs on disk and the open step in memory, asked together."""

from quantide.history.history import History

__all__ = ["History"]
