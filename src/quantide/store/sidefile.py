"""Side files: what is known about a data file without opening it. docs/store-format.md describes every byte.

A header in JSON, then arrays one after the other, each with a checksum of its own. The directory (keys, counts, first
values of blocks) is read when a store is opened; the summaries, which can be large where keys are many, are mapped
and looked at when a question needs them.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.store.rows import ALL, SortedRows, keys_from_bytes, keys_to_bytes
from quantide.store.sections import Sections, pack
from quantide.summary.format import Tuples, check_tuples
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

MAGIC = b"QTSF"
VERSION = 1


@dataclass(frozen=True)
class About:
    """Where the rows of a data file came from, and what the file must look like."""

    rows: int
    value_type: str
    block_rows: int
    data_size: int
    data_crc: int
    nulls: int = 0
    nans: int = 0
    sources: list[str] = field(default_factory=list)  # ids of batches, names of files


def build_side(rows: SortedRows, keyed: bool, about: About, run_eps: float, of: int | None) -> bytes:
    """The bytes of the side file of these rows."""
    held = rows.summarise(run_eps, None if keyed else of)
    tuples = held.tuples
    sections = {
        "counts": tuples.n.tobytes(),
        "fences": rows.values[:: about.block_rows].tobytes(),
        "bounds": tuples.bounds.tobytes(),
        "values": tuples.values.tobytes(),
        "ranks": tuples.rmin.tobytes(),
    }
    if keyed:
        sections["keys"] = keys_to_bytes(rows.keys)
        sections["total"] = held.total().compress(math.ceil(1 / (2 * run_eps))).to_bytes()
    return b"".join(pack(MAGIC, VERSION, about.__dict__, sections, ("values", "ranks")))


class SideFile:
    """A side file that was read."""

    def __init__(self, data: Any, name: str = "side file") -> None:
        mend = "remove it, and it is rebuilt from its data file"
        self._held = Sections(data, MAGIC, VERSION, name, "side file", mend)
        self.about = About(**self._held.about)
        self.kind: ValueType = type_named(self.about.value_type)
        self.keyed = "keys" in self._held
        self.counts = self._held.array("counts", np.dtype(np.int64))
        self.fences = self._held.array("fences", self.kind.carrier)
        self.keys = keys_from_bytes(self._held.section("keys")) if self.keyed else ALL
        self.first_rows = np.concatenate(([0], np.cumsum(self.counts)))
        blocks = -(-self.about.rows // self.about.block_rows)
        if self.first_rows[-1] != self.about.rows or len(self.keys) != len(self.counts) or len(self.fences) != blocks:
            raise self._held.damaged("its counts contradict each other")

    @cached_property
    def tuples(self) -> Tuples:
        """The summaries of all keys, as they lie in the file."""
        ranks = self._held.array("ranks", np.dtype(np.int64))
        none = np.zeros(len(self.counts), dtype=np.int64)
        bounds = self._held.array("bounds", np.dtype(np.int64))
        tuples = Tuples(
            self.kind, self._held.array("values", self.kind.carrier), ranks, ranks, bounds, self.counts, none, none
        )
        check_tuples(tuples)
        return tuples

    @cached_property
    def total(self) -> Summary:
        """A summary of all rows."""
        return Summary.from_bytes(bytes(self._held.section("total"))) if self.keyed else self.summary_of(0)

    def summary_of(self, place: int) -> Summary:
        """The summary of the key at that place; only what belongs to it is read, and checked."""
        start, end = self._bounds[place], self._bounds[place + 1]
        ranks = self._held.part("ranks", np.dtype(np.int64), start, end)
        values = self._held.part("values", self.kind.carrier, start, end)
        bounds, n, none = np.array([0, end - start]), self.counts[place : place + 1], np.zeros(1, dtype=np.int64)
        check_tuples(Tuples(self.kind, values, ranks, ranks, bounds, n, none, none))
        return Summary(values, ranks, ranks, int(n[0]), self.kind)

    def ends_of(self, place: int) -> tuple[Any, Any]:
        """The smallest and the largest value of the key at that place, carried."""
        start, end = self._bounds[place], self._bounds[place + 1]
        first, last = (self._held.part("values", self.kind.carrier, i, i + 1)[0] for i in (start, end - 1))
        return first, last

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        """Where the kept values of each key begin, and the end."""
        bounds = self._held.array("bounds", np.dtype(np.int64))
        if len(bounds) != len(self.counts) + 1 or bounds[0] != 0 or (np.diff(bounds) < 1).any():
            raise self._held.damaged("its bounds contradict its counts")
        return bounds

    def check(self) -> None:
        """Look at everything, also what opening leaves for later."""
        summaries = Summaries(self.keys, self.tuples)
        if self.total.n != self.about.rows or not (np.diff(summaries.offsets) > 0).all():
            raise self._held.damaged("its summaries contradict its counts")
        self._held.check(MAGIC, VERSION)

    @property
    def nbytes(self) -> int:
        """Memory of what is always held."""
        return int(self.counts.nbytes + self.fences.nbytes + self.first_rows.nbytes + self.keys.nbytes)
