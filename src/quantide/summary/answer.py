"""Answer: a value with the ranks it is proved to have."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one quantile question, with its certificate.

    `value` is an element of the data. In sorted order it stands at some rank between `rank_lo` and `rank_hi`
    (1-based); the question asked for rank `target` = max(1, ceil(phi*n - 1e-9)) of `n`. So it is at most
    `error` * n ranks away from the target: a bound proved for this very answer, usually far below the eps of
    the sketch. `n_lo` and `n_hi` differ only where the number of elements itself is only known within bounds.
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
        """For notebooks."""
        from quantide.summary.notebook import answer_html

        return answer_html(self)


@dataclass(frozen=True, slots=True)
class AnswerAsOf(Answer):
    """An answer about a stream that goes on: `version` is the commit as of which it holds; two readers at the same
    version give the same answer.

    `mode` is how it was found and `blocks_read` how many blocks of history were read for it. `last_steps` tells how
    many ended steps it covers with the open one, None where it is about a window; `since` and `until` tell from after
    which time to which a window of time reaches, None where times were not asked about."""

    version: int
    mode: str
    blocks_read: int
    last_steps: int | None
    since: Any
    until: Any
