"""Window views: the summary of a window at one moment, with what it covers; and the limits of a window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from quantide.errors import EmptyError, InvalidArgumentError
from quantide.summary.answer import Answer
from quantide.summary.ranks import MAX_N, check_size
from quantide.summary.summary import Summary, TupleArrays, merge_tuples
from quantide.summary.value_types import ValueType
from quantide.windows.time_clock import read_span, show_span

Start = tuple[int, int]  # earliest and latest position at which a window may start


@dataclass(frozen=True, slots=True)
class WindowAnswer(Answer):
    """An answer over a window that contains between `n_lo` and `n_hi` values.

    `n` is `n_hi`, and the bound is true for every number between: `error` is a fraction of `n_lo`. Up to `missing` of
    the values are in the window but not in the summary that answered; the bound accounts for them. `since` and `until`
    are the times of the first value that is surely covered and of the last, None without times.
    """

    missing: int
    since: Any
    until: Any

    @property
    def covered(self) -> int:
        """Number of the newest values that the summary is about."""
        return self.n_hi - self.missing


class WindowSequence(Protocol):
    """Values in arrival order that can be summarised from any of their boundaries on."""

    @property
    def n(self) -> int: ...
    def cut(self, start: int) -> int: ...
    def first_mark(self, mark: int, cut: int) -> Any: ...
    def tuples_from(self, cut: int) -> list[TupleArrays]: ...


@dataclass(frozen=True, slots=True)
class WindowView:
    """Summary of all n_hi values that a window may contain; of `missing` of them only the number is known."""

    summary: Summary
    n_lo: int
    n_hi: int
    missing: int
    since: Any
    until: Any

    @property
    def error(self) -> float:
        """Certified error of every answer, as a fraction of the values that are surely in the window."""
        return self.summary.rank_error / self.n_lo if self.n_lo else float(self.n_hi > 0)

    def answer(self, phi: float) -> WindowAnswer:
        given = self.summary.answer(phi)
        error = max(given.target - given.rank_lo, given.rank_hi - given.target) / self.n_lo
        ranks = (given.target, given.rank_lo, given.rank_hi, given.n)
        return WindowAnswer(
            given.value, given.phi, *ranks, error, self.n_lo, self.n_hi, self.missing, self.since, self.until
        )


class WindowViewCache:
    """Cache of a few views by their arguments; cleared when values arrive."""

    CAPACITY = 16

    def __init__(self) -> None:
        self._views: dict[Any, WindowView] = {}

    @property
    def nbytes(self) -> int:
        return sum(view.summary.nbytes for view in self._views.values())

    def clear(self) -> None:
        self._views.clear()

    def get(self, arguments: Any, compute: Callable[..., WindowView]) -> WindowView:
        """Return the cached view for these arguments; compute and cache it on a miss."""
        key = (arguments, *map(type, arguments))  # types, because True == 1 and only one of them is valid
        try:
            view = self._views.get(key)
        except (TypeError, ValueError):  # an unhashable argument is invalid: compute() raises the error that names it
            return compute(*arguments)
        if view is None:
            view = compute(*arguments)
            if len(self._views) >= self.CAPACITY:
                self._views.pop(next(iter(self._views)))
            self._views[key] = view
        return view


@dataclass(frozen=True, slots=True)
class WindowCut:
    """The cut of each sequence for a window, and bounds on the number of values in it."""

    cuts: Sequence[tuple[WindowSequence, int]]
    n_lo: int
    n_hi: int

    @property
    def covered(self) -> int:
        """Number of values after the cuts."""
        return sum(sequence.n - cut for sequence, cut in self.cuts)

    @property
    def missing(self) -> int:
        """Largest number of values in the window that the cuts leave out."""
        return self.n_hi - self.covered

    def summary(self, kind: ValueType) -> Summary:
        """Summarise the covered values, lifted by the missing ones."""
        if self.n_hi == 0:
            raise EmptyError("the window is empty: nothing that arrived lies within it; ask for a longer one")
        parts = [part for sequence, cut in self.cuts for part in sequence.tuples_from(cut)]
        values, rmin, rmax = merge_tuples(parts) if len(parts) > 1 else parts[0][:3]
        return Summary(values, rmin, rmax, self.covered, kind).lift(self.missing)


def cut_at(starts: Sequence[tuple[WindowSequence, Start]]) -> WindowCut:
    """Cut each sequence at its first boundary that is surely within the window."""
    cuts = [(sequence, sequence.cut(latest)) for sequence, (_, latest) in starts]
    n_lo = sum(sequence.n - latest for sequence, (_, latest) in starts)
    n_hi = sum(sequence.n - earliest for sequence, (earliest, _) in starts)
    return WindowCut(cuts, n_lo, n_hi)


def later_start(a: Start, b: Start) -> Start:
    """Return the start of the shorter of two windows."""
    return max(a[0], b[0]), max(a[1], b[1])


def earlier_start(a: Start, b: Start) -> Start:
    """Return the start of the longer of two windows."""
    return min(a[0], b[0]), min(a[1], b[1])


@dataclass(frozen=True)
class WindowLimits:
    """Longest windows that can be queried: the last `items` values and the last `age` seconds; None for no limit."""

    items: int | None
    age: Fraction | None

    @classmethod
    def of(cls, max_items: Any, max_age: Any) -> "WindowLimits":
        items = None if max_items is None else min(check_size("max_items", max_items, 1), MAX_N)
        return cls(items, None if max_age is None else read_span(max_age))

    def check(self, last: Any, within: Any) -> tuple[int | None, Fraction | None]:
        """Return the number of values and the seconds of a window; raise if it exceeds the limits."""
        last = None if last is None else check_size("last", last, 1)
        if last is not None and self.items is not None and last > self.items:
            raise InvalidArgumentError(f"last={last} is beyond this window's max_items={self.items}; ask for fewer")
        span = None if within is None else read_span(within)
        if span is not None and self.age is not None and span > self.age:
            longest = show_span(self.age)
            raise InvalidArgumentError(f"within={within!r} is beyond this window's max_age of {longest}; ask for less")
        return last, span

    def __str__(self) -> str:
        limits = [] if self.items is None else [f"the last {self.items} values"]
        if self.age is not None:
            limits.append(f"the last {show_span(self.age)}")
        return " and ".join(limits)
