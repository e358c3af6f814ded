"""Windows whose blocks are so small that a few thousand values fill many levels of them."""

from __future__ import annotations

from quantide import RecentWindow, SlidingWindow
from quantide.windows.arrivals import Arrivals
from quantide.windows.buckets import Buckets
from quantide.windows.layout import Layout, layout_for
from quantide.windows.slices import Slices
from quantide.windows.tail import Tail


def small_layout(eps: float, most: int | None = None) -> Layout:
    """As few values together as the proof allows, however few are asked for."""
    del most
    return layout_for(eps, None, 64, 50)


class BucketWindow(SlidingWindow):
    """In buckets however small it is; but an open bucket is a sketch of eps/2, which has a least value."""

    def _hold(self) -> Tail | Buckets:
        if self._held is None and self._eps < 1e-9:
            return super()._hold()
        if self._held is None:
            self._held = Buckets(self._size, self._eps, self._kind())
        return self._held


class SmallRecentWindow(RecentWindow):
    """The same rules with small blocks."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._slices = Slices(small_layout(self._eps))

    def _new_values(self) -> Arrivals:
        return Arrivals(small_layout(self._eps), self._kind(), self._times.dtypes, self._needed_values)
