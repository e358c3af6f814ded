"""A window and everything that was fed to it, as values or as blocks that were summarised elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantide import Summary, errors
from tests.windows.truth import Array, Rng, inside, verify


def thinned(summary: Summary, eps: float, way: float) -> Summary:
    """The same block, thinned towards the coarsest that is taken; `way` 0 leaves it exact, 1 goes all the way."""
    best = summary
    for b in (int(1 / (eps * max(way, 0.01))) + 1, int(np.ceil(1 / eps)) + 1):
        thinner = summary.compress(max(1, b)) if way else summary
        if thinner.error <= eps / 2 and len(thinner) < len(best):
            best = thinner
    return best


class Feed:
    """Feeds a RecentWindow and knows, of every element, its value, its time and the block it came in."""

    def __init__(self, window: Any, timed: bool = True) -> None:
        self.window, self.timed = window, timed
        self.values, self.times = np.empty(0), np.empty(0)
        self.blocks: list[tuple[int, int]] = []  # first element and the one after the last; values are none
        self.refused = self.answered = 0

    @property
    def now(self) -> float:
        return float(self.times.max()) if len(self.times) else 0.0

    def take(self, values: Array, times: Array) -> None:
        """As they are."""
        self.window.update(values, times if self.timed else None)
        self._note(values, times)

    def summarised(self, values: Array, times: Array, way: float = 0.0, joins: bool = False) -> None:
        """As one block; `joins` says that it overlaps the one before."""
        span = (float(times.min()), float(times.max())) if self.timed else ()
        self.window.update_summary(thinned(Summary.of(values), self.window.eps, way), *span)
        start = self.blocks.pop()[0] if joins else len(self.values)
        self._note(values, times)
        self.blocks.append((start, len(self.values)))

    def _note(self, values: Array, times: Array) -> None:
        self.values, self.times = np.concatenate([self.values, values]), np.concatenate([self.times, times])

    def ask_last(self, last: int, rng: Rng) -> None:
        held = np.arange(len(self.values)) >= len(self.values) - last
        self._ask(held, int(np.count_nonzero(held)), rng, last=last)

    def ask_within(self, span: float, rng: Rng) -> None:
        held = inside(self.times, self.now, span)
        sure = np.count_nonzero(held) - sum(np.count_nonzero(held[a:b]) for a, b in self.straddled(held))
        self._ask(held, int(sure), rng, within=span)

    def straddled(self, held: Array) -> list[tuple[int, int]]:
        """The blocks of which some elements are in the window and some are not."""
        return [(a, b) for a, b in self.blocks if held[a:b].any() and not held[a:b].all()]

    def _ask(self, held: Array, sure: int, rng: Rng, **asked: Any) -> None:
        """Answered within eps; refused only if a block lies across the start that is not small beside what is sure."""
        largest = max((b - a for a, b in self.straddled(held)), default=0)
        try:
            verify(self.window, self.values[held], rng, **asked)
        except errors.SpanError:
            self.refused += 1
            assert largest > self.window.eps * sure / 2, (asked, largest, sure)
        else:
            self.answered += 1
