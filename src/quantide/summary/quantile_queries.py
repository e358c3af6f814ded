"""Quantile queries over anything that produces a Summary."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from quantide.summary.answer import Answer
from quantide.summary.summary import Summary
from quantide.typing import Array


class QuantileQueries(ABC):
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

    def rank(self, value: Any) -> tuple[Any, Any]:
        """Return proved bounds (lo, hi) on the number of values <= value."""
        return self.summary().rank(value)

    def cdf(self, values: Any) -> Any:
        """Return the fraction of the data <= each value, within `error`."""
        return self.summary().cdf(values)

    @property
    def error(self) -> float:
        """Certified error now, as a fraction of n; never above eps."""
        return self.summary().error
