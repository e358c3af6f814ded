"""A stream through windows that are asked at many moments, every answer checked against the values themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import targets
from benchmarks.report import Row

Array = NDArray[np.float64]


@dataclass
class Probe:
    """One question to a window, `asked` being how it is put; `first(end)`: where it starts among all values.

    `passing` marks values that the window holds, when not all; `labels` begin its row.
    """

    labels: Row
    window: Any
    asked: dict[str, Any]
    first: Callable[[int], int]
    passing: NDArray[np.bool_] | None = None
    errors: list[Array] = field(default_factory=list)
    exact: bool = True

    def ask(self, ordered: Array, phis: Array) -> None:
        """Keep the errors of the answers, in ranks and as multiples of eps * n."""
        n, found = len(ordered), np.asarray(self.window.quantiles(phis, **self.asked))
        below = np.searchsorted(ordered, found, side="left")
        upto = np.searchsorted(ordered, found, side="right")
        if not (upto > below).all():
            raise AssertionError(f"an answer is no value of the window: {self.labels}")
        target = targets(phis, n)
        off = np.maximum(np.maximum(below + 1 - target, target - upto), 0)
        self.errors.append(off / (self.window.eps * n))
        self.exact = self.exact and self.window.summary(**self.asked).rank_error == 0

    def row(self) -> Row:
        """Errors are fractions of what is allowed."""
        every = np.array(self.errors)
        return {
            **self.labels,
            "eps": self.window.eps,
            "worst": float(every.max()),
            "mean": float(every.mean()),
            "exact": self.exact,
        }

    def by_phi(self, phis: Array) -> list[Row]:
        """A row for every fourth phi: as many as a figure can show."""
        every = np.array(self.errors)
        pairs = zip(phis.tolist(), every.mean(axis=0).tolist(), every.max(axis=0).tolist(), strict=True)
        return [{**self.labels, "phi": phi, "mean": mean, "worst": worst} for phi, mean, worst in list(pairs)[::4]]


@dataclass
class Held:
    """How many tuples a window had as values came, and what the paper's may have."""

    window: Any
    bound: int = 0
    counts: list[int] = field(default_factory=list)

    def row(self) -> Row:
        most, mean = max(self.counts, default=0), float(np.mean(self.counts or [0]))
        return {"tuples": most, "mean_tuples": round(mean), "paper_tuples": self.bound}


def watch(
    values: Array,
    feed: Callable[[Any, slice], None],
    probes: Sequence[Probe],
    helds: Sequence[Held],
    full: int,
    moments: int,
    phis: Array,
    piece: int,
) -> None:
    """Feed every window piece by piece; from `full` values on count what they hold and ask at random moments."""
    rng = np.random.default_rng([full, len(values)])
    asked = {len(values), *rng.integers(full, len(values), moments - 1).tolist()}
    windows = {id(probe.window): probe.window for probe in probes}
    begun = 0
    for end in sorted({*range(piece, len(values), piece), *asked}):
        for window in windows.values():
            feed(window, slice(begun, end))
        begun = end
        if end >= full:
            for held in helds:
                held.counts.append(held.window.tuples)
        if end in asked:
            _ask(values, probes, end, phis)


def _ask(values: Array, probes: Sequence[Probe], end: int, phis: Array) -> None:
    """Values are sorted once for all who ask about the same."""
    ordered: dict[tuple[int, bool], Array] = {}
    for probe in probes:
        first = max(0, probe.first(end))
        key = (first, probe.passing is None)
        if key not in ordered:
            kept = values[first:end]
            ordered[key] = np.sort(kept if probe.passing is None else kept[probe.passing[first:end]])
        probe.ask(ordered[key], phis)
