"""What was found of runs that were asked about last: it stays as it is while chunks come and go."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from quantide.history.run import Key, Run
from quantide.history.search import Fences
from quantide.summary.summary import Summary

KEPT = 64 << 20  # bytes, when nothing is said
EACH = 500  # bytes that anything costs beside what it holds


class KnownRuns:
    """Fences and summaries of a key, None for all, in some runs; what was not asked for the longest time goes first."""

    def __init__(self, most: int | None = None) -> None:
        self._most = KEPT if most is None else most
        self._kept: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()
        self.nbytes = 0

    def fences(self, runs: Sequence[Run], key: Key | None, make: Callable[[], Fences | None]) -> Fences | None:
        found: Fences | None = self._get("fences", runs, key, make)
        return found

    def summary(self, runs: Sequence[Run], key: Key | None, make: Callable[[], Summary | None]) -> Summary | None:
        found: Summary | None = self._get("summary", runs, key, make)
        return found

    def _get(self, what: str, runs: Sequence[Run], key: Key | None, make: Callable[[], Any]) -> Any:
        name = (what, tuple(run.id for run in runs), key)
        with self._lock:
            held = self._kept.get(name)
            if held is None:
                made = make()
                held = self._kept[name] = made, EACH + (0 if made is None else made.nbytes)
                self.nbytes += held[1]
            self._kept.move_to_end(name)
            while self.nbytes > self._most and len(self._kept) > 1:
                self.nbytes -= self._kept.popitem(last=False)[1][1]
            return held[0]
