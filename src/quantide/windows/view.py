"""View: a window as it is now, a summary together with what it covers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from quantide.errors import EmptyError
from quantide.summary.answer import Answer
from quantide.summary.summary import Summary, merge_tuples
from quantide.summary.types import ValueType
from quantide.windows.level import Part

Start = tuple[int, int]  # a window starts at one of these positions or between them


@dataclass(frozen=True, slots=True)
class WindowAnswer(Answer):
    """An answer about a window. It holds between `n_lo` and `n_hi` elements, n being the latter, and the bound holds
    for each number between: `error` is a fraction of `n_lo`. Up to `missing` of the elements are in the window but not
    in the summary that answered; the bound accounts for them. `since` and `until` are the times of the first element
    that is covered for sure and of the last, where times are known."""

    missing: int
    since: Any
    until: Any


class Lane(Protocol):
    """Elements in the order they came, that can be summarised from any of their boundaries on."""

    @property
    def n(self) -> int: ...
    def cut(self, start: int) -> int: ...
    def first_mark(self, mark: int, cut: int) -> Any: ...
    def parts(self, cut: int) -> list[Part]: ...


@dataclass(frozen=True, slots=True)
class View:
    """A summary of all n_hi elements that a window may hold; of `missing` of them only the number is known."""

    summary: Summary
    n_lo: int
    n_hi: int
    missing: int
    since: Any
    until: Any

    @property
    def error(self) -> float:
        """The certified error of every answer, as a fraction of the elements that are there for sure."""
        return self.summary.rank_error / self.n_lo if self.n_lo else float(self.n_hi > 0)

    def answer(self, phi: float) -> WindowAnswer:
        given = self.summary.answer(phi)
        error = max(given.target - given.rank_lo, given.rank_hi - given.target) / self.n_lo
        ranks = (given.target, given.rank_lo, given.rank_hi, given.n)
        return WindowAnswer(
            given.value, given.phi, *ranks, error, self.n_lo, self.n_hi, self.missing, self.since, self.until
        )


class Views:
    """Views as they were last looked at, a few of them, for as long as nothing arrives."""

    MOST = 16

    def __init__(self) -> None:
        self._held: dict[Any, View] = {}

    @property
    def nbytes(self) -> int:
        return sum(view.summary.nbytes for view in self._held.values())

    def clear(self) -> None:
        self._held.clear()

    def get(self, asked: Any, look: Callable[..., View]) -> View:
        """The view that was asked for by these arguments; looked at anew if it is not held."""
        key = (asked, *map(type, asked))  # True is no number of values, though it equals one
        try:
            found = self._held.get(key)
        except (TypeError, ValueError):  # an argument that cannot be a key is one that is refused by name
            return look(*asked)
        if found is None:
            found = look(*asked)
            if len(self._held) >= self.MOST:
                self._held.pop(next(iter(self._held)))
            self._held[key] = found
        return found


@dataclass(frozen=True, slots=True)
class Cut:
    """Where lanes are cut for a window, and how many elements that leaves out."""

    lanes: Sequence[tuple[Lane, int]]
    n_lo: int
    n_hi: int

    @property
    def covered(self) -> int:
        return sum(lane.n - cut for lane, cut in self.lanes)

    @property
    def missing(self) -> int:
        return self.n_hi - self.covered

    def summary(self, kind: ValueType) -> Summary:
        """Everything covered, lifted by what may be missing."""
        if self.n_hi == 0:
            raise EmptyError("the window is empty: nothing that arrived lies within it; ask for a longer one")
        parts = [part for lane, cut in self.lanes for part in lane.parts(cut)]
        values, rmin, rmax = merge_tuples(parts) if len(parts) > 1 else parts[0][:3]
        return Summary(values, rmin, rmax, self.covered, kind).lift(self.missing)


def cut_at(starts: Sequence[tuple[Lane, Start]], most: int | None = None) -> Cut:
    """Cut each lane at the first boundary that is within the window for sure; `most` elements there are at most."""
    lanes = [(lane, lane.cut(latest)) for lane, (_, latest) in starts]
    n_lo = sum(lane.n - latest for lane, (_, latest) in starts)
    n_hi = sum(lane.n - earliest for lane, (earliest, _) in starts)
    return Cut(lanes, n_lo, n_hi if most is None else min(n_hi, most))


def both(a: Start, b: Start) -> Start:
    """The start of the shorter of two windows."""
    return max(a[0], b[0]), max(a[1], b[1])


def either(a: Start, b: Start) -> Start:
    """The start of the longer of two windows."""
    return min(a[0], b[0]), min(a[1], b[1])
