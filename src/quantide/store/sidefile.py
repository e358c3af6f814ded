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

from quantide.store.datafile import MOST_BLOCK
from quantide.store.fields import Fields, Read, integer, sequence, text
from quantide.store.rows import ALL, SortedRows, keys_from_bytes, keys_to_bytes, read_type, values_check
from quantide.store.sections import Sections, pack
from quantide.summary.format import Tuples, are_of, check_tuples
from quantide.summary.ranks import MAX_N
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType

MAGIC = b"QTSF"
VERSION = 1
PAGED = ("values", "ranks")
INT = np.dtype(np.int64)


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

    @classmethod
    def read(cls, found: Any) -> "About":
        """Check what a header says."""
        reads: dict[str, Read[Any]] = {
            "rows": integer(1, MAX_N),
            "value_type": text,
            "block_rows": integer(1, MOST_BLOCK),
            "data_size": integer(),
            "data_crc": integer(0, 2**32 - 1),
            "nulls": integer(0, MAX_N),
            "nans": integer(0, MAX_N),
            "sources": lambda found: list(sequence(text)(found)),
        }
        return cls(**Fields(found).take_all(reads, ("nulls", "nans", "sources")))


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
    return b"".join(pack(MAGIC, VERSION, about.__dict__, sections, PAGED))


class SideFile:
    """A side file that was read. Every number in it is checked before it is used as a length or a place."""

    def __init__(self, data: Any, name: str = "side file") -> None:
        mend = "remove it, and it is rebuilt from its data file"
        self._held = held = Sections(data, MAGIC, VERSION, name, "side file", mend, PAGED)
        self.about = held.parse(lambda: About.read(held.about))
        self.kind: ValueType = held.parse(lambda: read_type(self.about.value_type))
        held.page_checks = {"values": values_check(self.kind)}
        self.keyed = "keys" in held
        self.keys = held.parse(lambda: keys_from_bytes(held.section("keys"))) if self.keyed else ALL
        self.counts = held.array("counts", INT, len(self.keys))
        self.fences = held.array("fences", self.kind.carrier, -(-self.about.rows // self.about.block_rows))
        self.first_rows = np.concatenate(([0], np.cumsum(self.counts)))
        rises = (self.counts > 0).all() and (self.first_rows[1:] > self.first_rows[:-1]).all()  # sums can overflow
        if not rises or self.first_rows[-1] != self.about.rows:
            raise held.damaged("its counts contradict each other")
        if not are_of(self.fences, self.kind):
            raise held.damaged(f"a first value of a block is not a {self.kind}")

    def check_belongs(self, value_type: str, key_type: Any) -> None:
        """Refuse the side file of another store; `key_type` is None for a store without keys."""
        if self.kind.name != value_type or (self.keys.type if self.keyed else None) != key_type:
            raise self._held.damaged(f"it is not about values of {value_type} with keys of {key_type}")

    @cached_property
    def tuples(self) -> Tuples:
        """The summaries of all keys, as they lie in the file."""
        kept = int(self._bounds[-1])
        ranks = self._held.array("ranks", INT, kept)
        none = np.zeros(len(self.counts), dtype=np.int64)
        values = self._held.array("values", self.kind.carrier, kept)
        return self._checked(Tuples(self.kind, values, ranks, ranks, self._bounds, self.counts, none, none))

    @cached_property
    def total(self) -> Summary:
        """A summary of all rows."""
        if not self.keyed:
            return self.summary_of(0)
        found = self._held.parse(lambda: Summary.from_bytes(bytes(self._held.section("total"))))
        if found.n != self.about.rows or found.type != self.kind:
            raise self._held.damaged("its total contradicts its counts")
        return found

    def summary_of(self, place: int) -> Summary:
        """The summary of the key at that place; only what belongs to it is read, and checked."""
        start, end = self._bounds[place], self._bounds[place + 1]
        ranks = self._held.part("ranks", INT, start, end)
        values = self._held.part("values", self.kind.carrier, start, end)
        bounds, n, none = np.array([0, end - start]), self.counts[place : place + 1], np.zeros(1, dtype=np.int64)
        self._checked(Tuples(self.kind, values, ranks, ranks, bounds, n, none, none))
        return Summary(values, ranks, ranks, int(n[0]), self.kind)

    def ends_of(self, place: int) -> tuple[Any, Any]:
        """The smallest and the largest value of the key at that place, carried."""
        start, end = self._bounds[place], self._bounds[place + 1]
        first, last = (self._held.part("values", self.kind.carrier, i, i + 1)[0] for i in (start, end - 1))
        return first, last

    def fences_of(self, place: int) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
        """The blocks that a key has rows in, its first value in each, and its last value: all in order."""
        size, start, end = self.about.block_rows, int(self.first_rows[place]), int(self.first_rows[place + 1])
        blocks = np.arange(start // size, (end - 1) // size + 1)
        first, last = self.ends_of(place)
        fences = self.fences[blocks].copy()
        fences[0] = first  # the block may begin with another key
        if not (fences[1:] >= fences[:-1]).all() or not fences[-1] <= last:
            raise self._held.damaged("the first values of its blocks are not in order")
        return blocks, fences, last

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        """Where the kept values of each key begin, and the end."""
        bounds = self._held.array("bounds", INT, len(self.counts) + 1)
        if bounds[0] != 0 or not (bounds[1:] > bounds[:-1]).all():
            raise self._held.damaged("its bounds contradict its counts")
        for name, kind in (("values", self.kind.carrier), ("ranks", INT)):
            self._held.check_length(name, kind, int(bounds[-1]))
        return bounds

    def _checked(self, tuples: Tuples) -> Tuples:
        def check() -> Tuples:
            check_tuples(tuples)
            return tuples

        return self._held.parse(check)

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
