"""A window with a record of everything inserted into it, as values or as summarised blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantide import Summary, errors
from tests.windows.window_oracle import Array, Rng, inside, verify


def thinned(summary: Summary, eps: float, way: float) -> Summary:
    """Thin a block towards the coarsest that is accepted; `way` 0 leaves it exact, 1 is the coarsest."""
    best = summary
    for b in (int(1 / (eps * max(way, 0.01))) + 1, int(np.ceil(1 / eps)) + 1):
        thinner = summary.compress(max(1, b)) if way else summary
        if thinner.error <= eps / 2 and len(thinner) < len(best):
            best = thinner
    return best


class Feed:
    """Feeds a RecentWindow and records the value, the time and the block of every element."""

    def __init__(self, window: Any, timed: bool = True) -> None:
        self.window, self.timed = window, timed
        self.values, self.times = np.empty(0), np.empty(0)
        self.blocks: list[tuple[int, int]] = []  # first element and the one after the last; values are none
        self.refused = self.answered = 0

    @property
    def now(self) -> float:
        return float(self.times.max()) if len(self.times) else 0.0

    def take(self, values: Array, times: Array) -> None:
        """Insert values."""
        self.window.update(values, times if self.timed else None)
        self._note(values, times)

    def summarised(self, values: Array, times: Array, way: float = 0.0, joins: bool = False) -> None:
        """Insert one summarised block; `joins` if it overlaps the previous one."""
        span = (float(times.min()), float(times.max())) if self.timed else ()
        self.window.update_summary(thinned(Summary.of(values), self.window.eps, way), *span)
        start = self.blocks.pop()[0] if joins else len(self.values)
        self._note(values, times)
        self.blocks.append((start, len(self.values)))

    def _note(self, values: Array, times: Array) -> None:
        self.values, self.times = np.concatenate([self.values, values]), np.concatenate([self.times, times])

    def verify_last(self, last: int, rng: Rng) -> None:
        mask = np.arange(len(self.values)) >= len(self.values) - last
        self._check(mask, int(np.count_nonzero(mask)), rng, last=last)

    def verify_within(self, span: float, rng: Rng) -> None:
        mask = inside(self.times, self.now, span)
        sure = np.count_nonzero(mask) - sum(np.count_nonzero(mask[a:b]) for a, b in self.straddled(mask))
        self._check(mask, int(sure), rng, within=span)

    def straddled(self, mask: Array) -> list[tuple[int, int]]:
        """Return the blocks that lie partly in the window."""
        return [(a, b) for a, b in self.blocks if mask[a:b].any() and not mask[a:b].all()]

    def _check(self, mask: Array, sure: int, rng: Rng, **scope: Any) -> None:
        """Check that the answer is within eps, or refused because a block that is not small lies across the start."""
        largest = max((b - a for a, b in self.straddled(mask)), default=0)
        try:
            verify(self.window, self.values[mask], rng, **scope)
        except errors.SpanError:
            self.refused += 1
            assert largest > self.window.eps * sure / 2, (scope, largest, sure)
        else:
            self.answered += 1
