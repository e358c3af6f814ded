"""Recent rows as one version of the store has them, and any window of them.

A window's rows lie in files that are in it as a whole, in files that it cuts, and in files outside. Those of the first
kind give their stored summaries, within eps/4; those that are cut are cut exactly, row by row, and so are those of few
rows. So the error of a window is at most eps/4 of its rows, wherever it begins, however times are ordered. Proof:
docs/guarantees/live.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from quantide.errors import CorruptBytesError, SpanError
from quantide.history.run import Key, find_place
from quantide.live.kept import Kept
from quantide.live.lane import FEW, Array, Between, Blocks, Found, Lane
from quantide.store.manifest import Manifest
from quantide.store.recent import RecentFile
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.clock import Clock

TUPLES = 4  # times 1/eps: more than that many are thinned, to half as many, which adds eps/4


@dataclass(frozen=True)
class Wanted:
    """A window: of a key, or all; the last so many that came; of times in a span; that satisfy a filter."""

    key: Key | None = None
    last: int | None = None
    span: Between | None = None
    filter: str | None = None


@dataclass(frozen=True)
class Unreadable:
    """A recent file that is damaged or missing; only windows that need it fail."""

    name: str
    why: str
    nbytes: int = 0


class Recent:
    """All recent files of one version, the oldest arrivals first."""

    def __init__(
        self, version: int, manifest: Manifest, files: list[RecentFile | Unreadable], eps: float, kept: Kept
    ) -> None:
        self.version, self.manifest = version, manifest
        self.clock = None if manifest.clock is None else Clock(manifest.clock)
        self.files, self._eps, self._kept = files, eps, kept

    @property
    def unreadable(self) -> bool:
        """Whether there is a file that cannot be read."""
        return any(isinstance(file, Unreadable) for file in self.files)

    def summary(self, wanted: Wanted, kind: ValueType, exact: bool) -> Summary:
        """A summary of a window; of no values when nothing lies within it. `exact`: every row is looked at."""
        found = self._find(wanted, exact).summary(kind)
        if exact or len(found) <= TUPLES / self._eps:
            return found
        return found.compress(math.ceil(TUPLES / 2 / self._eps))

    def rows(self, wanted: Wanted, most: int) -> tuple[Array, Array] | None:
        """The values and the times of the rows in a span of time; None when more than so many must be looked at."""
        assert wanted.span is not None
        lanes = []
        for entry, file in zip(self.manifest.entries, self.files, strict=True):
            if wanted.span.passes_by(entry.oldest, entry.newest):
                continue
            if isinstance(file, Unreadable):
                raise _unreadable(file)
            place = self._place(file, wanted.key)
            if place != -1:
                lanes.append((file, file.lane(place)))
        if sum(rows.stop - rows.start for _, rows in lanes) > most:
            return None
        values, times = [], []
        for file, rows in lanes:
            chosen = wanted.span.chosen(file.times(rows))
            if wanted.filter is not None:
                chosen &= file.satisfies(rows, wanted.filter)
            values.append(file.values(rows)[chosen])
            times.append(file.times(rows)[chosen])
        return np.concatenate(values or [np.empty(0)]), np.concatenate(times or [np.empty(0)])

    def _find(self, wanted: Wanted, exact: bool) -> Found:
        found, left, reached = Found([], []), wanted.last, self.manifest.arrived
        for entry, file in zip(reversed(self.manifest.entries), reversed(self.files), strict=True):
            if left == 0:
                break
            if left is not None and entry.first + entry.rows != reached:
                raise self._too_far(wanted)
            reached = entry.first
            outside = wanted.span is not None and wanted.span.passes_by(entry.oldest, entry.newest)
            if left is None and outside:
                continue
            if isinstance(file, Unreadable):
                raise _unreadable(file)
            place = self._place(file, wanted.key)
            if place == -1:
                continue
            rows = file.lane(place)
            count, skip = rows.stop - rows.start, 0
            if left is not None:
                skip, left = max(0, count - left), max(0, left - count)
            if outside:
                continue
            whole = wanted.span is None or wanted.span.holds(entry.oldest, entry.newest)
            found.add(self._rows(file, place, wanted.filter, skip, None if whole else wanted.span, exact))
        if left and reached:
            raise self._too_far(wanted)
        return found

    def _rows(
        self, file: RecentFile, place: int | None, filter: str | None, skip: int, span: Between | None, exact: bool
    ) -> Found:
        """The rows of a lane after the first `skip`, of times in a span."""
        if not skip and span is None and filter is None and (exact or file.summary(place, None) is None):
            return Found([file.values(file.lane(place))], [])
        if not exact:
            if not skip and span is None:
                summary = file.summary(place, filter)
                if summary is not None:
                    return Found([], [summary])
            rows = file.lane(place)
            if rows.stop - rows.start > FEW:
                name = ("blocks", place, filter)

                def make() -> Blocks:
                    return Blocks(Lane.read(file, place, filter), self._eps)

                return self._kept.get(file.name, name, make, lambda made: made.nbytes).cut(skip, span)
        return Found([Lane.read(file, place, filter).cut(skip, span)], [])

    def _place(self, file: RecentFile, key: Key | None) -> int | None:
        """Where a key is in a file; -1 when it is not there, None for all keys."""
        if key is None:
            return None
        return self._kept.get(file.name, key, lambda: find_place(file.keys, key), lambda _: 0)

    def _too_far(self, wanted: Wanted) -> SpanError:
        entries = self.manifest.entries
        known, reached = 0, self.manifest.arrived
        for entry in reversed(entries):
            if entry.first + entry.rows != reached:
                break
            known, reached = known + entry.rows, entry.first
        whose = "" if wanted.key is None else " of all keys"
        return SpanError(
            f"last={wanted.last} reaches back beyond what is kept for windows, the last {known:,} values{whose}; ask "
            "for fewer, or make the store with a longer window"
        )


def _unreadable(file: Unreadable) -> CorruptBytesError:
    return CorruptBytesError(f"this window needs {file.name}, which cannot be read: {file.why}")
