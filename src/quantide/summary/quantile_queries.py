"""Quantile queries over anything that produces a Summary."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from quantide.summary.answer import Answer
from quantide.summary.summary import Summary
from quantide.summary.summary_queries import SummaryQueries
from quantide.typing import Array, Floats


class QuantileQueries(SummaryQueries, ABC):
    """Mixin that answers every query from `summary()`."""

    @abstractmethod
    def summary(self) -> Summary:
        """Return a Summary of the current data."""

    def answer(self, phi: float) -> Answer:
        """Return the phi-quantile with its proved rank bounds."""
        return self.summary().answer(phi)

    def quantile(self, phi: float) -> Any:
        """Return the value of the phi-quantile."""
        return self.summary().quantile(phi)

    def quantiles(self, phis: ArrayLike) -> Array:
        """Return the values of many quantiles in one call."""
        return self.summary().quantiles(phis)

    def rank(self, value: Any, *, inclusive: bool = True) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values <= value; < value with inclusive=False."""
        return self.summary().rank(value, inclusive=inclusive)

    def cdf(self, values: Any, *, inclusive: bool = True) -> Any:
        """Return the fraction of the data <= each value, within `error`; < with inclusive=False."""
        return self.summary().cdf(values, inclusive=inclusive)

    def pmf(self, splits: Any, *, inclusive: bool = True) -> Floats:
        """Return the fraction of the data in (-inf, s1], (s1, s2], ..., (sk, inf), each within 2 * `error`.

        With inclusive=False the intervals are (-inf, s1), [s1, s2), ..., [sk, inf).
        """
        return self.summary().pmf(splits, inclusive=inclusive)

    @property
    def min(self) -> Any:
        """Smallest value, exact unless a window does not cover all of its values: quantile(0)."""
        return self.summary().min

    @property
    def max(self) -> Any:
        """Largest value, exact unless a window does not cover all of its values: quantile(1)."""
        return self.summary().max

    @property
    def error(self) -> float:
        """Certified error now, as a fraction of n; never above eps."""
        return self.summary().error
