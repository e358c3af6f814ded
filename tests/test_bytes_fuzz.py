"""Bytes from strangers: truncated, flipped, random and hostile ones give one named error, and cost nothing.

The last four bytes are the CRC-32 of all before them, little-endian (docs/format.md). With it repaired, a
change must either be refused or be a value whose own bytes are exactly these, as if someone had made it.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import (
    ConstrainedWindow,
    GKSketch,
    Monitor,
    RecentWindow,
    SlidingWindow,
    StreamSketch,
    Summary,
    errors,
    last,
    within,
)
from quantide.sketches.byte_frame import FrameWriter
from quantide.summary.value_types import type_named
from tests import oracle
from tests.sampling import one_in
from tests.windows.small_windows import BucketWindow, SmallRecentWindow

ROOT = Path(__file__).parent.parent
LIMIT = 2**21  # bytes that reading a small hostile blob may take at most


def fed(make: Callable[..., Any], eps: float, values: Any, summaries: bool = False) -> Any:
    sketch = make(eps)
    sketch.update(values)
    if summaries:
        sketch.update_summary(Summary.of(values).compress(3))
        sketch.update_summary(Summary.of(values[:5]))
    return sketch


def makers() -> dict[str, Any]:
    """Small values of every class, of many types and shapes."""
    rng = np.random.default_rng(8)
    some = rng.normal(size=12)
    coarse = Summary.merge(*(Summary.of(rng.normal(size=200)).compress(4) for _ in range(3)))
    return {
        "empty summary": Summary.of([]),
        "exact summary": Summary.of(some),
        "one value": Summary.of([3.5]),
        "ties and infinities": Summary.of([1.0, 1.0, 1.0, np.inf, -np.inf, 0.0]),
        "coarse summary": coarse,
        "lifted summary": coarse.lift(77),
        "skipped values": Summary.of([1.0, None, float("nan")], nan="skip"),
        "float32": Summary.of(some.astype(np.float32)),
        "int8": Summary.of(np.array([-128, 0, 5, 5, 127], dtype=np.int8)),
        "int64": Summary.of(np.array([-(2**63), 0, 2**63 - 1])),
        "times": Summary.of(np.arange(5).astype("datetime64[us]")),
        "decimals": Summary.of([Decimal("1.50"), Decimal("-2.25")]),
        "equal values": Summary.of(np.zeros(40)).compress(5),
        "empty stream": StreamSketch(0.5),
        "short stream": fed(StreamSketch, 0.5, some),
        "long stream": fed(StreamSketch, 0.9, np.arange(3 * 1024 + 5, dtype=np.int16)),
        "mixed stream": fed(StreamSketch, 0.9, some, summaries=True),
        "empty gk": GKSketch(0.5),
        "short gk": fed(GKSketch, 0.2, some),
        "long gk": fed(GKSketch, 0.3, rng.normal(size=500)),
        **windows(some),
    }


def windows(some: Any) -> dict[str, Any]:
    """Windows with values as they are, with buckets, with levels, with slices, with and without times."""
    timed, clamping = RecentWindow(0.5, max_age="5 min", late="clamp"), RecentWindow(0.4, max_items=7)
    timed.update(some, np.arange(12.0))
    timed.update(5.0, 3.0)
    clamping.update(some[:3], np.datetime64("2026-03-01"))
    sliced = RecentWindow(0.5)
    for i in range(6):
        sliced.update_summary(Summary.of(some[: i + 1]), float(i), i + 1.5 * (i == 3))
    mixed = fed(SmallRecentWindow, 0.9, some, summaries=True)
    mixed.update(some[:3])
    levels = SmallRecentWindow(0.9, max_items=300, value_type="int16")
    levels.update(np.arange(700, dtype=np.int16))
    buckets = BucketWindow(60, 0.5)
    buckets.update(some)
    buckets.update_summary(Summary.of(some[:5]))
    buckets.update(np.tile(some, 8))
    sliding = SlidingWindow(9, 0.5)
    sliding.update(some)
    sliding.update_summary(Summary.of(some[:3]))
    return {
        "empty recent": RecentWindow(0.5),
        "timed recent": timed,
        "timestamped recent": clamping,
        "sliced recent": sliced,
        "mixed recent": mixed,
        "levels": levels,
        "empty sliding": SlidingWindow(5, 0.5),
        "sliding": sliding,
        "buckets": buckets,
    }


MADE = makers()
BLOBS: dict[str, bytes] = {name: made.to_bytes() for name, made in MADE.items()}
SMALL = {name: blob for name, blob in BLOBS.items() if len(blob) <= 700}
EACH = pytest.mark.parametrize("name", MADE)


def read(name: str) -> Callable[[bytes], Any]:
    """The reader of the class of a named blob."""
    reader: Callable[[bytes], Any] = type(MADE[name]).from_bytes
    return reader


def repaired(blob: bytes) -> bytes:
    """The same with a true checksum."""
    body = blob[:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def refused_or_canonical(name: str, blob: bytes) -> bool:
    """Return True if a blob was accepted; the object must then be whole, usable, and give back these bytes."""
    try:
        made = read(name)(blob)
    except errors.CorruptBytesError:
        return False
    assert made.to_bytes() == blob
    try:
        summary = made if isinstance(made, Summary) else made.summary()
    except (errors.SpanError, errors.EmptyError):  # a window may begin inside a block, or its values may have expired
        assert isinstance(made, (SlidingWindow, RecentWindow))
        return True
    assert oracle.shape_faults(summary) == []
    assert summary.n == made.n
    if made.n:
        value = made.answer(0.5).value
        assert value == made.quantile(0.5)
        assert value == value
    return True


def test_the_checksum_is_where_the_format_says() -> None:
    for name, blob in BLOBS.items():
        assert repaired(blob) == blob, name
        assert refused_or_canonical(name, blob), name


@EACH
def test_every_truncation(name: str) -> None:
    blob = BLOBS[name]
    for length in range(len(blob)):
        with pytest.raises(errors.CorruptBytesError):
            read(name)(blob[:length])
        if length >= 4:
            refused = repaired(blob[:length])
            assert not refused_or_canonical(name, refused) or refused != blob[:length]


@EACH
def test_every_extension(name: str) -> None:
    for tail in (b"\0", b"\xff" * 3, BLOBS[name], b"\0" * 1000):
        longer = BLOBS[name] + tail
        with pytest.raises(errors.CorruptBytesError):
            read(name)(longer)
        with pytest.raises(errors.CorruptBytesError):
            read(name)(repaired(longer + b"\0\0\0\0"))


@EACH
def test_every_flipped_bit(name: str) -> None:
    blob = bytearray(BLOBS[name])
    for place in range(len(blob)):
        for bit in range(8):
            blob[place] ^= 1 << bit
            with pytest.raises(errors.CorruptBytesError):
                read(name)(bytes(blob))
            blob[place] ^= 1 << bit


@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_bit_with_the_checksum_repaired(name: str) -> None:
    blob = bytearray(SMALL[name])
    taken = 0
    for place in range(len(blob) - 4):
        for bit in range(8):
            blob[place] ^= 1 << bit
            taken += refused_or_canonical(name, repaired(bytes(blob)))
            blob[place] ^= 1 << bit
    assert taken < 8 * len(blob)


@EACH
def test_random_changes_with_the_checksum_repaired(name: str, rng: np.random.Generator) -> None:
    for _ in range(400):
        blob = bytearray(BLOBS[name])
        for _ in range(int(rng.integers(1, 6))):
            _mutate(blob, rng)
        refused_or_canonical(name, repaired(bytes(blob)))


def _mutate(blob: bytearray, rng: np.random.Generator) -> None:
    """Overwrite, cut out, put in or copy some bytes, anywhere before the checksum."""
    body = max(1, len(blob) - 4)
    place, size = int(rng.integers(body)), int(rng.integers(1, 9))
    way = int(rng.integers(5))
    if way == 0:
        blob[place] = int(rng.integers(256))
    elif way == 1:
        del blob[place : min(place + size, len(blob) - 4)]
    elif way == 2:
        blob[place:place] = rng.bytes(size)
    elif way == 3:
        blob[place : min(place + size, len(blob) - 4)] = blob[:size]
    else:
        blob[place : min(place + size, len(blob) - 4)] = bytes([int(rng.choice([0, 1, 127, 128, 255]))]) * size


@pytest.mark.parametrize("name", ["exact summary", "short stream", "short gk"])
def test_random_bytes(name: str, rng: np.random.Generator) -> None:
    for length in [*range(80), 500, 5000]:
        for _ in range(5):
            noise = rng.bytes(length)
            with pytest.raises(errors.CorruptBytesError):
                read(name)(noise)
            head = BLOBS[name][: int(rng.integers(4, 16))]
            refused_or_canonical(name, repaired(head + noise + b"\0\0\0\0"))


def hostile(blob: bytes) -> Iterator[bytes]:
    """Huge counts in place of any bytes: as fixed-width integers and as varints, at every place."""
    for width, code in ((2, "<H"), (4, "<I"), (8, "<Q")):
        for number in (2 ** (8 * width) - 1, 2 ** (8 * width - 1), 2 ** (8 * width - 2) - 1):
            for place in range(len(blob) - 4 - width + 1):
                yield repaired(blob[:place] + struct.pack(code, number) + blob[place + width :])
    for bits in (14, 21, 28, 35, 42, 49, 52, 53, 56, 63, 70):
        varint = b"\xff" * (bits // 7 - 1) + b"\x7f" if bits % 7 == 0 else b"\xff" * (bits // 7) + b"\x0f"
        for place in range(len(blob) - 4):
            for skipped in (1, 2, len(varint)):
                yield repaired(blob[:place] + varint + blob[place + skipped :])


@pytest.mark.parametrize("name", one_in(3, [name for name, blob in BLOBS.items() if len(blob) <= 300]))
def test_hostile_counts_take_no_memory(name: str) -> None:
    take_no_memory(read(name), BLOBS[name], hostile(BLOBS[name]))


def test_hostile_counts_of_monitors_and_expressions_take_no_memory() -> None:
    """Hostile counts with correct checksums of inner frames take no memory."""
    from tests.hostile_bytes import repaired as repaired_within

    monitor, timed = Monitor(0.5), Monitor(0.5, window=RecentWindow(0.2, max_age=60), within=30)
    for one in (monitor, timed):
        one.register_many([0.1, 0.9], 0.6)
    monitor.update(np.arange(9.0))
    timed.update(np.arange(3.0), times=np.arange(3.0))
    for made in (monitor, timed, ConstrainedWindow(last(5) | within(3), 0.5)):
        whole = made.to_bytes()
        numbers = [struct.pack("<Q", number) for number in (2**40, 2**53, 2**63)]
        places = range(len(whole) - 12)
        altered = (whole[:at] + number + whole[at + 8 :] for number in numbers for at in places)
        take_no_memory(type(made).from_bytes, whole, (repaired_within(bytearray(blob)) for blob in altered))


def take_no_memory(reader: Callable[[bytes], Any], whole: bytes, blobs: Iterator[bytes]) -> None:
    """Read hostile forms of these bytes, none of which may take much."""
    reader(whole)
    tracemalloc.start()
    try:
        for blob in blobs:
            assert memory_of(reader, blob) < LIMIT, blob.hex()
    finally:
        tracemalloc.stop()


def memory_of(reader: Callable[[bytes], Any], blob: bytes) -> int:
    """Return the most bytes that reading or refusing these takes."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(errors.CorruptBytesError):
        reader(blob)
    return tracemalloc.get_traced_memory()[1] - before


