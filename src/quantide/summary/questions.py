"""Questions: what can be asked of anything that can give a Summary of itself."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike, NDArray

from quantide.summary.answer import Answer
from quantide.summary.summary import Summary


class Questions(ABC):
    """The one set of questions, answered from `summary()`."""

    @abstractmethod
    def summary(self) -> Summary:
        """A Summary of the data as it is now."""

    def answer(self, phi: float) -> Answer:
        """The phi-quantile with the ranks it is proved to have."""
        return self.summary().answer(phi)

    def quantile(self, phi: float) -> Any:
        """The value of the phi-quantile."""
        return self.summary().quantile(phi)

    def quantiles(self, phis: ArrayLike) -> NDArray[Any]:
        """The values for many phis in one call."""
        return self.summary().quantiles(phis)

    def rank(self, value: Any) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many values are <= value."""
        return self.summary().rank(value)

    def cdf(self, values: Any) -> Any:
        """The fraction of the values that are <= each value, at most `error` off."""
        return self.summary().cdf(values)

    @property
    def error(self) -> float:
        """The error certified now, as a fraction of n; never above eps."""
        return self.summary().error
