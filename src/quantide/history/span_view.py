"""Span views: the runs of a span and the open step, for one key or all, queried together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.caching import ByteLRU
from quantide.errors import EmptyError, InvalidArgumentError, UnknownKeyError
from quantide.history.block_search import Estimate, Fences, RankCut, cut
from quantide.history.run import BlockReader, Key, Run, RunSegment, compress_to
from quantide.history.value_scan import ValueScan
from quantide.store.storage import measure_requests
from quantide.store.store_settings import ErrorProfile
from quantide.summary.answer import Answer
from quantide.summary.rank_arguments import read_query_values
from quantide.summary.ranks import check_phi, target_ranks
from quantide.summary.summary import Summary
from quantide.summary.value_types import ValueType

INDEX_BYTES = 64 << 20  # default size of a RunIndexCache
MODES = ("accurate", "quick", "exact")
MAX_ANSWERS = 4096  # cached by a view
MAX_CHUNK_TUPLES = 32  # times 1/eps: chunks with more tuples than that are summarised by a sketch
MAX_SEGMENTS = 1024  # that are searched block by block; of more, a scan is faster and reads hardly more


@dataclass(frozen=True, slots=True)
class HistoryAnswer(Answer):
    """Answer of a history: `blocks_read` blocks were read, `stream_n` of the n elements are of the open step, and only
    they are approximate in mode "accurate". It covers `last_steps` ended steps and the open one; `widened` is True if
    those are more than requested. `requests` were made to an object store for it; a folder needs none.
    """

    mode: str
    blocks_read: int
    stream_n: int
    last_steps: int
    widened: bool
    requests: int = 0


@dataclass(frozen=True, slots=True)
class SpanComparison:
    """Same phi of two spans. `place` bounds the fraction of the other span that is at or below `value`'s value: for p99
    of today, (0.997, 0.998) means that it was p99.7 to p99.8 of the span it is compared with.
    """

    phi: float
    value: HistoryAnswer
    against: HistoryAnswer
    place: tuple[float, float]


class RunIndexCache:
    """LRU cache of fences and summaries of a key (None for all) in a set of runs; new chunks do not change them."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._cache = ByteLRU(INDEX_BYTES if max_bytes is None else max_bytes)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes

    def fences(self, runs: Sequence[Run], key: Key | None, make: Callable[[], Fences | None]) -> Fences | None:
        """Return the cached fences; make them on a miss."""
        return self._cache.get("fences", _cache_key(runs, key), make, _nbytes)

    def summary(self, runs: Sequence[Run], key: Key | None, make: Callable[[], Summary | None]) -> Summary | None:
        """Return the cached merged summary; make it on a miss."""
        return self._cache.get("summary", _cache_key(runs, key), make, _nbytes)


def _cache_key(runs: Sequence[Run], key: Key | None) -> tuple[Any, ...]:
    return tuple(run.identity for run in runs), key


def _nbytes(value: Fences | Summary | None) -> int:
    return 0 if value is None else value.nbytes


