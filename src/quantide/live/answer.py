"""What a live stream answers: an Answer that also says what it speaks of, and as of when."""

from dataclasses import dataclass
from typing import Any

from quantide.summary.answer import AnswerAsOf


@dataclass(frozen=True, slots=True)
class LiveAnswer(AnswerAsOf):
    """What a live stream answers."""


@dataclass(frozen=True, slots=True)
class LiveBand:
    """An answer and a band around it: the true quantile, the value at rank `answer.target`, is proved to be at least
    `low` and at most `high`. Both are values that came."""

    answer: LiveAnswer
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class LiveRank:
    """How many of `n` values are at most `value`: `rank_lo` to `rank_hi`, proved. The rest as of a LiveAnswer."""

    value: Any
    rank_lo: int
    rank_hi: int
    n: int
    version: int
    mode: str
    last_steps: int | None
    since: Any
    until: Any


@dataclass(frozen=True, slots=True)
class LiveComparison:
    """The same phi of two windows. `place` bounds the fraction of the other that is at or below `value`'s value: for
    p99 of now, (0.997, 0.998) says that it was p99.7 to p99.8 of what it is compared with."""

    phi: float
    value: LiveAnswer
    against: LiveAnswer
    place: tuple[float, float]
