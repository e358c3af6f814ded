"""The open step as a summary: its chunks' summaries, merged within eps however many there are."""

from collections import OrderedDict
from collections.abc import Sequence

from quantide.history.run import Key, Run
from quantide.sketches.stream import StreamSketch
from quantide.store.names import RunId
from quantide.summary.summary import Summary

KEPT = 1024  # keys whose sketches are kept


class OpenStep:
    """Sketches of the open step by key, None for all of it, fed with chunks as they come."""

    def __init__(self, eps: float, value_type: str) -> None:
        self._eps, self._type = eps, value_type
        self._kept: OrderedDict[Key | None, tuple[StreamSketch, list[RunId]]] = OrderedDict()

    def summary(self, chunks: Sequence[Run], key: Key | None) -> Summary:
        """The summary of a key's values in these chunks; the same chunks always give the same one."""
        sketch, seen = self._kept.get(key, (StreamSketch(self._eps, value_type=self._type), []))
        ids = [chunk.id for chunk in chunks]
        if ids[: len(seen)] != seen:
            sketch, seen = StreamSketch(self._eps, value_type=self._type), []
        for chunk in chunks[len(seen) :]:
            found = chunk.summary(key)
            if found is not None:
                sketch.update_summary(found)
        self._kept[key] = (sketch, ids)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return sketch.summary()

    def nothing(self) -> Summary:
        """The summary of a step without values."""
        return StreamSketch(self._eps, value_type=self._type).summary()

    @property
    def nbytes(self) -> int:
        return sum(sketch.nbytes for sketch, _ in self._kept.values())
