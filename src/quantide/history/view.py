"""Views: the runs of a span and the open step, for one key or all, asked together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import EmptyError, InvalidArgumentError, UnknownKeyError
from quantide.history.answer import HistoryAnswer
from quantide.history.blocks import Blocks
from quantide.history.known import KnownRuns
from quantide.history.run import Key, Run
from quantide.history.search import Cut, Fences, cut
from quantide.history.segment import Segment
from quantide.summary.asked import read_asked
from quantide.summary.ranks import check_phi, target_ranks
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

MODES = ("accurate", "quick", "exact")
GIVEN = 4096  # answers that are kept
MOST_SEGMENTS = 4096  # segments that a question over all keys may look at


@dataclass(frozen=True)
class View:
    """What a question is about. `stream` summarises the chunks; with `exact` chunks are searched like runs."""

    kind: ValueType
    blocks: Blocks
    known: KnownRuns
    run_eps: float
    runs: tuple[Run, ...]
    chunks: tuple[Run, ...]
    stream: Summary
    keyed: bool
    key: Key | None
    last_steps: int
    widened: bool

    def answer(self, phi: float, mode: str) -> HistoryAnswer:
        """The phi-quantile. docs/guarantees/history.md proves the bounds of each mode."""
        phi = check_phi(phi)
        _check_mode(mode)
        given = self._given.get((phi, mode))
        if given is None:
            given = self._find(phi, mode)
            if len(self._given) >= GIVEN:
                self._given.clear()
            self._given[phi, mode] = given
        return given

    @property
    def given(self) -> list[tuple[float, str]]:
        """What was asked of it: phis and modes, in that order."""
        return list(self._given)

    def at_hand(self, phi: float, mode: str) -> bool:
        """Whether an answer needs nothing to be read or merged."""
        return (phi, mode) in self._given or (mode == "quick" and "quick" in vars(self))

    def _find(self, phi: float, mode: str) -> HistoryAnswer:
        self._check_something()
        if mode == "quick":
            return self._told(self.quick, phi, mode, 0)
        target = int(target_ranks(phi, self.n))
        if mode == "exact":
            found, read = self._cut(self.all_fences, None, target)
            exact = Summary(np.array([found.above]), np.array([target]), np.array([target]), self.n, self.kind)
            return self._told(exact, phi, mode, read)
        if self.fences is None:
            return self._told(self.stream, phi, mode, 0)
        found, read = self._cut(self.fences, self.stream, target)
        # Of equal values those of the stream go first, as search.estimate() has it.
        return self._told(Summary.merge(self.stream, self._around(found)), phi, mode, read)

    def bounds(self, phi: float, mode: str) -> tuple[Any, Any]:
        """Two elements, (low, high), between which the true phi-quantile is proved to lie, as Summary.bounds() has it.

        With mode="accurate" the runs are known by the elements at three cuts, with exact ranks. With
        G of the open step's summary, what lies below the cut for target - G//2 has a highest rank of at most the
        target, and what lies above the cut for target + G//2 a lowest of at least that. docs/guarantees/live.md.
        """
        phi = check_phi(phi)
        _check_mode(mode)
        self._check_something()
        if mode == "exact":
            return (exact := self.answer(phi, mode).value), exact
        if mode == "quick" or self.fences is None:
            return (self.quick if mode == "quick" else self.stream).bounds(phi)
        target, reach = int(target_ranks(phi, self.n)), self.stream.gap // 2
        ranks = {max(target - reach, 1), target, min(target + reach, self.n)}
        cuts = [self._cut(self.fences, self.stream, rank)[0] for rank in ranks]
        return Summary.merge(self.stream, self._around(*cuts)).bounds(phi)

    def rank(self, value: Any, mode: str) -> tuple[Any, Any]:
        """Bounds on how many elements are <= value; arrays for an array of values."""
        _check_mode(mode)
        self._check_something()
        if mode == "quick":
            return self.quick.rank(value)
        asked, below, single = read_asked(value, self.kind)
        fences = self.all_fences if mode == "exact" else self.fences
        counted = np.zeros(len(asked), dtype=np.int64)
        for segment in fences.segments if fences else []:
            counted += np.where(below, 0, np.array([self._count(segment, one) for one in asked], dtype=np.int64))
        low, high = self.stream.rank(value) if mode == "accurate" and self.stream.n else (0, 0)
        low, high = counted + low, counted + high
        return (int(low[0]), int(high[0])) if single else (low, high)

    @cached_property
    def _given(self) -> dict[tuple[float, str], HistoryAnswer]:
        """Answers that were given before: what they are about does not change."""
        return {}

    @cached_property
    def n(self) -> int:
        if self.key is None:
            return sum(run.rows for run in self.runs) + self.stream.n
        return (self.fences.n if self.fences else 0) + self.stream.n

    @cached_property
    def quick(self) -> Summary:
        """All summaries merged: no data is read for it."""
        ended = self.known.summary(self.runs, self.key, self._ended)
        return self.stream if ended is None else Summary.merge(ended, self.stream)

    def _ended(self) -> Summary | None:
        """The summaries of the runs merged; None when nothing is in them."""
        if self.key is None:
            found = [run.thinned(self.run_eps) for run in self.runs]
        else:
            found = [summary for run in self.runs if (summary := run.summary(self.key)) is not None]
        return Summary.merge(*found) if found else None

    @cached_property
    def fences(self) -> Fences | None:
        """The fences of the runs."""
        return self.known.fences(self.runs, self.key, lambda: self._fences_of(self.runs))

    @cached_property
    def all_fences(self) -> Fences:
        """The fences of the runs and of the chunks."""
        found = self._fences_of((*self.runs, *self.chunks))
        assert found is not None  # there is something, or the question was refused
        return found

    def _fences_of(self, runs: Sequence[Run]) -> Fences | None:
        if self.keyed and self.key is None:
            places = sum(len(part.side.counts) for run in runs for part in run.parts)
            if places > MOST_SEGMENTS:
                raise InvalidArgumentError(
                    f'a question about all keys would look at {places} places; name a key, or use mode="quick"'
                )
        segments = self._segments(runs)
        return Fences(segments) if segments else None

    def _segments(self, runs: Sequence[Run]) -> list[Segment]:
        if not self.keyed:
            return [run.whole for run in runs]
        if self.key is None:
            return [segment for run in runs for segment in run.segments()]
        return [segment for run in runs if (segment := run.segment(self.key)) is not None]

    def _cut(self, fences: Fences, stream: Summary | None, target: int) -> tuple[Cut, int]:
        """Where a rank cuts, and how many blocks of files were read: small keys share one."""
        seen = set()

        def read(segment: Segment, block: int) -> NDArray[Any]:
            seen.add((segment.paths[segment.file[block]], int(segment.group[block])))
            return self.blocks.read(segment, block)

        return cut(fences, stream, target, read), len(seen)

    def _around(self, *cuts: Cut) -> Summary:
        """The history as the neighbours of cuts, whose ranks are exact."""
        known: dict[int, Any] = {}
        for found in cuts:
            rank = int(found.before.sum())
            known |= {rank: found.below, rank + 1: found.above}
        held = sorted((rank, value) for rank, value in known.items() if value is not None)
        ranks = np.array([rank for rank, _ in held])
        values = np.array([value for _, value in held], dtype=self.kind.carrier)
        assert self.fences is not None
        return Summary(values, ranks, ranks, self.fences.n, self.kind)

    def _count(self, segment: Segment, value: Any) -> int:
        """How many rows of a segment are <= value: at most one block is read."""
        if value >= segment.last:
            return len(segment)
        block = int(np.searchsorted(segment.fences, value, side="right")) - 1
        if block < 0:
            return 0
        if segment.constant[block]:
            return int(segment.starts[block + 1])
        held: NDArray[Any] = self.blocks.read(segment, block)
        return int(segment.starts[block] + np.searchsorted(held, value, side="right"))

    def _told(self, summary: Summary, phi: float, mode: str, blocks_read: int) -> HistoryAnswer:
        a = summary.answer(phi)
        same = (a.value, a.phi, a.target, a.rank_lo, a.rank_hi, a.n, a.error, a.n_lo, a.n_hi)
        return HistoryAnswer(*same, mode, blocks_read, self.stream.n, self.last_steps, self.widened)

    def _check_something(self) -> None:
        if self.n:
            return
        if self.key is not None:
            shown = self.key[0] if len(self.key) == 1 else self.key
            raise UnknownKeyError(f"there is no value with the key {shown!r} in this span")
        raise EmptyError("there are no values in this span yet; append() some first")


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise InvalidArgumentError(f"mode={mode!r} is not one of {', '.join(MODES)}")
