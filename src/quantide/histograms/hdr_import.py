"""Import of HdrHistogram: objects of the package hdrhistogram, and the compressed encoding V2."""

import base64
import binascii
import math
import struct
import zlib
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, CountOverflowError, HistogramError
from quantide.histograms.bucket_intervals import summarize_buckets
from quantide.histograms.histogram_fields import named_errors, read_counts, read_whole, refuse_digest
from quantide.histograms.interval_summary import IntervalSummary
from quantide.summary.ranks import MAX_N
from quantide.summary.value_types import type_named
from quantide.typing import Ints

COMPRESSED_COOKIE, COOKIE = 0x1C849304, 0x1C849303  # of V2, without the bits of the word size
WORD_SIZE_BITS = 0xF0
PREFIX, HEADER = struct.Struct(">II"), struct.Struct(">IIiiqqd")
MAX_PAYLOAD = 1 << 24  # bytes of counts; 5 digits of all 64-bit integers need a third of it
MAX_VALUE = 2**62


@named_errors
def from_hdr(histogram: Any) -> IntervalSummary:
    """Return the summary of an HdrHistogram: an object of the package hdrhistogram, or the encoding V2.

    The encoding is compressed, as bytes or as base64 text. Values are whole numbers, and so are the ends of buckets:
    with d significant digits, an interval is at most 10^-d of its values wide. Histograms of doubles are refused.
    """
    if isinstance(histogram, (str, bytes, bytearray)):
        low, digits, indexes, counts = _decode(histogram)
    else:
        low, digits, indexes, counts = _read_object(histogram)
    lows, highs = bucket_ranges(indexes, low, digits)
    return summarize_buckets(lows, highs, counts, kind=type_named("int64"))


def bucket_ranges(indexes: Ints, lowest: int, digits: int) -> tuple[Ints, Ints]:
    """Return the smallest and the largest whole number in the buckets of these indexes.

    The first 2^k numbers, in units of `lowest` rounded down to a power of two, have buckets of their own; after them,
    every further power of two is divided into 2^(k-1) buckets.
    """
    unit = lowest.bit_length() - 1
    half = math.ceil(math.log2(2 * 10**digits)) - 1  # k - 1
    group = np.maximum((indexes >> half) - 1, 0)
    within = np.where(indexes >> half == 0, indexes, (indexes & ((1 << half) - 1)) + (1 << half))
    shift = group + unit
    if len(shift) and int(shift[-1]) + half + 1 > 62:
        raise HistogramError(f"the bucket {indexes[-1]} is beyond 64-bit integers")
    lows = within << shift
    return lows, lows + (np.int64(1) << shift) - 1


def _read_object(histogram: Any) -> tuple[int, int, Ints, Ints]:
    refuse_digest(histogram)
    try:
        low, digits, ratio = (
            histogram.lowest_trackable_value,
            histogram.significant_figures,
            histogram.int_to_double_conversion_ratio,
        )
        counts = read_counts("counts", np.ctypeslib.as_array(histogram.counts))
    except (AttributeError, TypeError) as error:
        raise HistogramError(f"give an HdrHistogram or its encoding, not {type(histogram).__name__}") from error
    _check_ratio(ratio)
    low, digits = _check_settings(low, digits)
    some = counts.nonzero()[0]
    return low, digits, some, counts[some]


def _check_settings(low: Any, digits: Any) -> tuple[int, int]:
    low, digits = read_whole("lowest value", low, 1, MAX_VALUE), read_whole("significant digits", digits, 0, 5)
    if int(math.log(low) / math.log(2)) != low.bit_length() - 1:
        raise HistogramError(
            f"a lowest value of {low} is just below a power of two: libraries disagree about its unit, because their "
            "logarithms are rounded. Use the power of two"
        )
    return low, digits


def _check_ratio(ratio: float) -> None:
    if ratio != 1.0:
        raise HistogramError(f"a histogram of doubles, with a ratio of {ratio}, is not supported; only whole numbers")


def _decode(data: str | bytes | bytearray) -> tuple[int, int, Ints, Ints]:
    """Return the lowest value, the digits, and the buckets of an encoded histogram that are not empty."""
    payload = _decompress(data)
    if len(payload) < HEADER.size:
        raise CorruptBytesError("these bytes are not an HdrHistogram: the header is cut short")
    cookie, size, offset, digits, low, _, ratio = HEADER.unpack_from(payload)
    if cookie & ~WORD_SIZE_BITS != COOKIE:
        raise HistogramError(f"an HdrHistogram with the cookie {cookie:#x} is not of the encoding V2")
    if offset != 0:
        raise HistogramError(f"an HdrHistogram with shifted values (an index offset of {offset}) is not supported")
    _check_ratio(ratio)
    low, digits = _check_settings(low, digits)
    if size != len(payload) - HEADER.size:
        raise CorruptBytesError(f"these bytes are not an HdrHistogram: {size} bytes of counts were announced")
    indexes, counts = read_zigzag_counts(payload[HEADER.size :])
    return low, digits, indexes, counts


def _decompress(data: str | bytes | bytearray) -> bytes:
    raw = data.encode("ascii", "replace") if isinstance(data, str) else bytes(data)
    try:
        if raw[:4] != b"\x1c\x84\x93\x14" and raw[:4] != b"\x1c\x84\x93\x04":
            raw = base64.b64decode(raw, validate=True)
        cookie, size = PREFIX.unpack_from(raw)
        if cookie & ~WORD_SIZE_BITS != COMPRESSED_COOKIE:
            raise HistogramError(f"the cookie {cookie:#x} is not that of the compressed encoding V2 of HdrHistogram")
        unpacker = zlib.decompressobj()
        payload = unpacker.decompress(raw[PREFIX.size :], MAX_PAYLOAD + HEADER.size)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise CorruptBytesError(f"these bytes are not an HdrHistogram: {error}") from error
    if size != len(raw) - PREFIX.size or not unpacker.eof or unpacker.unused_data:
        raise CorruptBytesError("these bytes are not an HdrHistogram: they end too early or too late")
    return payload


def read_zigzag_counts(data: bytes) -> tuple[Ints, Ints]:
    """Return the indexes and the counts of buckets that are not empty, from zigzag-encoded numbers of 7 bits a byte.

    A number below 0 stands for so many empty buckets.
    """
    octets = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 128)
    if len(octets) and (not len(ends) or ends[-1] != len(octets) - 1):
        raise CorruptBytesError("these bytes are not an HdrHistogram: the last count is cut short")
    starts = np.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    if len(ends) and (ends - starts).max() > 7:
        raise CountOverflowError(f"a count is above {MAX_N}, up to which ranks are exact")
    position = np.arange(len(octets)) - np.repeat(starts, ends - starts + 1)
    parts = (octets & 127) << (7 * position)
    numbers = np.add.reduceat(parts, starts) if len(starts) else parts
    signed = (numbers >> 1) ^ -(numbers & 1)
    after = np.where(signed < 0, -signed, 1).cumsum()  # buckets up to each number
    if len(after) and ((signed < -MAX_PAYLOAD).any() or after[-1] > MAX_PAYLOAD):
        raise CorruptBytesError("these bytes are not an HdrHistogram: it would have too many buckets")
    some = signed > 0
    return after[some] - 1, read_counts("counts", signed[some])
