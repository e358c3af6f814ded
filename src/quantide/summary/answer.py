"""Answer: a value with its proved rank bounds."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


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
            f"of {self.n:,}: off by at most {format_error(self.error, self.n)})"
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
    up to `until`; both are None for other queries. `requests` were made to an object store for it.
    """

    version: int
    mode: str
    blocks_read: int
    last_steps: int | None
    since: Any
    until: Any
    requests: int = 0


def format_error(error: float, n: int) -> str:
    """Format a rank error as ranks of n values and as a percentage, both rounded up.

    >>> format_error(7e-7, 10_000_000), format_error(0.00532, 100_000), format_error(0.0, 5)
    ('7 ranks, 0.00007%', '532 ranks, 0.532%', '0 ranks, 0%')
    """
    ranks = math.ceil(float(f"{error * n:.9g}"))  # 7 / n * n may be a little more than 7
    return f"{ranks:,} {'rank' if ranks == 1 else 'ranks'}, {format_percent(error)}"


def format_percent(error: float) -> str:
    """Format an error as a percentage with four significant digits and no exponent, rounded up.

    >>> format_percent(7.00001e-7), format_percent(0.0125), format_percent(1.0)
    ('0.00007001%', '1.25%', '100%')
    """
    rounded = FOUR_DIGITS.create_decimal(f"{100 * error:.9g}")
    return f"{rounded.normalize():f}%"