def test_runs_take_no_more_than_their_values() -> None:
    """Values leave the oldest run alone. If all lacked their beginning, they would take 16,000 times their bytes."""
    frame = FrameWriter(b"QTW", type_named("float64"), 0.5, False, 0, 0)
    for number in (100_000, 200, 0, 200):
        frame.number(number)
    for _ in range(200):
        for number in (1, 65_535, 65_536):
            frame.number(number)
        frame.array(np.array([1.0]))
    tracemalloc.start()
    try:
        assert memory_of(SlidingWindow.from_bytes, frame.finish()) < LIMIT
    finally:
        tracemalloc.stop()
    with pytest.raises(errors.CorruptBytesError):
        SlidingWindow.from_bytes(frame.finish())


def test_a_window_takes_no_memory_before_it_needs_it() -> None:
    """The ranks of its buckets are 27 million numbers; no bucket has them yet."""
    window = SlidingWindow(2**53, 3e-8)
    window.update(1.0)
    blob = window.to_bytes()
    tracemalloc.start()
    try:
        assert memory_of(SlidingWindow.from_bytes, blob) < LIMIT
    finally:
        tracemalloc.stop()
    assert SlidingWindow.from_bytes(blob).quantile(0.5) == 1.0


def survive(seed: int, count: int) -> str:
    """Read hostile bytes in a process of its own, which must end as processes do."""
    command = [sys.executable, "-W", "error", "-m", "tests.hostile_bytes", str(seed), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False)
    return f"{done.returncode} {done.stdout.strip()} {done.stderr[-3000:]}"


