"""Views: what a question is about, as of one version, asked again and again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quantide.errors import EmptyError, InvalidArgumentError, UnknownKeyError
from quantide.history.view import MODES
from quantide.history.view import View as StoredView
from quantide.live.answer import LiveAnswer, LiveBand
from quantide.summary.answer import Answer
from quantide.summary.summary import Summary

OFTEN = 16  # answers: who asks for more of them about one thing hardly asks for the same again
TUPLE = 24  # bytes of a value and its ranks


@dataclass(frozen=True)
class HistoryView:
    """Everything, or the last steps: the runs and the open step."""

    version: int
    stored: StoredView
    since = until = None

    @property
    def n(self) -> int:
        return self.stored.n

    @property
    def last_steps(self) -> int:
        return self.stored.last_steps

    @property
    def nbytes(self) -> int:
        """About how much it holds when its summary was asked for."""
        tuples = min(self.stored.n, len(self.stored.runs) / self.stored.run_eps)
        return self.stored.stream.nbytes + int(tuples) * TUPLE

    def at_hand(self, phi: float, mode: str) -> bool:
        """Whether an answer needs nothing to be read or merged."""
        return self.stored.at_hand(phi, mode)

    def prepare(self, before: "View") -> None:
        """Find what was asked about an older version, if that is little: it will be asked again."""
        given = before.stored.given if isinstance(before, HistoryView) else []
        for phi, mode in given if len(given) <= OFTEN else given[-1:]:
            self.answer(phi, mode)

    @property
    def summary(self) -> Summary:
        """Within eps of all elements; no data is read for it."""
        return self.stored.quick

    def answer(self, phi: float, mode: str) -> LiveAnswer:
        a = self.stored.answer(phi, mode)
        return _told(a, self.version, mode, a.blocks_read, a.last_steps, None, None)

    def band(self, phi: float, mode: str) -> LiveBand:
        return LiveBand(self.answer(phi, mode), *self.stored.bounds(phi, mode))

    def rank(self, value: Any, mode: str) -> tuple[Any, Any]:
        return self.stored.rank(value, mode)


@dataclass(frozen=True)
class WindowView:
    """A window of recent values: its summary, and every row of it when an exact answer is asked for."""

    version: int
    summary: Summary
    all_rows: Callable[[], Summary]
    key: Any
    since: Any
    until: Any
    last_steps = None

    @property
    def n(self) -> int:
        return self.summary.n

    @property
    def nbytes(self) -> int:
        return self.summary.nbytes

    def at_hand(self, phi: float, mode: str) -> bool:
        return mode != "exact"

    def prepare(self, before: "View") -> None:
        """Its summary is there already."""

    def answer(self, phi: float, mode: str) -> LiveAnswer:
        a = self._summary(mode).answer(phi)
        return _told(a, self.version, mode, 0, None, self.since, self.until)

    def band(self, phi: float, mode: str) -> LiveBand:
        return LiveBand(self.answer(phi, mode), *self._summary(mode).bounds(phi))

    def rank(self, value: Any, mode: str) -> tuple[Any, Any]:
        return self._summary(mode).rank(value)

    def _summary(self, mode: str) -> Summary:
        if mode not in MODES:
            raise InvalidArgumentError(f"mode={mode!r} is not one of {', '.join(MODES)}")
        if not self.summary.n and self.key is not None:
            raise UnknownKeyError(f"there is no value with the key {self.key!r} in this window")
        if not self.summary.n:
            raise EmptyError("the window is empty: nothing that arrived lies within it; ask for a longer one")
        return self.all_rows() if mode == "exact" else self.summary


View = HistoryView | WindowView


def _told(a: Answer, version: int, mode: str, blocks: int, steps: int | None, since: Any, until: Any) -> LiveAnswer:
    same = (a.value, a.phi, a.target, a.rank_lo, a.rank_hi, a.n, a.error, a.n_lo, a.n_hi)
    return LiveAnswer(*same, version, mode, blocks, steps, since, until)
