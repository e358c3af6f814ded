"""Run: values in the order they came, in an array that grows as they come and shrinks from its start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

RUN = 1 << 16  # values that are held as one array


class Run:
    """Consecutive values, from `first` to `end` of an array that grows by doubling, up to `most`."""

    __slots__ = ("array", "end", "first", "most")

    def __init__(self, dtype: np.dtype[Any], most: int = RUN) -> None:
        self.array, self.first, self.end, self.most = np.empty(0, dtype), 0, 0, most

    @property
    def n(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def values(self) -> Array:
        return self.array[self.first : self.end]

    def extend(self, values: Array) -> None:
        """Take values, for which there must be room."""
        size = self.end + len(values)
        if size > len(self.array):
            larger = np.empty(min(self.most, max(64, 1 << (size - 1).bit_length())), self.array.dtype)
            larger[: self.end] = self.array[: self.end]
            self.array = larger
        self.array[self.end : size] = values
        self.end = size