def test_hostile_bytes_of_every_class_with_all_checksums_true() -> None:
    assert survive(1, 1200).startswith("0 survived 1200")


@pytest.mark.slow
def test_very_many_hostile_bytes_of_every_class() -> None:
    for seed in (2, 3):
        assert survive(seed, 20_000).startswith("0 survived 20000")


@pytest.mark.parametrize("name", [name for name, blob in BLOBS.items() if len(blob) <= 120])
def test_hostile_counts_are_refused_or_canonical(name: str) -> None:
    for blob in hostile(BLOBS[name]):
        refused_or_canonical(name, blob)


def test_bytes_of_another_class_are_refused() -> None:
    for name, blob in BLOBS.items():
        for other in (Summary, StreamSketch, GKSketch, SlidingWindow, RecentWindow, ConstrainedWindow):
            if not isinstance(MADE[name], other):
                with pytest.raises(errors.CorruptBytesError):
                    other.from_bytes(blob)


def test_an_unknown_version_is_refused_by_name() -> None:
    """Bytes with a larger version in their header are refused by name."""
    for name in ("exact summary", "short stream", "short gk"):
        refused = 0
        for place in range(6):
            blob = bytearray(BLOBS[name])
            blob[place] = (blob[place] + 1) % 256
            refused += not refused_or_canonical(name, repaired(bytes(blob)))
        assert refused >= 4


@pytest.mark.parametrize("wrong", [None, "text", 5, [1, 2], 1.5])
def test_not_bytes(wrong: Any) -> None:
    for cls in (Summary, StreamSketch, GKSketch, SlidingWindow, RecentWindow, ConstrainedWindow):
        reader: Any = cls.from_bytes
        with pytest.raises((errors.CorruptBytesError, TypeError)):
            reader(wrong)
