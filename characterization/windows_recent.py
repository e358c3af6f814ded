"""Windows of the last values: error and space by eps, by data, by size, by n of N, by rank; after RECENT."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import windows_bounds as bounds
from benchmarks.report import Row, say
from characterization.windows_data import KINDS, stream
from characterization.windows_layout import BUILT, SHRUNK, layout
from characterization.windows_settings import Settings
from characterization.windows_trial import Array, Held, Probe, watch
from quantide import RecentWindow, SlidingWindow

SLIDING, RECENT = "SlidingWindow", "RecentWindow"


@dataclass
class Run:
    """One stream through a pair of windows for each eps."""

    settings: Settings
    layout: str
    size: int
    kind: str
    epsilons: Sequence[float]
    parts: Sequence[int] = (100,)

    def measure(self) -> list[tuple[Probe, Held]]:
        found = []
        with layout(self.layout):
            values = stream(self.kind, int(self.settings.turns * self.size))
            for eps in self.epsilons:
                found += self._pair(eps)
            helds = list({id(held): held for _, held in found}.values())
            s, probes = self.settings, [probe for probe, _ in found]
            watch(values, _feeder(values), probes, helds, self.size, s.moments, s.asked(), s.piece)
        return found

    def _pair(self, eps: float) -> list[tuple[Probe, Held]]:
        sliding, recent = SlidingWindow(self.size, eps), RecentWindow(eps, max_items=self.size)
        held = Held(sliding, bounds.sliding(eps, self.size)), Held(recent, bounds.recent(eps, self.size))
        found = [(self._probe(SLIDING, sliding, 100), held[0])]
        return found + [(self._probe(RECENT, recent, part), held[1]) for part in self.parts]

    def _probe(self, name: str, window: Any, part: int) -> Probe:
        n = self.size * part // 100
        labels = {"window": name, "layout": self.layout, "size": self.size, "kind": self.kind, "n": n}
        return Probe(labels, window, {"last": n} if name == RECENT else {}, lambda end: end - n)


def _feeder(values: Array) -> Any:
    return lambda window, part: window.update(values[part])


def measure(settings: Settings) -> dict[str, list[Row]]:
    s = settings
    scales = ((BUILT, s.large), (SHRUNK, s.small))
    say("windows: errors and tuples by eps")
    epsilons = [Run(s, name, size, "uniform", s.epsilons) for name, size in scales]
    rows = {"epsilons": _rows(run.measure() for run in epsilons)}
    say("windows: by data")
    kinds = [Run(s, name, size, kind, [s.eps]).measure() for name, size in scales for kind in KINDS]
    rows["kinds"] = _rows(kinds)
    built = kinds[: len(KINDS)]
    rows["ranks"] = [row for found in built for probe, _ in found for row in probe.by_phi(s.asked())]
    say("windows: by size")
    sized = [(BUILT, size) for size in s.sizes] + [(SHRUNK, size) for size in s.small_sizes]
    rows["sizes"] = _rows(Run(s, name, size, "uniform", [s.eps]).measure() for name, size in sized)
    say("windows: n of N")
    rows["parts"] = _rows(Run(s, name, size, "uniform", [s.eps], s.parts).measure() for name, size in scales)
    return rows


def _rows(found: Iterable[list[tuple[Probe, Held]]]) -> list[Row]:
    return [{**probe.row(), **held.row()} for run in found for probe, held in run]
