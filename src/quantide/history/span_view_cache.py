"""Cache of span views and of the data they share, within a memory limit; and the summary of the open step."""

from collections.abc import Sequence
from threading import RLock
from typing import Any

from quantide.caching import ByteLRU
from quantide.history.key_columns import read_key
from quantide.history.run import BlockReader, Key, Run
from quantide.history.snapshot import Snapshot
from quantide.history.span_view import MAX_CHUNK_TUPLES, RunIndexCache, SpanView
from quantide.sketches.stream_sketch import StreamSketch
from quantide.store.storage import Storage
from quantide.store.store_settings import MERGED_BYTES, ErrorProfile, StoreSettings
from quantide.summary.ranks import check_size
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named

STEP_BYTES = 256 << 20  # default size of the cache of summaries by key
MAX_VIEWS = 64
MIN_BLOCK_BYTES = 2 << 20  # smallest cache of blocks in a store with limited memory


class OpenStep:
    """Cache of the open step's summary by key, None for all keys, updated with new chunks. Not thread-safe."""

    def __init__(
        self, profile: ErrorProfile, value_type: str, max_bytes: int | None = None, max_tuples: int | None = None
    ) -> None:
        self._profile, self._type = profile, value_type
        self._max_tuples = max_tuples
        self._cache = ByteLRU(STEP_BYTES if max_bytes is None else max_bytes)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes

    def summary(self, chunks: Sequence[Run], key: Key | None) -> Summary:
        """Return the summary of a key's values in these chunks; the same chunks always give the same summary."""
        accumulator: _SummaryAccumulator | None = self._cache.pop(None, key)
        ids = [chunk.identity for chunk in chunks]
        if accumulator is None or ids[: len(accumulator.chunk_ids)] != accumulator.chunk_ids:
            accumulator = _SummaryAccumulator(self._profile, self._type, self._max_tuples)
        for chunk in chunks[len(accumulator.chunk_ids) :]:
            summary = chunk.summary(key)
            if summary is not None:
                accumulator.add(summary)
            accumulator.chunk_ids.append(chunk.identity)  # one by one: no chunk before a damaged one counts twice
        merged = accumulator.summary()
        self._cache.put(None, key, accumulator, accumulator.nbytes)
        return merged

    def empty(self) -> Summary:
        """Return the summary of a step without values."""
        return _SummaryAccumulator(self._profile, self._type, self._max_tuples).summary()


class _SummaryAccumulator:
    """Accumulates chunk summaries: as they are while they are small, which costs no accuracy; then in a sketch.

    With a limit of tuples they are merged and compressed to it, until the error is eps/2, which a sketch accepts.
    """

    def __init__(self, profile: ErrorProfile, value_type: str, max_tuples: int | None) -> None:
        self._sketch = StreamSketch(profile.eps, value_type=value_type, tail=profile.tail)
        self._summaries: list[Summary] = []
        self._limit, self._eps = max_tuples, profile.eps
        self.chunk_ids: list[tuple[Any, ...]] = []  # identities

    def add(self, summary: Summary) -> None:
        self._summaries.append(summary)
        if self._sketch.n or not self._fits():
            summaries, self._summaries = self._summaries, []
            for one in summaries:
                self._sketch.update_summary(one)

    def _fits(self) -> bool:
        """Return True if the summaries need no sketch; merge them if their tuples are limited."""
        if self._limit is None:
            return sum(map(len, self._summaries)) <= MAX_CHUNK_TUPLES / self._eps
        merged = Summary.merge(*self._summaries).compress(self._limit - 1)
        if merged.error > self._eps / 2:
            return False
        self._summaries = [merged]
        return True

    def summary(self) -> Summary:
        return Summary.merge(*self._summaries) if self._summaries else self._sketch.summary()

    @property
    def nbytes(self) -> int:
        return self._sketch.nbytes + sum(summary.nbytes for summary in self._summaries)


