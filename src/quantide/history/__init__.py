"""History of a stream: sorted runs on disk and the open step, queried together."""

from quantide.history.history import History
from quantide.history.history_reader import HistoryReader

__all__ = ["History", "HistoryReader"]
