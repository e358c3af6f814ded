"""Answer: a value with its proved rank bounds."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to one quantile query, with its certified error.

    `value` is one of the data values. Its rank in sorted order is between `rank_lo` and `rank_hi` (1-based); the target
    rank is `target` = max(1, ceil(phi*n - 1e-9)) of `n`. So it is at most `error` * n ranks away from the target: a
    bound proved for this answer, usually far below the eps of the sketch. `n_lo` and `n_hi` differ only if the number
    of values is known only within bounds.
    """

    value: Any
    phi: float
    target: int
    rank_lo: int
    rank_hi: int
    n: int
    error: float
    n_lo: int
    n_hi: int

    def __str__(self) -> str:
        return (
            f"{self.value} (rank {self.rank_lo:,} to {self.rank_hi:,}, asked for {self.target:,} "
            f"of {self.n:,}: off by at most {self.error:.4%})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from quantide.summary.notebook import answer_html

        return answer_html(self)


@dataclass(frozen=True, slots=True)
class AnswerAsOf(Answer):
    """Answer over a growing stream as of `version`, a commit: two readers at the same version give the same answer.

    `mode` is the mode of the query and `blocks_read` the number of history blocks read for it. `last_steps` is the
    number of ended steps it covers beside the open one, None for a window. A time window covers times after `since`,
    up to `until`; both are None for other queries.
    """

    version: int
    mode: str
    blocks_read: int
    last_steps: int | None
    since: Any
    until: Any
