"""Summary queries: comparisons, sums over ranks and confidence intervals of anything that has a summary."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from quantide.summary import rank_sums
from quantide.summary.comparison import BINS, FLOOR, PHIS, Comparison, SummarySource, summary_of
from quantide.summary.confidence_ranks import check_level, confidence_ranks
from quantide.summary.ranks import check_not_empty, check_phi

if TYPE_CHECKING:
    from quantide.summary.summary import Summary


class SummaryQueries:
    """Mixin that answers from `summary()`. Results are intervals (low, high) that contain the exact one."""

    __slots__ = ()

    @abstractmethod
    def summary(self) -> "Summary":
        """Return a Summary of the current data."""

    def compare(
        self, other: SummarySource, phis: ArrayLike = PHIS, bins: Any = BINS, floor: float = FLOOR
    ) -> Comparison:
        """Compare with a reference: KS, PSI and Wasserstein distance, and the shift of each phi, as (low, high).

        `other` is anything with a summary. `bins` is a number of quantile bins of `other`, or the values between bins,
        and `floor` the least fraction of a bin, both for PSI.
        """
        return Comparison(self.summary(), summary_of(other), phis, bins, floor)

    def confidence_interval(self, phi: float, level: float = 0.95) -> tuple[Any, Any]:
        """Return values between which the phi-quantile of the population lies, if the data is a random sample of it.

        The interval has at least this confidence, for every distribution, and its ends are widened by the rank bounds
        of the summary. An end is None where there are too few values. It is about chance in the data; bounds() is about
        the data itself.
        """
        summary, phi, level = self.summary(), check_phi(phi), check_level(level)
        check_not_empty(summary.n)
        low, high = confidence_ranks(summary.n, phi, level)
        return summary.values_around(low, high)

    def mean(self) -> tuple[Any, Any]:
        """Return bounds of the mean of all values."""
        return rank_sums.mean(self.summary())

    def sum(self) -> tuple[Any, Any]:
        """Return bounds of the sum of all values."""
        return rank_sums.total(self.summary())

    def trimmed_mean(self, cut: float) -> tuple[Any, Any]:
        """Return bounds of the mean without the smallest and the largest `cut` of all values, such as 0.1."""
        return rank_sums.trimmed_mean(self.summary(), cut)

    def winsorised_mean(self, cut: float) -> tuple[Any, Any]:
        """Return bounds of the mean, with the smallest and largest `cut` of all values moved to the next one."""
        return rank_sums.winsorised_mean(self.summary(), cut)

    def expected_shortfall(self, phi: float, *, upper: bool = True) -> tuple[Any, Any]:
        """Return bounds of the mean of the values beyond a quantile (CVaR): the largest 1 - phi of all values.

        With upper=False, of the smallest phi.
        """
        return rank_sums.expected_shortfall(self.summary(), phi, upper)

    def sum_above(self, threshold: Any) -> tuple[Any, Any]:
        """Return bounds of the sum of the values above a threshold."""
        return rank_sums.sum_above_threshold(self.summary(), threshold)
