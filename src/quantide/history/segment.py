"""Segments: the rows of one key in one run, sorted, lying in blocks whose first values are known."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Segment:
    """Block b holds rows starts[b]:starts[b+1] of the segment; fences[b] is its first value, `last` the last of all.

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
        """How many rows there are."""
        return int(self.starts[-1])

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Blocks that hold one value only, as the fence after them tells: they need not be read."""
        same: NDArray[np.bool_] = np.append(self.fences[1:], self.last) == self.fences
        return same

    @staticmethod
    def joined(parts: list["Segment"]) -> "Segment":
        """Segments that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        paths = tuple(dict.fromkeys(path for part in parts for path in part.paths))
        number = {path: i for i, path in enumerate(paths)}
        return Segment(
            np.concatenate([part.fences for part in parts]),
            np.concatenate([*(part.starts[:-1] + at for part, at in zip(parts, offsets, strict=False)), offsets[-1:]]),
            parts[-1].last,
            paths,
            np.concatenate([np.array([number[path] for path in part.paths])[part.file] for part in parts]),
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.skip for part in parts]),
        )
