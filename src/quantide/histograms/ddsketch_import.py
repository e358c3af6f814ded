"""Import of DDSketch: objects of the package ddsketch, and its protobuf form."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from quantide.errors import HistogramError, MissingPackageError
from quantide.histograms.bucket_intervals import join_signs, summarize_buckets
from quantide.histograms.exponential_edges import MIN_NORMAL, ROUNDINGS, limit_ends, widen_edges
from quantide.histograms.histogram_fields import (
    named_errors,
    read_count,
    read_counts,
    read_fields,
    read_float,
    read_threshold,
    read_whole,
)
from quantide.histograms.interval_summary import IntervalSummary
from quantide.typing import Floats, Ints

ROUNDING = {"up": -1.0, "down": 0.0}  # exponent of a bin's lower edge, minus its index
COLLAPSED = ("lowest", "highest", "none")
MAPPINGS = {0: "logarithmic", 1: "linear", 2: "quadratic", 3: "cubic"}
MIN_GAMMA = 1 + 1e-6  # below, the indexes of small values do not fit 32 bits

Bins = tuple[Ints, Ints]  # increasing indexes, and counts


@named_errors
def from_ddsketch(
    sketch: Any, *, rounding: str | None = None, collapsed: str | None = None, zero_threshold: float | None = None
) -> IntervalSummary:
    """Return the summary of a DDSketch with a logarithmic mapping: every bin is an interval of values.

    `sketch` is an object of the package ddsketch; or the protobuf message, its bytes, or a dict in its shape. The
    message does not say all that is needed, so for it

    - `rounding` must be given: "up" if indexes are rounded up, as by ddsketch for Python, JavaScript and Ruby; "down"
      for Java and Go;
    - `collapsed` names the bins into which a store with a limit may have merged others: "lowest" (the default),
      "highest" or "none". Such a bin extends to zero, or to infinity.

    `zero_threshold` is the largest absolute value that counts as zero; by default the smallest that has an index.
    """
    if hasattr(sketch, "_mapping") and hasattr(sketch, "_store"):
        if rounding is not None or collapsed is not None:
            raise HistogramError("rounding and collapsed are for the protobuf form; an object knows both")
        return _from_object(sketch, zero_threshold)
    if rounding not in ROUNDING:
        raise HistogramError(
            f'rounding must be "up" (Python, JavaScript, Ruby) or "down" (Java, Go), not {rounding!r}: the protobuf '
            "form does not say to which of two bins an index belongs"
        )
    if collapsed not in (None, *COLLAPSED):
        raise HistogramError(f"collapsed must be one of {', '.join(COLLAPSED)}, not {collapsed!r}")
    fields = read_fields(_parse(sketch) if isinstance(sketch, (bytes, bytearray)) else sketch)
    gamma, offset = _read_mapping(read_fields(fields.get("mapping", {})))
    stores = [_read_store(sign, fields) for sign in ("negative_values", "positive_values")]
    signs = [_intervals(bins, gamma, offset, ROUNDING[rounding], collapsed or "lowest") for bins in stores]
    zeros = read_count("zero_count", fields.get("zero_count", 0))
    return _summarize(signs, gamma, zeros, zero_threshold)


def _parse(data: bytes | bytearray) -> Any:
    """Parse the bytes of a message."""
    try:
        from ddsketch.pb.proto import pb
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingPackageError.of("from_ddsketch() of bytes", "ddsketch", "histograms") from error
    try:
        return pb.DDSketch.FromString(bytes(data))
    except DecodeError as error:
        raise HistogramError(f"these {len(data)} bytes are not a DDSketch message: {error}") from error


def _from_object(sketch: Any, zero_threshold: float | None) -> IntervalSummary:
    mapping = sketch._mapping
    if type(mapping).__name__ != "LogarithmicMapping":
        raise HistogramError(f"a DDSketch with a {type(mapping).__name__} is not supported; use a LogarithmicMapping")
    signs = []
    for store in (sketch._negative_store, sketch._store):
        counts = read_counts("bins", store.bins)
        bins = np.arange(store.offset, store.offset + len(counts)), counts
        signs.append(_intervals(bins, mapping.gamma, float(mapping._offset), ROUNDING["up"], _collapsed_end(store)))
    return _summarize(signs, mapping.gamma, read_count("zero_count", sketch._zero_count), zero_threshold)


def _collapsed_end(store: Any) -> str:
    """Return the end of a store at which bins may have been merged.

    A store of full length counts as collapsed: merging a collapsed one into it does not mark it.
    """
    if not hasattr(store, "bin_limit"):
        return "none"
    is_full = store.count > 0 and store.max_key - store.min_key + 1 >= store.bin_limit
    end = "lowest" if "Lowest" in type(store).__name__ else "highest"
    return end if store.is_collapsed or is_full else "none"


def _read_mapping(fields: Mapping[str, Any]) -> tuple[float, float]:
    interpolation = fields.get("interpolation", 0)
    number = interpolation if isinstance(interpolation, int) else {"NONE": 0}.get(interpolation)
    if number != 0:
        name = MAPPINGS.get(interpolation, str(interpolation).lower())
        raise HistogramError(
            f"a DDSketch with {name} interpolation is not supported: libraries disagree about its edges. Use the "
            "logarithmic mapping"
        )
    return read_float("gamma", fields.get("gamma", 0.0)), read_float("index_offset", fields.get("index_offset", 0.0))


def _read_store(sign: str, fields: Mapping[str, Any]) -> Bins:
    """Return the bins of a store, which are a list, a map by index, or both."""
    store = read_fields(fields.get(sign, {}))
    dense = read_counts(f"{sign} bins", store.get("contiguous_bin_counts", ()))
    first = read_whole(f"{sign} offset", store.get("contiguous_bin_index_offset", 0), -(2**31), 2**31)
    sparse = store.get("bin_counts", {})
    keys = [read_whole(f"{sign} index", key, -(2**31), 2**31) for key in sparse]
    indexes = np.concatenate((np.arange(first, first + len(dense)), np.array(keys, dtype=np.int64)))
    counts = np.concatenate((dense, read_counts(f"{sign} bins", list(sparse.values()))))
    distinct, inverse = np.unique(indexes, return_inverse=True)
    return distinct, np.bincount(inverse, counts, len(distinct)).astype(np.int64)


def _intervals(bins: Bins, gamma: float, offset: float, shift: float, collapsed: str) -> tuple[Floats, Floats, Ints]:
    """Return the ends and the counts of the bins of one sign, as absolute values."""
    if not MIN_GAMMA <= gamma < math.inf or offset != math.floor(offset) or abs(offset) > 2**31:
        raise HistogramError(
            f"gamma must be at least {MIN_GAMMA:.7g} and index_offset a whole number, not {gamma} and {offset}"
        )
    some = bins[1].nonzero()[0]
    exponents, counts = bins[0][some] - offset + shift, bins[1][some]
    low_logs, high_logs = exponents * math.log(gamma), (exponents + 1) * math.log(gamma)
    roundings = ROUNDINGS * (np.maximum(np.abs(low_logs), np.abs(high_logs)) * (1 + 1 / (gamma - 1)))
    with np.errstate(over="ignore", under="ignore"):
        lows, highs = limit_ends(*widen_edges(np.exp(low_logs), np.exp(high_logs), roundings))
    if len(some) and collapsed == "lowest":
        lows[0] = 0.0
    if len(some) and collapsed == "highest":
        highs[-1] = np.inf
    return lows, highs, counts


def _summarize(
    signs: list[tuple[Floats, Floats, Ints]], gamma: float, zeros: int, zero_threshold: float | None
) -> IntervalSummary:
    threshold = 2 * MIN_NORMAL * gamma if zero_threshold is None else read_threshold(zero_threshold)
    return summarize_buckets(*join_signs(signs[0], signs[1], threshold, zeros))
