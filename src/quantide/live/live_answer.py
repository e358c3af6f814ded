"""Answers of a live stream: with the version and the window that they are about."""

from dataclasses import dataclass
from typing import Any

from quantide.summary.answer import AnswerAsOf


@dataclass(frozen=True, slots=True)
class LiveAnswer(AnswerAsOf):
    """Answer of a live stream."""


@dataclass(frozen=True, slots=True)
class LiveBand:
    """An answer and a band around it: the true quantile, the value at rank `answer.target`, is proved to be at least
    `low` and at most `high`. Both are values that arrived."""

    answer: LiveAnswer
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class LiveRank:
    """Proved bounds, `rank_lo` to `rank_hi`, on how many of `n` values are at most `value`. The rest as LiveAnswer."""

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
    """The same phi of two windows. `place` bounds the fraction of the other window at or below `value`'s value: for p99
    of now, (0.997, 0.998) means that it was p99.7 to p99.8 of the window it is compared with."""

    phi: float
    value: LiveAnswer
    against: LiveAnswer
    place: tuple[float, float]
