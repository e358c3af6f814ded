"""Fields of a histogram, from a dict, a protobuf message or any object with attributes, and checks of their values."""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from quantide.errors import CountOverflowError, HistogramError, QuantideError, UnprovedError
from quantide.summary.ranks import MAX_N
from quantide.typing import Array, Floats, Ints

LARGEST_SUM = 2.0**62  # of counts, so that sums fit 64 bits
P = ParamSpec("P")
R = TypeVar("R")
WRONG_TYPES = (TypeError, ValueError, AttributeError, LookupError, OverflowError)


def named_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that arguments of wrong types and shapes raise HistogramError."""

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except QuantideError:
            raise
        except WRONG_TYPES as error:
            raise HistogramError(f"{function.__name__}() cannot read this: {str(error)[:200]}") from error

    return checked


def read_fields(histogram: Any) -> Mapping[str, Any]:
    """Return the fields by their names in snake_case; a protobuf message has those that are set."""
    if type(histogram) is not dict:
        refuse_digest(histogram)
    named: Mapping[str, Any]
    if type(histogram) is dict:
        named = histogram
    elif hasattr(histogram, "ListFields"):
        named = {field.name: value for field, value in histogram.ListFields()}
    elif isinstance(histogram, Mapping):
        named = dict(histogram)
    elif hasattr(histogram, "_asdict"):
        named = histogram._asdict()
    elif hasattr(histogram, "__dict__"):
        named = vars(histogram)
    else:
        raise HistogramError(f"a histogram is a dict or an object with fields, not {type(histogram).__name__}")
    return {_snake_case(name): value for name, value in named.items() if value is not None}


@lru_cache(maxsize=256)
def _snake_case(name: str) -> str:
    return name if name.islower() else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def refuse_digest(sketch: Any) -> None:
    """Raise if this is a t-digest."""
    if "digest" in type(sketch).__name__.lower():
        raise UnprovedError(
            f"{type(sketch).__name__}: a t-digest bounds neither the ranks nor the values of its answers, and inputs "
            "are known for which they are arbitrarily wrong. Summarise the values themselves"
        )


def first_field(fields: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """Return the first of these fields that is set."""
    return next((fields[name] for name in names if name in fields), default)


def read_counts(name: str, counts: Any) -> Ints:
    """Return counts as whole numbers from 0 on; texts, as in the JSON of OTLP, are read."""
    if isinstance(counts, (list, tuple)) and not counts:  # most histograms have no values of one sign
        return np.empty(0, dtype=np.int64)
    array = _read_whole_numbers(name, counts)
    if array.size and (low := np.minimum.reduce(array)) < 0:
        raise HistogramError(f"{name} has the negative count {low}; a counter that was reset is not a histogram")
    if _may_exceed(array) and float(array.sum(dtype=np.float64)) > LARGEST_SUM:
        raise CountOverflowError(f"{name} count more than the {MAX_N} values whose ranks are exact")
    return array.astype(np.int64, copy=False)


def read_deltas(name: str, deltas: Any) -> Ints:
    """Return the counts that differ from one another by these deltas; the first one differs from 0."""
    array = _read_whole_numbers(name, deltas)
    if _may_exceed(array) and float(np.abs(array).sum(dtype=np.float64)) > LARGEST_SUM:
        raise CountOverflowError(f"{name} sum up to more than the {MAX_N} values whose ranks are exact")
    return read_counts(name, array.astype(np.int64, copy=False).cumsum())


def _may_exceed(array: Array) -> bool:
    """Return False if the sum of absolute values is clearly at most LARGEST_SUM."""
    most = LARGEST_SUM / 2 / max(1, array.size)
    return bool(array.size and not -most < np.minimum.reduce(array) <= np.maximum.reduce(array) < most)


def _read_whole_numbers(name: str, counts: Any) -> Array:
    array = _read_array(name, counts)
    if array.dtype.kind == "f":  # also an empty one
        wrong = ~(np.floor(array) == array)  # also NaN
        if wrong.any():
            raise HistogramError(
                f"{name} has {array[wrong][0]}, which is no count of values; rates and sums of rates are fractions: "
                "import the histogram itself"
            )
    return array


def read_count(name: str, count: Any) -> int:
    if type(count) is int and 0 <= count <= MAX_N:
        return count
    if type(count) is str and len(count) <= 15 and count.isdecimal():
        return int(count)
    return int(read_counts(name, [_read_one(name, count)])[0])


def _read_array(name: str, numbers: Any) -> Array:
    """Return numbers as an array of integers or floats, from numbers or their texts."""
    try:
        plain = numbers if hasattr(numbers, "__array__") else list(numbers)
        if isinstance(plain, list) and {*map(type, plain)} == {str} and all(map(str.isdecimal, plain)):
            plain = [*map(int, plain)]
        array = np.asarray(plain)
        if array.dtype.kind in "USO":
            array = np.array([_read_number(x) for x in array.tolist()])
    except (TypeError, ValueError, OverflowError) as error:
        raise HistogramError(f"{name} must be a list of numbers: {str(error)[:200]}") from error
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise HistogramError(f"{name} must be a list of numbers, not {str(numbers)[:80]}")
    return array


def _read_one(name: str, number: Any) -> Any:
    """Return a number, or that of a text, as an integer or a float of numpy."""
    try:
        return _read_array(name, [number])[0]
    except HistogramError as error:
        raise HistogramError(f"{name} must be a number of at most 64 bits, not {str(number)[:80]!r}") from error


def _read_number(x: Any) -> float | int:
    if isinstance(x, str):
        return int(x) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", x) else float(x)
    return x  # type: ignore[no-any-return]


def read_edges(name: str, edges: Any) -> Floats:
    """Return edges of buckets as floats; raise unless they increase strictly."""
    array = _read_array(name, edges).astype(np.float64) + 0.0
    rises = array[1:] > array[:-1]  # nothing is above NaN, or below it
    if rises.all() and not (len(array) == 1 and math.isnan(array[0])):
        return array
    if np.isnan(array).any():
        raise HistogramError(f"{name} has an edge that is NaN")
    falling = np.flatnonzero(~rises)
    if len(falling):
        a, b = array[falling[0]], array[falling[0] + 1]
        raise HistogramError(f"{name} must increase, unlike {a:g}, {b:g}; sort the buckets, and merge equal ones")
    return array


def read_float(name: str, number: Any) -> float:
    """Return a number that is not NaN."""
    value = number if type(number) is float else float(_read_one(name, number))
    if math.isnan(value):
        raise HistogramError(f"{name} is NaN")
    return value + 0.0


def read_threshold(number: Any) -> float:
    """Return the largest absolute value that a histogram counts as zero."""
    threshold = read_float("zero_threshold", number)
    if not 0 <= threshold < np.inf:
        raise HistogramError(f"zero_threshold must be a finite number from 0 on, not {threshold}")
    return threshold


def read_range(smallest: Any, largest: Any) -> tuple[float | None, float | None]:
    """Return the bounds of all values, which may be missing."""
    low = None if smallest is None else read_float("smallest", smallest)
    high = None if largest is None else read_float("largest", largest)
    if low is not None and high is not None and low > high:
        raise HistogramError(f"smallest is {low:g}, above largest, {high:g}")
    return low, high


def read_whole(name: str, number: Any, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`."""
    if type(number) is int and low <= number <= high:
        return number
    value = number if type(number) is int else _read_one(name, number)
    if value != np.floor(value) or not low <= value <= high:
        raise HistogramError(f"{name} must be a whole number from {low} to {high}, not {str(number)[:80]}")
    return int(value)


def check_total(name: str, count: Any, counts: Ints, nans: int = 0) -> None:
    """Raise unless the count of a histogram is the sum of its buckets; None is not checked."""
    if count is not None and read_count(name, count) != int(np.add.reduce(counts)) + nans:
        raise HistogramError(f"{name} is {str(count)[:80]}, but the buckets have {int(counts.sum())} values")
