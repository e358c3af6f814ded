"""Tuples of many summaries as flat arrays, and their canonical, checksummed bytes (docs/format.md)."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quantide.errors import CorruptBytesError, TypeMismatchError
from quantide.kernels import tuple_encoding
from quantide.kernels.error_profile import find_slopes
from quantide.kernels.jit import freeze
from quantide.kernels.key_segments import permute_segments
from quantide.summary.key_encoding import combine_chunks
from quantide.summary.ranks import MAX_N
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array, Bytes, Floats, Ints, Words

MAGIC = b"QTS"
VERSION = 1
SIGN64 = np.int64(-(1 << 63))
SIGN32 = np.int32(-(1 << 31))

FAULTS = {
    tuple_encoding.TRUNCATED: "they end too early or too late",
    tuple_encoding.CHECKSUM: "the checksum does not match",
    tuple_encoding.HEADER: "the header is not that of a summary of this type",
    tuple_encoding.COUNTS: "the counts contradict each other",
    tuple_encoding.RANKS: "values or ranks are out of order",
}


@dataclass(frozen=True)
class SummaryTuples:
    """Tuples of any number of summaries as flat arrays; summary s is bounds[s]:bounds[s+1]."""

    type: ValueType
    values: Array
    rmin: Ints
    rmax: Ints
    bounds: Ints
    n: Ints
    nulls: Ints
    nans: Ints

    @classmethod
    def concatenate(cls, parts: list[Self], kind: ValueType) -> Self:
        """Return the summaries of all parts, one part after the other."""
        shifts = np.cumsum([0] + [len(t.rmin) for t in parts])
        bounds = [t.bounds[:-1] + shift for t, shift in zip(parts, shifts, strict=False)]
        bounds.append(shifts[-1:])
        names = ("rmin", "rmax", "n", "nulls", "nans")
        flat = {name: np.concatenate([getattr(t, name) for t in parts]) for name in names}
        values = np.concatenate([t.values.astype(kind.carrier, copy=False) for t in parts])
        return cls(type=kind, values=values, bounds=np.concatenate(bounds), **flat)

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.values, self.rmin, self.rmax, self.bounds, self.n, self.nulls, self.nans

    @property
    def nbytes(self) -> int:
        """Memory of the arrays; an array that is used twice counts once."""
        return sum({id(array): array.nbytes for array in self.arrays}.values())

    @property
    def error(self) -> Floats:
        """Certified error of each summary, as a fraction of its n."""
        some = self.n > 0
        first, last = self.bounds[:-1][some], self.bounds[1:][some] - 1
        gaps = np.empty(len(self.rmin), dtype=np.int64)
        gaps[1:] = np.where(self.values[1:] != self.values[:-1], self.rmax[1:] - self.rmin[:-1], 1)
        gaps[first] = 1
        halves = np.maximum.reduceat(gaps, first) // 2 if len(first) else first
        ranks = np.maximum(np.maximum(self.rmax[first] - 1, self.n[some] - self.rmin[last]), halves)
        error = np.zeros(len(self.n))
        error[some] = ranks / self.n[some]
        return error

    @property
    def has_wide_ties(self) -> bool:
        """Return True if tuples of one value, in one summary, are further apart than its error counts."""
        inner = np.ones(len(self.rmin) + 1, dtype=bool)
        inner[self.bounds] = False
        ties = 1 + np.flatnonzero((self.values[1:] == self.values[:-1]) & inner[1:-1])
        if not len(ties):
            return False
        summary = np.searchsorted(self.bounds, ties, side="right") - 1
        halves = (self.rmax[ties] - self.rmin[ties - 1]) // 2
        return bool((halves > np.rint(self.error[summary] * self.n[summary])).any())

    @property
    def tail(self) -> Floats:
        """Certified tail of each summary, NaN where none below 1 holds."""
        tails = find_slopes(self.values, self.rmin, self.rmax, self.bounds, self.n) / 2
        return np.where((tails >= 0) & (tails < 1), tails, np.nan)

    def rank_bounds(self, indexes: Ints, targets: Ints) -> tuple[Ints, Ints]:
        """Return bounds of the rank, nearest to each target, of an element with the value of each of these tuples.

        See Summary, whose answers have the same bounds.
        """
        starts = np.ones(len(self.values) + 1, dtype=bool)  # True where the tuples of a value begin
        starts[1:-1] = self.values[1:] != self.values[:-1]
        starts[self.bounds] = True
        edges, run = np.flatnonzero(starts), np.cumsum(starts)[indexes] - 1
        first, last = edges[run], edges[run + 1] - 1
        low = np.maximum(self.rmin[first], np.minimum(targets, self.rmin[last]))
        return low, np.minimum(self.rmax[last], np.maximum(targets, self.rmax[first]))

    def take(self, indexes: Ints) -> Self:
        """Return the summaries at these indexes, in this order."""
        at, bounds = permute_segments(self.bounds, indexes)
        counts = (self.n[indexes], self.nulls[indexes], self.nans[indexes])
        return type(self)(self.type, self.values[at], self.rmin[at], self.rmax[at], bounds, *counts)


def check_bytes(data: Any) -> bytes:
    """Return bytes-like data as bytes; raise on anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeMismatchError(f"give bytes, not {type(data).__name__}")
    return bytes(data)


