"""Windows with blocks so small that a few thousand values fill many levels."""

from __future__ import annotations

from quantide import RecentWindow, SlidingWindow
from quantide.windows.block_layout import BlockLayout, layout_for
from quantide.windows.newest_values import NewestValues
from quantide.windows.recent_values import RecentValues
from quantide.windows.summary_slices import SummarySlices
from quantide.windows.window_buckets import WindowBuckets


def small_layout(eps: float, max_items: int | None = None) -> BlockLayout:
    """Return the layout with the smallest chunks that the proof allows."""
    del max_items
    return layout_for(eps, None, 64, 50)


class BucketWindow(SlidingWindow):
    """A window in buckets whatever its size, unless eps/2 is too small for the sketch of the open bucket."""

    def _get_storage(self) -> NewestValues | WindowBuckets:
        if self._storage is None and self._eps < 1e-9:
            return super()._get_storage()
        if self._storage is None:
            self._storage = WindowBuckets(self._size, self._eps, self._kind(), self._tail)
        return self._storage


class SmallRecentWindow(RecentWindow):
    """A RecentWindow with small blocks."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._slices = SummarySlices(small_layout(self._eps))

    def _new_values(self) -> RecentValues:
        return RecentValues(small_layout(self._eps), self._kind(), self._times.dtypes, self._first_needed_value)
