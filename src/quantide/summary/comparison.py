"""Comparison: distances and shifts between two distributions, each with proved bounds."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import EmptyError, InvalidArgumentError, TypeMismatchError
from quantide.summary.cdf_distance import CdfGaps, Interval, find_ks, find_wasserstein, gaps_of
from quantide.summary.common_type import in_common_type
from quantide.summary.confidence_ranks import check_level
from quantide.summary.outward_rounding import interval_texts
from quantide.summary.population_stability import check_floor, find_psi, read_splits
from quantide.summary.quantile_shift import is_above, shift_between
from quantide.summary.ranks import check_phi, check_phis
from quantide.summary.unproved_summary import refuse_unproved
from quantide.typing import Array

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

PHIS = (0.5, 0.9, 0.99)
BINS = 10
FLOOR = 0.0001
MEASURES = ("ks", "psi", "wasserstein")
PROOFS: dict[bool | None, str] = {True: "yes", False: "no", None: "not proved"}


class SummarySource(Protocol):
    """Anything that has a summary: a Summary itself, a sketch, a window, a monitor, a history, a live stream."""

    def summary(self) -> "Summary": ...


class Comparison:
    """Comparison of a distribution `a` with a reference `b`: every result is an interval (low, high).

    Each interval contains the exact result that all values behind the two summaries would give: proved, without any
    assumption about the data. `ks` is the Kolmogorov-Smirnov distance, the largest difference of the two CDFs; `psi`
    the population stability index over bins; `wasserstein` the area between the CDFs, in units of the values; `shifts`
    the differences of quantiles, a minus b, by phi. Results are computed when they are read, and cached.
    See docs/guarantees/comparison.md.

    >>> from quantide import Summary
    >>> before, after = Summary.of(range(1000)).compress(20), Summary.of(range(99, 1099)).compress(30)
    >>> change = after.compare(before, phis=[0.5, 0.99])
    >>> change.ks, change.shifts, change.is_above(0.5)
    ((0.08399999999999999, 0.166), {0.5: (99, 99), 0.99: (66, 149)}, True)
    """

    def __init__(
        self, a: "Summary", b: "Summary", phis: ArrayLike = PHIS, bins: Any = BINS, floor: float = FLOOR
    ) -> None:
        """Create a comparison; `compare()` of a summary, a sketch, a window or a stream does it."""
        if not a.n or not b.n:
            raise EmptyError(f"{'b, the reference,' if a.n else 'a'} has no values; compare two sides that have some")
        self.a, self.b = in_common_type(a, b)
        self.phis: list[float] = check_phis(phis).ravel().tolist()
        self._splits, self.floor = read_splits(bins, self.b), check_floor(floor)

    @cached_property
    def ks(self) -> Interval:
        """Bounds of the Kolmogorov-Smirnov distance: the largest |F - G| of the CDFs F of a and G of b, in 0..1."""
        return find_ks(self._gaps)

    @cached_property
    def psi(self) -> Interval:
        """Bounds of the population stability index over the bins between `splits`.

        It is the sum of (p - q) * ln(p / q) over bins, where p and q are the fractions of a and b in a bin, or `floor`
        where they are less.
        """
        return find_psi(self.a, self.b, self._splits, self.floor)

    @cached_property
    def wasserstein(self) -> Interval:
        """Bounds of the Wasserstein distance, the integral of |F - G|, in units of the values."""
        return find_wasserstein(self._gaps, self.a.type.scale)

    @cached_property
    def shifts(self) -> dict[float, tuple[Any, Any]]:
        """Bounds of the difference of each quantile, a minus b, by phi."""
        return {phi: self.shift(phi) for phi in self.phis}

    @property
    def splits(self) -> Array:
        """Values between the bins of `psi`: bins are (-inf, s1], (s1, s2], ..., (sk, inf)."""
        kind = self.a.type
        return self._splits if kind.is_float else kind.restore(self._splits)  # given splits of float32 are float64

    def shift(self, phi: float) -> tuple[Any, Any]:
        """Return bounds of the difference of one quantile, a minus b."""
        return shift_between(self.a.type, self.a.bounds(check_phi(phi)), self.b.bounds(phi))

    def is_above(self, phi: float) -> bool | None:
        """Return True if the quantile of a is proved to be above that of b, False if proved not to be, else None."""
        return is_above(self.a.bounds(check_phi(phi)), self.b.bounds(phi))

    def proves_above(self, measure: str, limit: Any) -> bool | None:
        """Return True if a distance is proved to be above a limit, False if proved not to be, else None.

        `measure` is "ks", "psi" or "wasserstein".

        >>> from quantide import Summary
        >>> change = Summary.of(range(99, 1099)).compress(30).compare(Summary.of(range(1000)).compress(20))
        >>> change.proves_above("ks", 0.05), change.proves_above("ks", 0.1), change.proves_above("ks", 0.2)
        (True, None, False)
        """
        if measure not in MEASURES:
            raise InvalidArgumentError(f"{measure!r} is not a distance; give one of {', '.join(MEASURES)}")
        if isinstance(limit, bool) or not isinstance(limit, (int, float, np.integer, np.floating)) or limit != limit:
            raise InvalidArgumentError(f"a limit of {limit!r} for {measure}; give a number")
        limit = limit.item() if isinstance(limit, np.generic) else limit  # numpy would round the ends to its type
        low, high = getattr(self, measure)
        return True if low > limit else False if high <= limit else None

    def confidence_interval(self, phi: float, level: float = 0.95) -> tuple[Any, Any]:
        """Return an interval of the shift between the populations that the values are random samples of.

        With at least this confidence, it contains the difference of the two populations' quantiles: an interval of each
        quantile by order statistics, at half the error, widened by the rank bounds. It is about chance in the data;
        `shift` is about the data itself.
        """
        each = 1 - (1 - check_level(level)) / 2
        own, theirs = self.a.confidence_interval(phi, each), self.b.confidence_interval(phi, each)
        return shift_between(self.a.type, own, theirs)

    @cached_property
    def _gaps(self) -> CdfGaps:
        return gaps_of(self.a, self.b)

    def plot(self, ax: Any = None, *, labels: tuple[str, str] = ("a", "b"), log: bool = False) -> Any:
        """Plot the CDFs of both sides with their proved bands; return the axes. Arguments as of Summary.plot()."""
        if len(labels) != 2:
            raise InvalidArgumentError(f'labels must be two names, such as ("today", "yesterday"), not {labels!r}')
        axes = self.a.plot(ax, label=labels[0], log=log)
        return self.b.plot(axes, label=labels[1], log=log)

    def __repr__(self) -> str:
        above = ", ".join(f"{phi:g}: {PROOFS[self.is_above(phi)]}" for phi in self.phis)
        return (
            f"Comparison(ks={_show(self.ks)}, psi={_show(self.psi)}, wasserstein={_show(self.wasserstein)}, "
            f"is_above={{{above}}}, n={self.a.n:,} and {self.b.n:,})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from quantide.summary.comparison_html import comparison_html

        return comparison_html(self)


def _show(interval: Interval) -> str:
    return "({}, {})".format(*interval_texts(*interval))


def has_summary(source: Any) -> TypeGuard[SummarySource]:
    """Return True if an object has a summary to compare with."""
    return callable(getattr(source, "summary", None))


def summary_of(source: Any) -> "Summary":
    """Return the summary of an object that has one; raise if it has none."""
    from quantide.summary.summary import Summary

    refuse_unproved(source)
    summary = source.summary() if has_summary(source) else None
    if not isinstance(summary, Summary):
        raise TypeMismatchError(
            f"an object of type {type(source).__name__} has no summary to compare with; compare with a Summary, a "
            "sketch, a window, a monitor or a stream, or make one with Summary.of(values)"
        )
    return summary