@dataclass(frozen=True)
class SpanView:
    """Span of one snapshot. `open_step` summarises the chunks; mode "exact" searches chunks like runs."""

    kind: ValueType
    blocks: BlockReader
    run_indexes: RunIndexCache
    profile: ErrorProfile  # of the summaries of runs
    merged_tuples: int | None  # of the summary of all runs, at most
    caches_answers: bool
    runs: tuple[Run, ...]
    chunks: tuple[Run, ...]
    open_step: Summary
    max_fine_tuples: int  # that accurate answers read from the index files of chunks, instead of `open_step`
    keyed: bool
    key: Key | None
    last_steps: int
    widened: bool

    def answer(self, phi: float, mode: str) -> HistoryAnswer:
        """Return the phi-quantile. docs/guarantees/history.md proves the bounds of each mode."""
        phi = check_phi(phi)
        _check_mode(mode)
        answer = self._answers.get((phi, mode))
        return self._measure(lambda: [self._compute(phi, mode)])[0] if answer is None else answer

    @property
    def cached_queries(self) -> list[tuple[float, str]]:
        """Phis and modes answered so far, in that order."""
        return list(self._answers)

    def is_cached(self, phi: float, mode: str) -> bool:
        """Return True if an answer needs no reading or merging."""
        return (phi, mode) in self._answers or (mode == "quick" and "_cached_quick" in vars(self))

    def answers(self, phis: Sequence[float], mode: str) -> list[HistoryAnswer]:
        """Return the answers for many phis; where files are scanned, in one pass for all."""
        missing = [check_phi(phi) for phi in dict.fromkeys(phis) if (phi, mode) not in self._answers]
        if len(missing) < 2 or not self.n or not self.is_scanned(mode):
            return [self.answer(phi, mode) for phi in phis]
        scanned = {answer.phi: answer for answer in self._measure(lambda: self._scan(missing, mode))}
        return [scanned[phi] if phi in scanned else self.answer(phi, mode) for phi in phis]

    def is_scanned(self, mode: str) -> bool:
        """Return True if answers over all keys scan the files of runs, because there are too many keys to search."""
        runs = (*self.runs, *self.chunks) if mode == "exact" else self.runs
        return mode != "quick" and self._has_many_segments(runs)

    def _compute(self, phi: float, mode: str) -> HistoryAnswer:
        self._check_not_empty()
        if mode == "quick":
            return self._to_answer(self.quick, phi, mode, 0)
        if self.is_scanned(mode):
            return self._scan([phi], mode)[0]
        target = int(target_ranks(phi, self.n))
        if mode == "exact":
            return self._exact(phi, *self._cut(self.all_fences, None, target))
        if self.fences is None:
            return self._to_answer(self._fine_open_step(), phi, mode, 0)
        open_step = self._fine_open_step()
        return self._accurate(phi, *self._cut(self.fences, open_step, target), open_step)

    def _scan(self, phis: Sequence[float], mode: str) -> list[HistoryAnswer]:
        """Return the answers for phis by scanning files."""
        targets = [int(target_ranks(phi, self.n)) for phi in phis]
        if mode == "exact":
            cuts = self._scan_of((*self.runs, *self.chunks)).cut(None, targets)
            return [self._exact(phi, one, one.blocks_read) for phi, one in zip(phis, cuts, strict=True)]
        open_step = self._fine_open_step()
        cuts = self._scan_of(self.runs).cut(open_step, targets)
        return [self._accurate(phi, one, one.blocks_read, open_step) for phi, one in zip(phis, cuts, strict=True)]

    def _fine_open_step(self) -> Summary:
        """Return a summary of the open step for accurate answers.

        Where memory is limited, the one in memory is coarse; those of its chunks are read from their index files, and
        not cached.
        """
        if not self.max_fine_tuples:
            return self.open_step
        summaries = [summary for chunk in self.chunks if (summary := chunk.summary(self.key)) is not None]
        if not 0 < sum(map(len, summaries)) <= self.max_fine_tuples:
            return self.open_step
        return Summary.merge(*summaries)

    def _exact(self, phi: float, rank_cut: RankCut, blocks_read: int) -> HistoryAnswer:
        target = np.array([int(target_ranks(phi, self.n))])
        exact = Summary(np.array([rank_cut.above]), target, target, self.n, self.kind)
        return self._to_answer(exact, phi, "exact", blocks_read)

    def _accurate(self, phi: float, rank_cut: RankCut, blocks_read: int, open_step: Summary) -> HistoryAnswer:
        # Of equal values those of the open step go first, as in block_search.estimate().
        merged = Summary.merge(open_step, self._neighbours(rank_cut))
        return self._to_answer(merged, phi, "accurate", blocks_read)

    def bounds(self, phi: float, mode: str) -> tuple[Any, Any]:
        """Return two elements (low, high) that enclose the true phi-quantile, like Summary.bounds().

        With mode="accurate" the runs are known by the elements at two cuts, with exact ranks: the last with a highest
        rank of at most the target, and the first with a lowest of at least that. docs/guarantees/live.md.
        """
        phi = check_phi(phi)
        _check_mode(mode)
        self._check_not_empty()
        if mode == "exact":
            return (exact := self.answer(phi, mode).value), exact
        if mode == "quick":
            return self.quick.bounds(phi)
        target, open_step = int(target_ranks(phi, self.n)), self._fine_open_step()
        if self.is_scanned(mode):
            lower, upper = self._scan_of(self.runs).cut_both(open_step, target + 1, target)
        elif self.fences is None:
            return open_step.bounds(phi)
        else:
            lower, _ = self._cut(self.fences, open_step, target + 1, "highest")
            upper, _ = self._cut(self.fences, open_step, target, "lowest")
        return Summary.merge(open_step, self._neighbours(lower, upper)).bounds(phi)

    def rank(self, value: Any, mode: str, inclusive: bool = True) -> tuple[Any, Any]:
        """Return bounds on the number of elements <= value, or < value; arrays for an array of values."""
        _check_mode(mode)
        self._check_not_empty()
        if mode == "quick":
            return self.quick.rank(value, inclusive=inclusive)
        values, is_below, is_scalar = read_query_values(value, self.kind, inclusive)
        counts = np.zeros(len(values), dtype=np.int64)
        if self.is_scanned(mode):
            scan = self._scan_of((*self.runs, *self.chunks) if mode == "exact" else self.runs)
            counts[~is_below] = scan.count(list(values[~is_below]))
        elif fences := self.all_fences if mode == "exact" else self.fences:
            items = zip(values, is_below, strict=True)
            counts += np.array([0 if below else self._count(fences, value) for value, below in items], dtype=np.int64)
        has_open_step = mode == "accurate" and self.open_step.n
        low, high = self._fine_open_step().rank(value, inclusive=inclusive) if has_open_step else (0, 0)
        low, high = counts + low, counts + high
        return (int(low[0]), int(high[0])) if is_scalar else (low, high)

    def _measure(self, compute: Callable[[], list[HistoryAnswer]]) -> list[HistoryAnswer]:
        """Compute answers, with the number of requests they needed, and cache them."""
        with measure_requests() as counts:
            answers = compute()
        if counts.requests:
            answers = [replace(answer, requests=counts.requests) for answer in answers]
        for answer in answers if self.caches_answers else ():
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[answer.phi, answer.mode] = answer
        return answers

    @cached_property
    def _answers(self) -> dict[tuple[float, str], HistoryAnswer]:
        """Cache of answers; they never change, because the view does not."""
        return {}

    @cached_property
    def n(self) -> int:
        if self.key is None:
            return sum(run.rows for run in self.runs) + self.open_step.n
        return (self.fences.n if self.fences else 0) + self.open_step.n

    @property
    def quick(self) -> Summary:
        """Merged summary of everything; reads no data."""
        return self._cached_quick if self.caches_answers else self._merge_everything()

    @cached_property
    def _cached_quick(self) -> Summary:
        return self._merge_everything()

    def _merge_everything(self) -> Summary:
        history = self._merged(self.runs)
        return self.open_step if history is None else Summary.merge(history, self.open_step)

    @property
    def runs_nbytes(self) -> int:
        """Bytes of the summaries of runs in memory: one of each, or one of all where memory is limited."""
        if self.caches_answers and self.key is None:
            return sum(run.compressed_summary(self.profile).nbytes for run in self.runs)
        merged = self._merged(self.runs)
        return 0 if merged is None else merged.nbytes

    def _merged(self, runs: Sequence[Run]) -> Summary | None:
        """Return the merged summary of runs; None if they are empty."""
        return self.run_indexes.summary(runs, self.key, lambda: self._merge(runs))

    def _merge(self, runs: Sequence[Run]) -> Summary | None:
        if self.key is None and self.caches_answers:
            summaries = [run.compressed_summary(self.profile) for run in runs]
        else:  # not cached one by one
            summaries = [summary for run in runs if (summary := run.summary(self.key)) is not None]
        if not summaries:
            return None
        if self.merged_tuples is not None:
            return Summary.merge(*summaries).compress(self.merged_tuples - 1)
        if self.key is None:
            summaries = [compress_to(summary, self.profile) for summary in summaries]
        return Summary.merge(*summaries)

    def _has_many_segments(self, runs: Sequence[Run]) -> bool:
        if not self.keyed or self.key is not None:
            return False
        return sum(len(part.index.counts) for run in runs for part in run.parts) > MAX_SEGMENTS

    def _scan_of(self, runs: Sequence[Run]) -> ValueScan:
        def merge() -> Summary:
            summary = self._merged(runs)
            assert summary is not None  # there are many segments
            return summary

        return ValueScan(self.kind, self.blocks.files, runs, merge)

    @cached_property
    def fences(self) -> Fences | None:
        """Fences of the runs."""
        return self.run_indexes.fences(self.runs, self.key, lambda: self._fences_of(self.runs))

    @cached_property
    def all_fences(self) -> Fences:
        """Fences of the runs and of the chunks."""
        fences = self._fences_of((*self.runs, *self.chunks))
        assert fences is not None  # an empty span was refused before
        return fences

    def _fences_of(self, runs: Sequence[Run]) -> Fences | None:
        segments = self._segments(runs)
        return Fences(segments) if segments else None

    def _segments(self, runs: Sequence[Run]) -> list[RunSegment]:
        if not self.keyed:
            return [run.unkeyed_segment for run in runs]
        if self.key is None:
            return [segment for run in runs for segment in run.segments()]
        return [segment for run in runs if (segment := run.segment(self.key)) is not None]

    def _cut(
        self, fences: Fences, open_step: Summary | None, target: int, estimate: Estimate = "middle"
    ) -> tuple[RankCut, int]:
        """Return the cut at a rank and the number of file blocks read: small keys share one."""
        blocks: set[tuple[str, int]] = set()

        def read(wave: Sequence[tuple[RunSegment, int]]) -> list[NDArray[Any]]:
            blocks.update((segment.paths[segment.file[block]], int(segment.group[block])) for segment, block in wave)
            return self.blocks.read(wave)

        return cut(fences, open_step, target, read, estimate, self.blocks.reads_ahead), len(blocks)

    def _neighbours(self, *cuts: RankCut) -> Summary:
        """Return a summary of the history by the neighbours of cuts, whose ranks are exact."""
        value_by_rank: dict[int, Any] = {}
        for one in cuts:
            rank = int(one.before.sum())
            value_by_rank |= {rank: one.below, rank + 1: one.above}
        neighbours = sorted((rank, value) for rank, value in value_by_rank.items() if value is not None)
        ranks = np.array([rank for rank, _ in neighbours])
        values = np.array([value for _, value in neighbours], dtype=self.kind.carrier)
        return Summary(values, ranks, ranks, self.n - self.open_step.n, self.kind)

    def _count(self, fences: Fences, value: Any) -> int:
        """Return the number of rows of all segments <= value; read at most one block of each."""
        rows, reads = 0, []
        for segment in fences.segments:
            block = int(np.searchsorted(segment.fences, value, side="right")) - 1
            if value >= segment.last:
                rows += len(segment)
            elif block >= 0 and segment.constant[block]:
                rows += int(segment.starts[block + 1])
            elif block >= 0:
                rows += int(segment.starts[block])
                reads.append((segment, block))
        return rows + sum(int(np.searchsorted(values, value, side="right")) for values in self.blocks.read(reads))

    def _to_answer(self, summary: Summary, phi: float, mode: str, blocks_read: int) -> HistoryAnswer:
        a = summary.answer(phi)
        fields = (
            a.value,
            a.phi,
            a.target,
            a.rank_lo,
            a.rank_hi,
            a.n,
            a.error,
            a.n_lo,
            a.n_hi,
        )
        return HistoryAnswer(*fields, mode, blocks_read, self.open_step.n, self.last_steps, self.widened)

    def _check_not_empty(self) -> None:
        if self.n:
            return
        if self.key is not None:
            key = self.key[0] if len(self.key) == 1 else self.key
            raise UnknownKeyError(f"there is no value with the key {key!r} in this span")
        raise EmptyError("there are no values in this span yet; append() some first")


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        raise InvalidArgumentError(f"mode={mode!r} is not one of {', '.join(MODES)}")
