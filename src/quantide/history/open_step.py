"""Summary of the open step: its chunks' summaries merged, within eps for any number of chunks."""

from collections.abc import Sequence

from quantide.caching import ByteLRU
from quantide.history.run import Key, Run
from quantide.sketches.stream_sketch import StreamSketch
from quantide.store.file_names import RunId
from quantide.summary.summary import Summary

STEP_BYTES = 256 << 20  # default size of the cache of summaries by key
MAX_TUPLES = 32  # times 1/eps: chunks with more tuples than that are summarised by a sketch


class OpenStep:
    """Cache of the open step's summary by key, None for all keys, updated with new chunks. Not thread-safe."""

    def __init__(self, eps: float, value_type: str, max_bytes: int | None = None) -> None:
        self._eps, self._type = eps, value_type
        self._cache = ByteLRU(STEP_BYTES if max_bytes is None else max_bytes)

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes

    def summary(self, chunks: Sequence[Run], key: Key | None) -> Summary:
        """Return the summary of a key's values in these chunks; the same chunks always give the same summary."""
        accumulator: _SummaryAccumulator | None = self._cache.pop(None, key)
        ids = [chunk.id for chunk in chunks]
        if accumulator is None or ids[: len(accumulator.chunk_ids)] != accumulator.chunk_ids:
            accumulator = _SummaryAccumulator(self._eps, self._type)
        for chunk in chunks[len(accumulator.chunk_ids) :]:
            summary = chunk.summary(key)
            if summary is not None:
                accumulator.add(summary)
            accumulator.chunk_ids.append(
                chunk.id
            )  # one by one: after a damaged chunk those before it must not count twice
        merged = accumulator.summary()
        self._cache.put(None, key, accumulator, accumulator.nbytes)
        return merged

    def empty(self) -> Summary:
        """Return the summary of a step without values."""
        return StreamSketch(self._eps, value_type=self._type).summary()


class _SummaryAccumulator:
    """Accumulates chunk summaries: as they are while they are small, which costs no accuracy; then in a sketch."""

    def __init__(self, eps: float, value_type: str) -> None:
        self._sketch = StreamSketch(eps, value_type=value_type)
        self._summaries: list[Summary] = []
        self._max_tuples = MAX_TUPLES / eps
        self.chunk_ids: list[RunId] = []

    def add(self, summary: Summary) -> None:
        self._summaries.append(summary)
        if self._sketch.n or sum(map(len, self._summaries)) > self._max_tuples:
            summaries, self._summaries = self._summaries, []
            for one in summaries:
                self._sketch.update_summary(one)

    def summary(self) -> Summary:
        return Summary.merge(*self._summaries) if self._summaries else self._sketch.summary()

    @property
    def nbytes(self) -> int:
        return self._sketch.nbytes + sum(summary.nbytes for summary in self._summaries)
