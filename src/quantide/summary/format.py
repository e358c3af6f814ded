"""Summaries as bytes: canonical, checksummed, compact. docs/format.md describes every byte."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError, TypeMismatchError
from quantide.kernels import pack
from quantide.kernels.compiled import frozen
from quantide.summary.ranks import MAX_N
from quantide.summary.types import ValueType, type_named

MAGIC = b"QTS"
VERSION = 1
SIGN64 = np.int64(-(1 << 63))
SIGN32 = np.int32(-(1 << 31))

FAULTS = {
    pack.CUT: "they end too early or too late",
    pack.CHECKSUM: "the checksum does not match",
    pack.HEADER: "the header is not that of a summary of this type",
    pack.COUNTS: "the counts contradict each other",
    pack.RANKS: "values or ranks are out of order",
}


@dataclass(frozen=True)
class Tuples:
    """The tuples of any number of summaries as flat arrays; summary s is bounds[s]:bounds[s+1]."""

    type: ValueType
    values: NDArray[Any]
    rmin: NDArray[np.int64]
    rmax: NDArray[np.int64]
    bounds: NDArray[np.int64]
    n: NDArray[np.int64]
    nulls: NDArray[np.int64]
    nans: NDArray[np.int64]


def check_bytes(data: Any) -> bytes:
    """Bytes, or what is as good as bytes; anything else is refused before it is looked at."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeMismatchError(f"bytes are asked for here, not {type(data).__name__}")
    return bytes(data)


def pack_tuples(tuples: Tuples) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all summaries, one after the other, and where each starts."""
    return pack.encode(
        _ordinals(tuples.values),
        tuples.rmin,
        tuples.rmax,
        tuples.bounds,
        tuples.n,
        tuples.nulls,
        tuples.nans,
        _prefix(tuples.type),
    )


def unpack_tuples(data: NDArray[np.uint8], places: NDArray[np.int64]) -> Tuples:
    """The summaries back; anything but what pack_tuples makes of a valid summary is refused."""
    data, places = frozen(data), frozen(places)
    kind = _read_type(data[places[0] : places[1]].tobytes())
    prefix = _prefix(kind)
    sizes, head, n, nulls, nans = (np.zeros(len(places) - 1, dtype=np.int64) for _ in range(5))
    _refuse(*pack.scan(data, places, prefix, MAX_N, sizes, head, n, nulls, nans))
    bounds = np.zeros(len(places), dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    ordinals = np.empty(bounds[-1], dtype=np.uint64)
    rmin, rmax = np.empty(bounds[-1], dtype=np.int64), np.empty(bounds[-1], dtype=np.int64)
    _refuse(*pack.decode(data, frozen(head), frozen(bounds), frozen(n), ordinals, rmin, rmax))
    tuples = Tuples(kind, _values(ordinals, kind), rmin, rmax, bounds, n, nulls, nans)
    again, _ = pack_tuples(tuples)
    if len(again) != places[-1] - places[0] or not np.array_equal(again, data[places[0] : places[-1]]):
        raise CorruptBytesError("these bytes are not a summary: they are not written in the one canonical way")
    return tuples


def check_tuples(t: Tuples) -> None:
    """Refuse tuples that came from outside and are not those of summaries."""
    carriers = (t.type.carrier, *[np.dtype(np.int64)] * 6)
    arrays = (t.values, t.rmin, t.rmax, t.bounds, t.n, t.nulls, t.nans)
    if any(a.dtype != carrier for a, carrier in zip(arrays, carriers, strict=True)):
        raise CorruptBytesError("the tuples are not of the types that their name says")
    sizes = np.diff(t.bounds)
    fine = len(t.bounds) > 0 and t.bounds[0] == 0 and (t.bounds[1:] >= t.bounds[:-1]).all()  # differences may wrap
    fine = fine and t.bounds[-1] == len(t.rmin) == len(t.rmax) == len(t.values)
    fine = fine and len(t.n) == len(t.nulls) == len(t.nans) == len(sizes)
    if not fine or ((t.n < 0) | (t.n > MAX_N) | ((t.n == 0) != (sizes == 0)) | (t.nulls < 0) | (t.nans < 0)).any():
        raise CorruptBytesError("the counts contradict each other")
    inside = np.ones(len(t.values), dtype=bool)  # whether a tuple follows one of the same summary
    inside[t.bounds[:-1][sizes > 0]] = False
    disorder = (t.rmin < 1) | (t.rmax < t.rmin) | (t.rmax > np.repeat(t.n, sizes))
    steps = (t.values[1:] >= t.values[:-1]) & (t.rmin[1:] > t.rmin[:-1]) & (t.rmax[1:] >= t.rmax[:-1])
    if disorder.any() or (inside[1:] & ~steps).any() or not are_of(t.values, t.type):
        raise CorruptBytesError("values or ranks are out of order")
    first, last = t.bounds[:-1][sizes > 0], t.bounds[1:][sizes > 0] - 1
    if (t.rmin[first] != 1).any() or (t.rmax[last] != t.n[sizes > 0]).any():
        raise CorruptBytesError("a first tuple is not the minimum, or a last one not the maximum")


def _prefix(kind: ValueType) -> NDArray[np.uint8]:
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


def _refuse(fault: int, at: int) -> None:
    if fault != pack.OK:
        raise CorruptBytesError(f"these bytes are not a summary (number {at}): {FAULTS[fault]}")


def _ordinals(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Unsigned integers in the order of the values: negative floats have all bits turned, others the sign alone."""
    if values.dtype == np.int64:
        return (values ^ SIGN64).view(np.uint64)
    if values.dtype == np.float64:
        bits = values.view(np.int64)
        return (bits ^ ((bits >> 63) | SIGN64)).view(np.uint64)
    short = values.view(np.int32)
    return (short ^ ((short >> 31) | SIGN32)).view(np.uint32).astype(np.uint64)


def _values(ordinals: NDArray[np.uint64], kind: ValueType) -> NDArray[Any]:
    """Values from their ordinals."""
    values: NDArray[Any]
    if kind.name == "float32":
        short = ordinals.astype(np.uint32).view(np.int32)  # what does not fit is found out by writing it again
        values = (short ^ ((~short >> 31) | SIGN32)).view(np.float32)
    elif kind.name == "float64":
        bits = ordinals.view(np.int64)
        values = (bits ^ ((~bits >> 63) | SIGN64)).view(np.float64)
    else:
        values = ordinals.view(np.int64) ^ SIGN64
    if not are_of(values, kind):
        raise CorruptBytesError(f"these bytes are not a summary: a value is not a {kind}")
    return values


def are_of(values: NDArray[Any], kind: ValueType) -> bool:
    """Whether carried values are values of the type: no NaN, no -0.0, nothing out of range."""
    if not len(values):
        return True
    if kind.is_float:
        return not (np.isnan(values).any() or (np.signbit(values) & (values == 0)).any())
    low, high = kind.limits
    return bool(values.min() >= low and values.max() <= high)