class SpanViewCache:
    """LRU cache of span views of snapshots. Thread-safe."""

    def __init__(self, settings: StoreSettings, storage: Storage, memory: int | None) -> None:
        self._settings, self._kind = settings, type_named(settings.value_type)
        limit = settings.memory if memory is None else None  # that of the store
        self._is_limited = limit is not None
        if limit is None:
            blocks = step = runs = None if memory is None else memory // 3
        else:  # for summaries: answers and more than one view are not cached, and blocks only if several fit
            blocks, step, runs = limit // 8 if limit // 8 >= MIN_BLOCK_BYTES else 0, limit * 3 // 8, limit // 2
        self.blocks = BlockReader(self._kind, storage, blocks)
        tuples = None if limit is None else max(2, limit // 4 // MERGED_BYTES)
        self.open_step = OpenStep(settings.profile, settings.value_type, step, tuples)
        self._run_indexes = RunIndexCache(runs)
        self._views = ByteLRU(None, 1 if self._is_limited else MAX_VIEWS)
        self._lock = RLock()

    @property
    def nbytes(self) -> int:
        return sum(self.nbytes_by_use.values())

    @property
    def nbytes_by_use(self) -> dict[str, int]:
        """Bytes of the caches of blocks, of the open step, and of summaries and fences of runs."""
        return {"blocks": self.blocks.nbytes, "open_step": self.open_step.nbytes, "runs": self._run_indexes.nbytes}

    def of_last_steps(
        self, snapshot: Snapshot, last_steps: int | None, key: Any, widen: bool, cached: bool = True
    ) -> SpanView:
        """Return the view of the last steps and the open one, or of everything for None; cache it if `cached`."""
        steps = None if last_steps is None else check_size("last_steps", last_steps, 0)
        parsed = self._read_key(key, snapshot)
        runs, covered = snapshot.last_runs(steps, widen)
        if self._settings.retention is not None and runs:  # dropped steps are not covered
            covered = min(covered, snapshot.step - runs[0].id.first)
        covered = min(covered, snapshot.step - snapshot.first_step)
        widened = steps is not None and covered > steps
        if not cached:
            with self._lock:
                return self._build(runs, snapshot.chunks, parsed, covered, widened)
        cache_key = (snapshot.version, covered, widened, parsed)
        return self._get(cache_key, runs, snapshot.chunks, parsed, covered, widened)

    def of_steps(self, snapshot: Snapshot, first: int, last: int, key: Any) -> SpanView:
        """Return the view of ended steps first to last, without the open one."""
        first, last = check_size("the first step", first, 1), check_size("the last step", last, 1)
        parsed = self._read_key(key, snapshot)
        runs = snapshot.runs_between(first, last)
        return self._get((snapshot.version, first, last, parsed), runs, (), parsed, last - first + 1, False)

    def clear(self) -> None:
        """Close all files and drop all views, which may need files that were vacuumed."""
        with self._lock:
            self.blocks.clear()
            self._views.clear()

    def _read_key(self, key: Any, snapshot: Snapshot) -> Key | None:
        return None if key is None else read_key(key, self._settings.keys, snapshot.key_types)

    def _get(
        self,
        name: Any,
        runs: tuple[Run, ...],
        chunks: tuple[Run, ...],
        key: Key | None,
        covered: int,
        widened: bool,
    ) -> SpanView:
        with self._lock:
            return self._views.get(None, name, lambda: self._build(runs, chunks, key, covered, widened), lambda _: 0)

    def _build(
        self, runs: tuple[Run, ...], chunks: tuple[Run, ...], key: Key | None, covered: int, widened: bool
    ) -> SpanView:
        """Build a view. The caller has the lock, because the open step's summary is updated in place."""
        open_step = self.open_step.summary(chunks, key) if chunks else self.open_step.empty()
        settings, fine = self._settings, int(MAX_CHUNK_TUPLES / self._settings.eps) if self._is_limited else 0
        caches = (self.blocks, self._run_indexes, settings.quick_profile, settings.merged_tuples, not self._is_limited)
        keys = bool(settings.keys), key
        return SpanView(self._kind, *caches, runs, chunks, open_step, fine, *keys, covered, widened)
