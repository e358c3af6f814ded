"""IntervalAnswer: an answer whose value is known up to an interval."""

from dataclasses import dataclass
from typing import Any

from quantide.summary.answer import Answer


@dataclass(frozen=True, slots=True)
class IntervalAnswer(Answer):
    """Answer about data whose values are known only up to intervals, such as the buckets of a histogram.

    The exact phi-quantile of the data, the value of rank `target`, is proved to lie between `value_lo` and `value_hi`,
    inclusive. `value`, `rank_lo`, `rank_hi` and `error` are the answer about the data with every value rounded up to
    the upper end of its interval.
    """

    value_lo: Any
    value_hi: Any

    def __str__(self) -> str:
        low, high = (f"{x:.15g}" if isinstance(x, float) else str(x) for x in (self.value_lo, self.value_hi))
        return f"between {low} and {high}; upper end {Answer.__str__(self)}"
