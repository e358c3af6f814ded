"""Sorted runs on disk and the open step in memory, asked together."""

try:
    import deltalake as _deltalake  # noqa: F401
except ImportError as error:
    raise ImportError("quantide.history needs deltalake; install the extra quantide[history]") from error

from quantide.history.history import History
from quantide.history.reader import HistoryReader

__all__ = ["History", "HistoryReader"]