def pack_tuples(tuples: SummaryTuples) -> tuple[Bytes, Ints]:
    """Return the bytes of all summaries, one after the other, and the offset of each."""
    return tuple_encoding.encode(
        _ordinals(tuples.values),
        tuples.rmin,
        tuples.rmax,
        tuples.bounds,
        tuples.n,
        tuples.nulls,
        tuples.nans,
        _prefix(tuples.type),
    )


def unpack_tuples(data: Bytes, offsets: Ints) -> SummaryTuples:
    """Restore summaries; raise on anything but the bytes of pack_tuples() for valid summaries."""
    data, offsets = freeze(data), freeze(offsets)
    kind = _read_type(data[offsets[0] : offsets[1]].tobytes())
    prefix = _prefix(kind)
    sizes, head, n, nulls, nans = (np.zeros(len(offsets) - 1, dtype=np.int64) for _ in range(5))
    fault, index = tuple_encoding.scan(data, offsets, prefix, MAX_N, sizes, head, n, nulls, nans)
    if fault in (tuple_encoding.TRUNCATED, tuple_encoding.HEADER):
        _check_same_type(_read_type(data[offsets[index] : offsets[index + 1]].tobytes()), kind, index)
    _raise_fault(fault, index)
    bounds = np.zeros(len(offsets), dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    ordinals = np.empty(bounds[-1], dtype=np.uint64)
    rmin, rmax = np.empty(bounds[-1], dtype=np.int64), np.empty(bounds[-1], dtype=np.int64)
    _raise_fault(*tuple_encoding.decode(data, freeze(head), freeze(bounds), freeze(n), ordinals, rmin, rmax))
    tuples = SummaryTuples(kind, _values(ordinals, kind), rmin, rmax, bounds, n, nulls, nans)
    repacked, _ = pack_tuples(tuples)
    if len(repacked) != offsets[-1] - offsets[0] or not np.array_equal(repacked, data[offsets[0] : offsets[-1]]):
        raise CorruptBytesError("these bytes are not a summary: they are not in canonical form")
    return tuples


def pack_array(tuples: SummaryTuples) -> pa.Array:
    """Return the bytes of each summary as one Arrow array."""
    packed, offsets = pack_tuples(tuples)
    return pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
    )


def unpack_array(blobs: pa.Array) -> SummaryTuples:
    """Restore summaries from an Arrow array of at least one large_binary, without nulls."""
    try:
        blobs.validate(full=True)
    except pa.ArrowException as error:
        raise CorruptBytesError(f"these are not the bytes of summaries: {error}") from error
    _, offset_buffer, data = blobs.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[blobs.offset : blobs.offset + len(blobs) + 1]
    raw = np.frombuffer(data, dtype=np.uint8)
    if offsets[0] < 0 or offsets[-1] > len(raw) or (offsets[1:] < offsets[:-1]).any():
        raise CorruptBytesError("the offsets of this Arrow array lie outside its bytes; call its validate()")
    return unpack_tuples(raw, offsets)


def binary_array(summaries: Any) -> pa.Array:
    """Return the bytes of summaries, from a list or an Arrow array, as one array of large_binary."""
    try:
        is_arrow = isinstance(summaries, (pa.Array, pa.ChunkedArray))
        return combine_chunks(summaries if is_arrow else pa.array(summaries, pa.large_binary())).cast(pa.large_binary())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeMismatchError(f"give the bytes of summaries: {error}") from error


def rows_by_type(blobs: pa.Array) -> dict[ValueType, Ints]:
    """Return the rows of the summaries with values of each type, from their bytes; there are no nulls."""
    rows: dict[ValueType, Ints] = {}
    rest = np.arange(len(blobs))
    while len(rest):
        others = blobs.take(pa.array(rest))
        kind = _read_type(others[0].as_py())
        same = pc.starts_with(others, _prefix(kind).tobytes()).to_numpy(zero_copy_only=False)
        rows[kind], rest = rest[same], rest[~same]
    return rows


