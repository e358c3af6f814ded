"""Side files: what is known about a data file without opening it. docs/store-format.md describes every byte.

A header in JSON, then arrays one after the other, each with a checksum of its own. The directory (keys, counts, first
values of blocks) is read when a store is opened; the summaries, which can be large where keys are many, are mapped
and looked at when a question needs them.
"""

import json
import math
import struct
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.store.rows import ALL, SortedRows
from quantide.summary.format import Tuples, check_tuples
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

MAGIC = b"QTSF"
VERSION = 1
HEAD = struct.Struct("<4sBxxxII")  # magic, version, length of the header, checksum of the header
ALIGNED = 8


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
        sections["keys"] = _to_ipc(rows.keys)
        sections["total"] = held.total().compress(math.ceil(1 / (2 * run_eps))).to_bytes()
    return _pack(about, sections)


class SideFile:
    """A side file that was read."""

    def __init__(self, data: Any, name: str = "side file") -> None:
        self._name, self._data = name, memoryview(data)
        try:
            magic, version, length, crc = HEAD.unpack_from(self._data)
            header = bytes(self._data[HEAD.size : HEAD.size + length])
        except struct.error as error:
            raise self._damaged("it is cut short") from error
        if magic != MAGIC or len(header) != length or zlib.crc32(header) != crc:
            raise self._damaged("its header is not that of a side file")
        if version != VERSION:
            raise CorruptBytesError(f"{name}: a side file of version {version}; this Quantide reads version {VERSION}")
        content = json.loads(header)
        self._places: dict[str, list[int]] = content["sections"]
        self.about = About(**content["about"])
        self.kind: ValueType = type_named(self.about.value_type)
        self._begin = HEAD.size + length + -(HEAD.size + length) % ALIGNED
        self.keyed = "keys" in self._places
        self.counts = self._array("counts", np.dtype(np.int64))
        self.fences = self._array("fences", self.kind.carrier)
        self.keys = _from_ipc(self._section("keys")) if self.keyed else ALL
        self.first_rows = np.concatenate(([0], np.cumsum(self.counts)))
        blocks = -(-self.about.rows // self.about.block_rows)
        if self.first_rows[-1] != self.about.rows or len(self.keys) != len(self.counts) or len(self.fences) != blocks:
            raise self._damaged("its counts contradict each other")

    @cached_property
    def tuples(self) -> Tuples:
        """The summaries of all keys, as they lie in the file."""
        ranks = self._array("ranks", np.dtype(np.int64))
        none = np.zeros(len(self.counts), dtype=np.int64)
        bounds = self._array("bounds", np.dtype(np.int64))
        tuples = Tuples(
            self.kind, self._array("values", self.kind.carrier), ranks, ranks, bounds, self.counts, none, none
        )
        check_tuples(tuples)
        return tuples

    @cached_property
    def total(self) -> Summary:
        """A summary of all rows."""
        return Summary.from_bytes(bytes(self._section("total"))) if self.keyed else self.summary_of(0)

    def summary_of(self, place: int) -> Summary:
        """The summary of the key at that place."""
        t, part = self.tuples, slice(self.tuples.bounds[place], self.tuples.bounds[place + 1])
        return Summary(t.values[part], t.rmin[part], t.rmax[part], int(self.counts[place]), self.kind)

    def ends_of(self, place: int) -> tuple[Any, Any]:
        """The smallest and the largest value of the key at that place, carried."""
        t = self.tuples
        return t.values[t.bounds[place]], t.values[t.bounds[place + 1] - 1]

    def check(self) -> None:
        """Look at everything, also what opening leaves for later."""
        summaries = Summaries(self.keys, self.tuples)
        if self.total.n != self.about.rows or not (np.diff(summaries.offsets) > 0).all():
            raise self._damaged("its summaries contradict its counts")
        sections = sorted(self._places, key=lambda name: self._places[name][0])
        if _pack(self.about, {name: bytes(self._section(name)) for name in sections}) != self._data:
            raise self._damaged("there are bytes between its sections")

    @property
    def nbytes(self) -> int:
        """Memory of what is always held."""
        return int(self.counts.nbytes + self.fences.nbytes + self.first_rows.nbytes + self.keys.nbytes)

    def _array(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.frombuffer(self._section(name), dtype=dtype)

    def _section(self, name: str) -> memoryview:
        try:
            start, size, crc = self._places[name]
        except (KeyError, ValueError) as error:
            raise self._damaged(f"it has no {name}") from error
        found = self._data[self._begin + start : self._begin + start + size]
        if len(found) != size or zlib.crc32(found) != crc:
            raise self._damaged(f"the checksum of its {name} does not match")
        return found

    def _damaged(self, why: str) -> CorruptBytesError:
        return CorruptBytesError(f"{self._name} is damaged: {why}; remove it, and it is rebuilt from its data file")


def _pack(about: About, sections: dict[str, bytes]) -> bytes:
    places, body = {}, bytearray()
    for name, data in sections.items():
        places[name] = [len(body), len(data), zlib.crc32(data)]
        body += data + bytes(-len(data) % ALIGNED)
    header = json.dumps({"about": about.__dict__, "sections": places}, sort_keys=True).encode()
    start = HEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header)) + header
    return start + bytes(-len(start) % ALIGNED) + bytes(body)


def _to_ipc(keys: pa.Array) -> bytes:
    batch = pa.record_batch([keys], ["key"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _from_ipc(data: memoryview) -> pa.Array:
    batches = list(pa.ipc.open_stream(pa.py_buffer(data)))
    return batches[0].column(0)
