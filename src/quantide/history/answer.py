"""What a history answers: an Answer that also says what was read and which part of time it covers."""

from dataclasses import dataclass

from quantide.summary.answer import Answer


@dataclass(frozen=True, slots=True)
class HistoryAnswer(Answer):
    """`blocks_read` blocks were looked at; `stream_n` of the n elements are of the open step, and only they are
    approximate in mode "accurate". `last_steps` ended steps are covered, with the open one; `widened` says that
    those are more than were asked for."""

    mode: str
    blocks_read: int
    stream_n: int
    last_steps: int
    widened: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same phi of two spans. `place` bounds the fraction of the other span that is at or below `value`'s value:
    for p99 of today, (0.997, 0.998) says that it was p99.7 to p99.8 of the span it is compared with."""

    phi: float
    value: HistoryAnswer
    against: HistoryAnswer
    place: tuple[float, float]