def check_tuples(t: SummaryTuples) -> None:
    """Raise CorruptBytesError unless untrusted tuples are those of valid summaries."""
    carriers = (t.type.carrier, *[np.dtype(np.int64)] * 6)
    if any(a.dtype != carrier for a, carrier in zip(t.arrays, carriers, strict=True)):
        raise CorruptBytesError("the arrays do not have the dtypes of their value type")
    sizes = np.diff(t.bounds)
    valid = len(t.bounds) > 0 and t.bounds[0] == 0 and (t.bounds[1:] >= t.bounds[:-1]).all()  # differences may wrap
    valid = valid and t.bounds[-1] == len(t.rmin) == len(t.rmax) == len(t.values)
    valid = valid and len(t.n) == len(t.nulls) == len(t.nans) == len(sizes)
    if not valid or ((t.n < 0) | (t.n > MAX_N) | ((t.n == 0) != (sizes == 0)) | (t.nulls < 0) | (t.nans < 0)).any():
        raise CorruptBytesError("the counts contradict each other")
    inside = np.ones(len(t.values), dtype=bool)  # True if a tuple follows one of the same summary
    inside[t.bounds[:-1][sizes > 0]] = False
    disorder = (t.rmin < 1) | (t.rmax < t.rmin) | (t.rmax > np.repeat(t.n, sizes))
    steps = (t.values[1:] >= t.values[:-1]) & (t.rmin[1:] > t.rmin[:-1]) & (t.rmax[1:] >= t.rmax[:-1])
    if disorder.any() or (inside[1:] & ~steps).any() or not are_valid_values(t.values, t.type):
        raise CorruptBytesError("values or ranks are out of order")
    first, last = t.bounds[:-1][sizes > 0], t.bounds[1:][sizes > 0] - 1
    if (t.rmin[first] != 1).any() or (t.rmax[last] != t.n[sizes > 0]).any():
        raise CorruptBytesError("a first tuple is not the minimum, or a last one not the maximum")


def _prefix(kind: ValueType) -> Bytes:
    name = kind.name.encode("ascii")
    return np.frombuffer(MAGIC + bytes([VERSION, len(name)]) + name, dtype=np.uint8)


def _read_type(data: bytes) -> ValueType:
    if data[:3] != MAGIC or len(data) < 5:
        raise CorruptBytesError(f"these {len(data)} bytes are not a summary: they do not start with {MAGIC!r}")
    if data[3] != VERSION:
        raise CorruptBytesError(f"a summary of format version {data[3]}; this Quantide reads version {VERSION}")
    try:
        return type_named(data[5 : 5 + data[4]].decode("ascii"))
    except (UnicodeDecodeError, TypeMismatchError) as error:
        raise CorruptBytesError(f"these bytes are not a summary: {error}") from error


def _check_same_type(kind: ValueType, first: ValueType, index: int) -> None:
    if kind != first:
        raise TypeMismatchError(
            f"summary number {index} has values of type {kind}, the first one of type {first}; "
            "give summaries of one type at a time"
        )


def _raise_fault(fault: int, index: int) -> None:
    if fault != tuple_encoding.OK:
        raise CorruptBytesError(f"these bytes are not a summary (number {index}): {FAULTS[fault]}")


def _ordinals(values: Array) -> Words:
    """Map values to unsigned integers in the same order: flip all bits of negative floats, the sign bit of others."""
    if values.dtype == np.int64:
        return (values ^ SIGN64).view(np.uint64)
    if values.dtype == np.float64:
        bits = values.view(np.int64)
        return (bits ^ ((bits >> 63) | SIGN64)).view(np.uint64)
    short = values.view(np.int32)
    return (short ^ ((short >> 31) | SIGN32)).view(np.uint32).astype(np.uint64)


def _values(ordinals: Words, kind: ValueType) -> Array:
    """Map ordinals back to values."""
    values: Array
    if kind.name == "float32":
        short = ordinals.astype(np.uint32).view(np.int32)  # overflow is detected by repacking
        values = (short ^ ((~short >> 31) | SIGN32)).view(np.float32)
    elif kind.name == "float64":
        bits = ordinals.view(np.int64)
        values = (bits ^ ((~bits >> 63) | SIGN64)).view(np.float64)
    else:
        values = ordinals.view(np.int64) ^ SIGN64
    if not are_valid_values(values, kind):
        raise CorruptBytesError(f"these bytes are not a summary: a value is not a {kind}")
    return values


def are_valid_values(values: Array, kind: ValueType) -> bool:
    """Return True if carried values are of the type: no NaN, no -0.0, nothing out of range."""
    if not len(values):
        return True
    if kind.is_float:
        return not (np.isnan(values).any() or (np.signbit(values) & (values == 0)).any())
    low, high = kind.limits
    return bool(values.min() >= low and values.max() <= high)
