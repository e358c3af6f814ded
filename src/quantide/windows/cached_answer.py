"""Cached answers of a window, each with the number of arrivals up to which it stays within eps and the tail.

An arrival moves the rank of a value by at most one, and so does the departure that it causes. An answer whose ranks
are widened by both stays right, so a window that is queried after every value computes a new answer only once the
widened error would exceed eps or the tail, or the value has left: docs/guarantees/windows.md.
"""

from dataclasses import dataclass, replace

from quantide.summary.ranks import target_ranks
from quantide.windows.window_view import WindowAnswer

CAPACITY = 256  # answers of one view


def stays_within(answer: WindowAnswer, eps: float, tail: float | None) -> int:
    """Return the number of further arrivals after which the widened answer is still within eps and the tail.

    The target, its distance from either end and the number of values never shrink, so the bounds of now suffice.
    """
    error = max(answer.target - answer.rank_lo, answer.rank_hi - answer.target)
    allowed = eps * answer.n_lo
    if tail is not None:
        allowed = min(allowed, tail * min(answer.n - answer.target, answer.target - 1) + 0.5)
    arrivals = max(0, int(allowed) - error)
    while arrivals and (error + arrivals) / answer.n_lo > eps:  # rounding
        arrivals -= 1
    return arrivals


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer that was computed after `arrived` values and may be used until `until` have arrived."""

    answer: WindowAnswer
    arrived: int
    until: int

    def after(self, arrived: int, size: int) -> WindowAnswer:
        """Return the answer for the last `size` of `arrived` values, its ranks widened by those that came and left."""
        came = arrived - self.arrived
        if came == 0:
            return self.answer
        given, n = self.answer, min(arrived, size)
        left = came + given.n - n
        low, high = max(1, given.rank_lo - left), min(n, given.rank_hi + came)
        target = int(target_ranks(given.phi, n))
        return replace(
            given,
            target=target,
            rank_lo=low,
            rank_hi=high,
            n=n,
            error=max(target - low, high - target, 0) / n,
            n_lo=n,
            n_hi=n,
            missing=min(n, n - given.covered + left),
        )
