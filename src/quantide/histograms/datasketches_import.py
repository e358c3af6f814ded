"""Import of KLL and REQ sketches of DataSketches, with the probability of their bounds."""

from importlib import import_module
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, HistogramError, MissingPackageError, UnprovedError
from quantide.histograms.histogram_fields import named_errors, refuse_digest
from quantide.histograms.probable_summary import ProbableSummary
from quantide.histograms.req_items import read_req_items
from quantide.histograms.sketch_structure import check_structure
from quantide.summary.ranks import check_count
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named
from quantide.typing import Array, Floats, Ints

CONFIDENCE = 0.99
DEVIATIONS = 3  # of the bounds of REQ: 99.7% for one rank, and an answer depends on at most two
MIN_REQ_K = 8  # with k = 4, bounds were seen to fail in several of a hundred ranks
KINDS = ("kll_doubles", "kll_floats", "kll_ints", "req_floats", "req_ints")


@named_errors
def from_datasketches(sketch: Any, kind: str | None = None) -> ProbableSummary:
    """Return the summary of a KLL or REQ sketch of the package datasketches, or of its serialised bytes.

    For bytes, `kind` must name their type, one of KINDS such as "kll_doubles": they do not contain it. Until a sketch
    has dropped values, its summary is exact, with a confidence of 1. After that

    - KLL: with 99% confidence all bounds hold at once. They are `normalized_rank_error(True)`, fitted by the authors
      of the library to the 99th percentile of the largest error in thousands of trials;
    - REQ: with 99% confidence each answer holds. Its bounds are three of the library's standard deviations; they fail
      more often in sketches of k below 8, which are refused.
    """
    if isinstance(sketch, (bytes, bytearray, memoryview)):
        sketch = _deserialize(bytes(sketch), kind)
    refuse_digest(sketch)
    name = type(sketch).__name__.removesuffix("_sketch")
    if name not in KINDS:
        raise HistogramError(f"{type(sketch).__name__} is not supported; give a sketch of one of {', '.join(KINDS)}")
    values, weights = _items(sketch, name)
    if not sketch.is_estimation_mode():
        return ProbableSummary(Summary.of(values), 1.0, True)
    n, is_kll = check_count(int(sketch.n)), name.startswith("kll")
    if not is_kll and sketch.k < MIN_REQ_K:
        raise UnprovedError(
            f"a REQ sketch of k={sketch.k} is refused: below k={MIN_REQ_K}, the bounds of its library fail more often "
            "than its three standard deviations say"
        )
    bounds = _kll_bounds if is_kll else _req_bounds
    tuples = _tuples(values, weights, n, lambda ranks: bounds(sketch, ranks))
    ends = np.array([sketch.get_min_value(), sketch.get_max_value()], dtype=values.dtype)
    kind_of_value = type_named("int64" if name.endswith("ints") else "float64")
    return ProbableSummary(_with_ends(*tuples, n, ends, kind_of_value.name), CONFIDENCE, is_kll)


def _deserialize(data: bytes, kind: str | None) -> Any:
    if kind not in KINDS:
        raise HistogramError(f"the bytes of a sketch do not contain its type; pass kind, one of {', '.join(KINDS)}")
    try:
        library = import_module("datasketches")
    except ImportError as error:
        raise MissingPackageError.of("from_datasketches()", "datasketches", "histograms") from error
    check_structure(data, kind)
    try:
        return getattr(library, f"{kind}_sketch").deserialize(data)
    except (RuntimeError, ValueError, IndexError, MemoryError) as error:
        raise CorruptBytesError(f"these {len(data)} bytes are not a {kind} sketch: {error}") from error


def _items(sketch: Any, name: str) -> tuple[Array, Ints]:
    """Return the values of a sketch, sorted, and their weights."""
    dtype = np.dtype("int64" if name.endswith("ints") else "float64")
    if name.startswith("req"):
        stored, weights = read_req_items(sketch, name.endswith("ints"))
    else:
        items = list(sketch)
        stored, weights = np.array([value for value, _ in items]), np.array([w for _, w in items], dtype=np.int64)
    with np.errstate(invalid="ignore"):  # NaN are refused with the other values
        values: Array = stored.astype(dtype) + dtype.type(0)  # -0.0 is 0.0
    if int(weights.sum()) != sketch.n:
        raise HistogramError(f"the weights of the sketch sum up to {weights.sum()}, not to its n, {sketch.n}")
    order = values.argsort(kind="stable")
    return values[order], weights[order]


def _kll_bounds(sketch: Any, ranks: Ints) -> tuple[Floats, Floats]:
    error = sketch.normalized_rank_error(True) * sketch.n
    return ranks - error, ranks + error


def _req_bounds(sketch: Any, ranks: Ints) -> tuple[Floats, Floats]:
    shares = (ranks / sketch.n).tolist()
    lows = [sketch.get_rank_lower_bound(share, DEVIATIONS) for share in shares]
    highs = [sketch.get_rank_upper_bound(share, DEVIATIONS) for share in shares]
    return np.minimum(np.array(lows) * sketch.n, ranks), np.maximum(np.array(highs) * sketch.n, ranks)


def _tuples(values: Array, weights: Ints, n: int, bounds: Any) -> tuple[Array, Ints, Ints]:
    """Return distinct values with bounds of the rank of their last element, and of their first where that is another.

    With R the number of values that are at most v, the last element of value v has rank R(v), and the first has one
    more than the number of values below v. The sketch estimates both by its weights.
    """
    is_last = np.append(values[1:] != values[:-1], True)
    distinct, last = values[is_last], weights.cumsum()[is_last]
    first = np.concatenate(([0], last[:-1])) + 1
    (first_low, first_high), (last_low, last_high) = bounds(first), bounds(last)
    is_two = first_high + 1 < last_low  # surely different elements, if the bounds hold
    kept = np.stack((is_two, np.ones(len(last), dtype=bool)), axis=1).reshape(-1)
    rmin = np.floor(np.stack((first_low, last_low), axis=1).reshape(-1)[kept] - 1e-6).astype(np.int64)
    rmax = np.ceil(np.stack((first_high, last_high), axis=1).reshape(-1)[kept] + 1e-6).astype(np.int64)
    return np.repeat(distinct, 2)[kept], rmin, rmax


def _with_ends(values: Array, rmin: Ints, rmax: Ints, n: int, ends: Array, kind: str) -> Summary:
    """Return a summary of these tuples whose first is the minimum, at rank 1, and whose last the maximum, at rank n.

    Tuples stand for different elements of increasing rank. So the one with i before it has rank i + 1 or more.
    """
    first, last = int(values[0] == ends[0] and rmin[0] < 2), len(values) - int(values[-1] == ends[1])
    values = np.concatenate((ends[:1], values[first:last], ends[1:]))
    at = np.arange(len(values))
    rmin = np.concatenate(([1], rmin[first:last], [n]))
    rmin = np.minimum.accumulate((rmin - at)[::-1])[::-1] + at  # increasing strictly, and not larger
    rmax = np.maximum.accumulate(np.concatenate(([1], rmax[first:last], [n])))
    rmin, rmax = np.maximum(rmin, at + 1), np.minimum(rmax, n - at[::-1])
    rmin[-1], rmax[0] = n, 1
    return Summary(values, rmin, rmax, n, type_named(kind))
