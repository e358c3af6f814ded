"""Segments: sorted rows of one key in one run, in blocks whose first values are in memory; and the reader of blocks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.caching import ByteLRU
from quantide.errors import CorruptBytesError
from quantide.store.data_file import DataFiles
from quantide.store.location import Location
from quantide.summary.value_types import ValueType
from quantide.typing import Ints

MAX_BYTES = 64 << 20  # default size of the cache of blocks


@dataclass(frozen=True)
class RunSegment:
    """Segment; block b has rows starts[b]:starts[b+1], fences[b] is its first value, `last` the last value of all.

    A block is read from row group group[b] of paths[file[b]], from its row skip[b] on.
    """

    fences: NDArray[Any]
    starts: Ints
    last: Any
    paths: tuple[str, ...]
    file: Ints
    group: Ints
    skip: Ints

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """True for blocks with one distinct value, as the next fence shows: they are not read."""
        is_constant: NDArray[np.bool_] = np.append(self.fences[1:], self.last) == self.fences
        return is_constant

    @staticmethod
    def concat(parts: list["RunSegment"]) -> "RunSegment":
        """Concatenate consecutive segments."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        paths = tuple(dict.fromkeys(path for part in parts for path in part.paths))
        number = {path: i for i, path in enumerate(paths)}
        return RunSegment(
            np.concatenate([part.fences for part in parts]),
            np.concatenate([*(part.starts[:-1] + at for part, at in zip(parts, offsets, strict=False)), offsets[-1:]]),
            parts[-1].last,
            paths,
            np.concatenate([np.array([number[path] for path in part.paths])[part.file] for part in parts]),
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.skip for part in parts]),
        )


class BlockReader:
    """Reads blocks, with a byte-bounded LRU cache. Thread-safe."""

    def __init__(self, kind: ValueType, place: Location, max_bytes: int | None = None) -> None:
        self.files = DataFiles(kind, place)
        self._cache = ByteLRU(MAX_BYTES if max_bytes is None else max_bytes)

    def read(self, segment: RunSegment, block: int) -> NDArray[Any]:
        """Return the values of a block of a segment."""
        length = int(segment.starts[block + 1] - segment.starts[block])
        skip = int(segment.skip[block])
        path, group = segment.paths[segment.file[block]], int(segment.group[block])
        values = self._group(path, group)[skip : skip + length]
        following = segment.fences[block + 1] if block + 1 < len(segment.fences) else segment.last
        # Pages have checksums; their offsets and encodings in the footer have none.
        if (
            len(values) != length
            or values[0] != segment.fences[block]
            or values[-1] > following
            or (values[1:] < values[:-1]).any()
        ):
            raise CorruptBytesError(f"{path} is damaged: block {group} differs from the side file")
        return values

    def clear(self) -> None:
        self._cache.clear()
        self.files.close()

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes

    def _group(self, path: str, group: int) -> NDArray[Any]:
        return self._cache.get(path, group, lambda: self.files.read_blocks(path, [group]), lambda values: values.nbytes)
