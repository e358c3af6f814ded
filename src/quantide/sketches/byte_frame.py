"""Byte format of a sketch's state: a header, fields, a checksum. docs/format.md describes every byte."""

import re
import struct
import zlib
from fractions import Fraction
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, QuantideError
from quantide.summary.ranks import MAX_N, MIN_EPS
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import are_valid_values, check_bytes
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array

HEADER = struct.Struct("<3sBBdBQQ")


class FrameWriter:
    """Writes the fields of a sketch."""

    def __init__(
        self,
        magic: bytes,
        kind: ValueType | None,
        eps: float,
        skip_nan: bool,
        nulls: int,
        nans: int,
        version: int = 1,
    ) -> None:
        name = (kind.name if kind else "").encode("ascii")
        self._pieces = [HEADER.pack(magic, version, len(name), eps, skip_nan, nulls, nans), name]

    def number(self, x: int) -> None:
        self._pieces.append(struct.pack("<Q", x))

    def tail(self, tail: float | None) -> None:
        """Write a tail; 0 for None."""
        self._pieces.append(struct.pack("<d", tail or 0.0))

    def array(self, values: Array) -> None:
        """Write the numbers alone, little-endian; the reader must know their count."""
        self._pieces.append(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes())

    def blob(self, data: bytes) -> None:
        """Write bytes of any length, such as another frame."""
        self.number(len(data))
        self._pieces.append(data)

    def text(self, text: str) -> None:
        self.blob(text.encode("utf-8"))

    def fraction(self, x: Fraction | None) -> None:
        """Write a fraction above zero, or None."""
        self.text("" if x is None else str(x))

    def summaries(self, summaries: list[Summary]) -> None:
        self.number(len(summaries))
        for summary in summaries:
            self.blob(summary.to_bytes())

    def finish(self) -> bytes:
        body = b"".join(self._pieces)
        return body + struct.pack("<I", zlib.crc32(body))


class FrameReader:
    """Reads the fields in order; raises CorruptBytesError on bytes that are cut short, altered or too long."""

    def __init__(self, magic: bytes, data: bytes, newest: int = 1) -> None:
        data = check_bytes(data)
        if data[:3] != magic or len(data) < HEADER.size + 4:
            raise CorruptBytesError(f"these {len(data)} bytes are not a sketch: they do not start with {magic!r}")
        self.version = data[3]
        if not 1 <= self.version <= newest:
            raise CorruptBytesError(f"a sketch of format version {self.version}; this Quantide reads 1 to {newest}")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise CorruptBytesError("these bytes are not a sketch: the checksum does not match")
        self._data, self._offset = data[:-4], HEADER.size
        _, _, size, self.eps, policy, self.nulls, self.nans = HEADER.unpack_from(data)
        self.require(policy in (0, 1) and MIN_EPS <= self.eps < 1 and max(self.nulls, self.nans) <= MAX_N)
        self.nan = "skip" if policy else "refuse"
        name = self._take(size)
        try:
            self.kind = type_named(name.decode("ascii")) if name else None
        except (UnicodeDecodeError, QuantideError) as error:
            raise CorruptBytesError(f"these bytes are not a sketch: {error}") from error

    @property
    def type_name(self) -> str | None:
        """Argument for a sketch's `value_type`."""
        return self.kind.name if self.kind else None

    def number(self, limit: int) -> int:
        """Read a whole number; raise if it is above `limit`."""
        x: int = struct.unpack("<Q", self._take(8))[0]
        self.require(x <= limit)
        return x

    def tail(self) -> float | None:
        """Read a tail."""
        data = self._take(8)
        tail: float = struct.unpack("<d", data)[0]
        self.require(not any(data) or MIN_EPS <= tail < 1)
        return tail or None

    def array(self, dtype: np.dtype[Any], count: int) -> Array:
        """Read `count` numbers; raise before allocating if there are fewer bytes."""
        raw = self._take(count * dtype.itemsize)
        return np.frombuffer(raw, dtype=dtype.newbyteorder("<")).astype(dtype)

    def finite(self, dtype: np.dtype[Any], count: int) -> Array:
        """Read `count` numbers; raise if any is NaN or infinite."""
        numbers = self.array(dtype, count)
        self.require(bool(np.isfinite(numbers).all()))
        return numbers

    def values(self, count: int) -> Array:
        """Read `count` values; raise if any is not of the sketch's type."""
        if self.kind is None:
            raise CorruptBytesError("these bytes are not a sketch: values of no type")
        values = self.array(self.kind.carrier, count)
        self.require(are_valid_values(values, self.kind))
        return values

    def sorted_values(self, count: int) -> Array:
        values = self.values(count)
        self.require(bool((values[1:] >= values[:-1]).all()))
        return values

    def blob(self) -> bytes:
        return self._take(self.number(len(self._data)))

    def text(self) -> str:
        try:
            return self.blob().decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptBytesError(f"these bytes are not a sketch: {error}") from error

    def fraction(self) -> Fraction | None:
        """Read a fraction above zero, or None."""
        text = self.text()
        match = re.fullmatch(r"([0-9]{1,400})(?:/([0-9]{1,400}))?", text)
        self.require(not text or (match is not None and int(match[1]) > 0 and int(match[2] or 1) > 0))
        return Fraction(text) if text else None

    def summaries(self) -> list[Summary]:
        out = []
        for _ in range(self.number(len(self._data))):
            summary = Summary.from_bytes(self.blob())
            self.require(summary.n > 0 and summary.type == self.kind)
            out.append(summary)
        return out

    def finish(self) -> None:
        self.require(self._offset == len(self._data))

    def require(self, condition: bool) -> None:
        """Raise CorruptBytesError unless the condition is true."""
        if not condition:
            raise CorruptBytesError("these bytes are not a sketch: their fields contradict each other")

    def _take(self, size: int) -> bytes:
        self.require(self._offset + size <= len(self._data))
        self._offset += size
        return self._data[self._offset - size : self._offset]
