"""Value types, and the three carrier types of kernels.

Kernels sort and merge float64, float32 and int64 only. Narrower integers, timestamps, durations, dates and decimals (as
scaled integers) are carried as int64 and restored in answers.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from quantide.errors import TypeMismatchError
from quantide.typing import Array

FLOATS = ("float64", "float32")
INTEGERS = ("int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
SUPPORTED = "float64, float32, int8 to int64, uint8 to uint32, timestamps, dates, durations, decimals up to 18 digits"
DECIMAL_DIGITS = 18  # largest number that always fits an int64

_PARAMETRIC = re.compile(r"(timestamp|duration)\[(s|ms|us|ns)(?:, tz=([!-~]{1,40}))?\]|decimal\[(0|[1-9][0-9]?)\]|date")


@dataclass(frozen=True)
class ValueType:
    """Type of values, identified by a name such as "float64", "int32", "timestamp[us, tz=UTC]" or "decimal[2]"."""

    name: str

    def __str__(self) -> str:
        return self.name

    @cached_property
    def carrier(self) -> np.dtype[Any]:
        """Carrier: the dtype in kernels."""
        return np.dtype(self.name if self.name in FLOATS else "int64")

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Dtype in answers; decimals are Python objects."""
        if self.name in FLOATS or self.name in INTEGERS:
            return np.dtype(self.name)
        if self.name == "date":
            return np.dtype("datetime64[D]")
        if self.is_decimal:
            return np.dtype(object)
        letter = "M" if self.name.startswith("timestamp") else "m"
        return np.dtype(f"{letter}8[{self._unit}]")

    @cached_property
    def arrow(self) -> pa.DataType:
        """Arrow type in answers."""
        if self.name == "date":
            return pa.date32()
        if self.is_decimal:
            return pa.decimal128(DECIMAL_DIGITS, self.scale)
        if self.name.startswith("timestamp"):
            return pa.timestamp(self._unit, tz=self._groups[2])
        if self.name.startswith("duration"):
            return pa.duration(self._unit)
        return pa.from_numpy_dtype(self.dtype)

    @property
    def family(self) -> str:
        """Name without parameters: "timestamp" for all timestamps."""
        return self.name.partition("[")[0]

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS

    @property
    def is_decimal(self) -> bool:
        return self.name.startswith("decimal")

    @property
    def is_temporal(self) -> bool:
        return self.dtype.kind in "mM"

    @cached_property
    def scale(self) -> int:
        """Digits after the decimal point; 0 for other types."""
        return int(self._groups[3]) if self.is_decimal else 0

    @cached_property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest carried integer; undefined for floats."""
        if self.is_decimal:
            return 1 - 10**DECIMAL_DIGITS, 10**DECIMAL_DIGITS - 1
        if self.is_temporal:  # the smallest int64 is NaT; an Arrow date has 32 bits
            bits = 31 if self.name == "date" else 63
            return 1 - 2**bits, 2**bits - 1
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def restore(self, carried: Array) -> Array:
        """Convert carried numbers to the value type; a view if the bits are the same."""
        if self.is_decimal:
            return np.array([Decimal(f"{x}E-{self.scale}") for x in carried.tolist()], dtype=object)
        if self.is_temporal:
            return carried.view(self.dtype)
        return carried.astype(self.dtype, copy=False)

    def restore_arrow(self, carried: Array) -> pa.Array:
        """Convert carried numbers to an Arrow array of the value type."""
        if not self.is_decimal:
            return pa.array(self.restore(carried), type=self.arrow)
        words = np.empty((len(carried), 2), dtype=np.int64)  # 128 bits, low word first
        words[:, 0] = carried
        words[:, 1] = carried >> 63
        return pa.Array.from_buffers(self.arrow, len(carried), [None, pa.py_buffer(words)])

    def includes(self, other: "ValueType") -> bool:
        """Return True if every value of the other type is a value of this one."""
        if self == other:
            return True
        plain = (*FLOATS, *INTEGERS)
        if self.name not in plain or other.name not in plain or other.name == "int64":
            return False
        return np.can_cast(other.dtype, self.dtype, "safe")

    @cached_property
    def _groups(self) -> tuple[Any, ...]:
        match = _PARAMETRIC.fullmatch(self.name)
        return match.groups() if match else (None, None, None, None)

    @property
    def _unit(self) -> str:
        return str(self._groups[1])


def type_named(name: str) -> ValueType:
    """Return the type with this name.

    >>> type_named("timestamp[ms]").dtype
    dtype('<M8[ms]')
    """
    if not isinstance(name, str):
        raise TypeMismatchError(f"a value type is a name such as 'float64', not {name!r}")
    match = _PARAMETRIC.fullmatch(name)
    valid = name in FLOATS or name in INTEGERS or match is not None
    if match and ((match[4] is not None and int(match[4]) > DECIMAL_DIGITS) or (match[1] == "duration" and match[3])):
        valid = False
    if not valid:
        raise TypeMismatchError(f"unknown value type {name[:80]!r}; supported are {SUPPORTED}")
    return ValueType(name)


@lru_cache(maxsize=256)
def type_of_dtype(dtype: np.dtype[Any]) -> ValueType:
    """Return the value type of a numpy dtype."""
    native = dtype.newbyteorder("=")
    if native.kind in "mM":
        unit = np.datetime_data(native)[0]
        if native == np.dtype("datetime64[D]"):
            return type_named("date")
        if unit in ("s", "ms", "us", "ns") and np.datetime_data(native)[1] == 1:
            return type_named(f"{'timestamp' if native.kind == 'M' else 'duration'}[{unit}]")
    elif native.name in FLOATS or native.name in INTEGERS:
        return type_named(native.name)
    raise TypeMismatchError(f"values of type {dtype} are not supported; cast them to one of: {SUPPORTED}")


def type_of_arrow(kind: pa.DataType) -> ValueType:
    """Return the value type of an Arrow type."""
    if pa.types.is_timestamp(kind):
        return type_named(f"timestamp[{kind.unit}, tz={kind.tz}]" if kind.tz else f"timestamp[{kind.unit}]")
    if pa.types.is_duration(kind):
        return type_named(f"duration[{kind.unit}]")
    if pa.types.is_date32(kind):
        return type_named("date")
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= DECIMAL_DIGITS:
        return type_named(f"decimal[{kind.scale}]")
    if str(kind) in ("double", "float") or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return type_of_dtype(np.dtype(kind.to_pandas_dtype()))
    raise TypeMismatchError(f"values of Arrow type {kind} are not supported; cast them to one of: {SUPPORTED}")
