"""Singles: values that come one by one wait until there are many, or until something is asked."""

from abc import abstractmethod
from array import array
from typing import Any

import numpy as np

from quantide.sketches.intake import Intake
from quantide.summary.column import Column
from quantide.summary.ranks import MAX_N

SINGLES = 4096  # values taken one by one that wait until they are taken together
ONE_BY_ONE = {  # Python types that are of a value type as they are, and the array code that holds them
    "float64": (frozenset((float, np.float64)), "d"),
    "int64": (frozenset((int, np.int64)), "q"),
    "float32": (frozenset((np.float32,)), "f"),
}


class Singles(Intake):
    """Takes plain values of the held type quickly, one by one."""

    def __init__(self, eps: float, nan: str = "refuse", value_type: str | None = None) -> None:
        super().__init__(eps, nan, value_type)
        self._single_types: frozenset[type] = frozenset()
        self._singles: array[Any] = array("d")

    def _wait(self, value: Any) -> bool:
        """Let one value wait for others to be taken with; False when it is not a plain value of the held type."""
        if type(value) not in self._single_types or value != value:
            return False
        try:
            self._singles.append(value)
        except OverflowError:  # an int beyond 64 bits
            return False
        if len(self._singles) >= SINGLES:
            self._join_singles()
        return True

    def _expect_singles(self) -> None:
        """To be called when the type or the count has changed; near the largest count, values are taken at once."""
        types, code = ONE_BY_ONE.get(self._type.name if self._type else "", (frozenset(), "d"))
        self._single_types = types if self.arrived <= MAX_N - SINGLES else frozenset()
        self._singles = array(code)

    def _join_singles(self) -> None:
        """Take the values that came one by one."""
        if self._singles:
            waiting, self._singles = self._singles, array(self._singles.typecode)
            self.take_column(Column(self._type, [np.frombuffer(waiting, dtype=self._kind().carrier)]))
            if self.arrived > MAX_N - SINGLES:
                self._single_types = frozenset()

    @abstractmethod
    def take_column(self, column: Column) -> None:
        """Take values that were read already, of the held type and without NaN; for Quantide's own use."""
