"""The open step as a summary: its chunks' summaries, merged within eps however many there are."""

from collections import OrderedDict
from collections.abc import Sequence

from quantide.history.run import Key, Run
from quantide.sketches.stream import StreamSketch
from quantide.store.names import RunId
from quantide.summary.summary import Summary

KEPT = 256 << 20  # bytes of summaries that are kept, of the keys that were asked about last
FEW = 32  # tuples, times 1/eps, up to which the summaries of chunks are merged as they are


class OpenStep:
    """Summaries of the open step by key, None for all of it, fed with chunks as they come."""

    def __init__(self, eps: float, value_type: str, most: int | None = None) -> None:
        self._eps, self._type = eps, value_type
        self._most = KEPT if most is None else most
        self._kept: OrderedDict[Key | None, tuple[_Fed, int]] = OrderedDict()
        self.nbytes = 0

    def summary(self, chunks: Sequence[Run], key: Key | None) -> Summary:
        """The summary of a key's values in these chunks; the same chunks always give the same one."""
        fed, size = self._kept.pop(key, (None, 0))
        self.nbytes -= size
        ids = [chunk.id for chunk in chunks]
        if fed is None or ids[: len(fed.seen)] != fed.seen:
            fed = _Fed(self._eps, self._type)
        for chunk in chunks[len(fed.seen) :]:
            own = chunk.summary(key)
            if own is not None:
                fed.add(own)
            fed.seen.append(chunk.id)  # one by one: a damaged chunk must not count those before it twice
        found = fed.summary()
        self._kept[key] = fed, fed.nbytes
        self.nbytes += fed.nbytes
        while self.nbytes > self._most and len(self._kept) > 1:
            self.nbytes -= self._kept.popitem(last=False)[1][1]
        return found

    def nothing(self) -> Summary:
        """The summary of a step without values."""
        return StreamSketch(self._eps, value_type=self._type).summary()


class _Fed:
    """What chunks told: few summaries as they are, which costs no accuracy; many in a sketch, however many."""

    def __init__(self, eps: float, value_type: str) -> None:
        self._sketch = StreamSketch(eps, value_type=value_type)
        self._few: list[Summary] = []
        self._most = FEW / eps
        self.seen: list[RunId] = []

    def add(self, summary: Summary) -> None:
        self._few.append(summary)
        if self._sketch.n or sum(map(len, self._few)) > self._most:
            few, self._few = self._few, []
            for held in few:
                self._sketch.update_summary(held)

    def summary(self) -> Summary:
        return Summary.merge(*self._few) if self._few else self._sketch.summary()

    @property
    def nbytes(self) -> int:
        return self._sketch.nbytes + sum(held.nbytes for held in self._few)
