"""Blocks of segments, read from disk or from the few that were read last."""

from collections import OrderedDict
from threading import Lock
from typing import Any

from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.history.segment import Segment
from quantide.store.datafile import DataFiles
from quantide.store.place import Place
from quantide.summary.types import ValueType

KEPT = 64 << 20  # bytes


class Blocks:
    """Reads blocks. Safe to use from several threads."""

    def __init__(self, kind: ValueType, place: Place, most: int | None = None) -> None:
        self._most = KEPT if most is None else most
        self.files = DataFiles(kind, place)
        self._kept: OrderedDict[tuple[str, int], NDArray[Any]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def read(self, segment: Segment, block: int) -> NDArray[Any]:
        """The values of a block of a segment."""
        length = int(segment.starts[block + 1] - segment.starts[block])
        skip = int(segment.skip[block])
        path, group = segment.paths[segment.file[block]], int(segment.group[block])
        held = self._group(path, group)[skip : skip + length]
        following = segment.fences[block + 1] if block + 1 < len(segment.fences) else segment.last
        # Pages have checksums, but what says where they lie and how to read them has none.
        if (
            len(held) != length
            or held[0] != segment.fences[block]
            or held[-1] > following
            or (held[1:] < held[:-1]).any()
        ):
            raise CorruptBytesError(f"{path} is damaged: block {group} is not what the side file tells")
        return held

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._size = 0
        self.files.forget()

    @property
    def nbytes(self) -> int:
        return self._size

    def _group(self, path: str, group: int) -> NDArray[Any]:
        with self._lock:
            found = self._kept.get((path, group))
            if found is not None:
                self._kept.move_to_end((path, group))
                return found
        found = self.files.values(path, [group])
        with self._lock:
            if (path, group) not in self._kept:
                self._kept[path, group] = found
                self._size += found.nbytes
            while self._size > self._most:
                self._size -= self._kept.popitem(last=False)[1].nbytes
        return found
