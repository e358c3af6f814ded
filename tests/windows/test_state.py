"""Serialized windows: a restored window continues identically; untrusted bytes are rejected."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quantide import ConstrainedWindow, RecentWindow, SlidingWindow, Summary, errors, last, where, within
from quantide.windows import constrained_window
from tests.windows.small_windows import BucketWindow, SmallRecentWindow, small_layout

Rng = np.random.Generator
ROOT = Path(__file__).parent.parent.parent


def table(values: Any, times: Any) -> pa.Table:
    return pa.table({"value": values, "time": times, "src": np.where(np.asarray(values) % 1 < 0.3, "A", "B")})


MAKERS: dict[str, Callable[[], Any]] = {
    "sliding": lambda: SlidingWindow(700, 0.1),
    "buckets": lambda: BucketWindow(700, 0.1, nan="skip"),
    "recent": lambda: RecentWindow(0.1, max_items=5000),
    "recent, limits": lambda: SmallRecentWindow(0.1, max_items=900, max_age="10 min"),
    "recent, everything": lambda: SmallRecentWindow(0.3, late="clamp"),
    "constrained": lambda: ConstrainedWindow(
        (within(500) & where(pc.field("src") == "A")) | (last(300) & ~where(pc.field("src") == "A")), 0.1
    ),
}


def feed(window: Any, values: Any, times: Any, as_block: bool) -> None:
    if isinstance(window, ConstrainedWindow):
        window.update(table(values, times))
    elif isinstance(window, SlidingWindow):
        window.update_summary(Summary.of(values)) if as_block else window.update(values)
    elif as_block:
        window.update_summary(Summary.of(values), times[0], times[-1])
    else:
        window.update(values, times)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("blocks", [False, True])
def test_restarts_in_the_middle(name: str, blocks: bool, rng: Rng) -> None:
    """A window restored after every part gives the same bytes and answers as one that was not."""
    straight, restarted = MAKERS[name](), MAKERS[name]()
    now = 0.0
    for i in range(150):
        n = int(rng.choice([1, 2, 30, 64, 250]))
        values, times = rng.normal(size=n), now + np.sort(rng.random(n)) * 3
        now = float(times[-1])
        as_block = blocks and i % 3 == 0 and n < 40
        for window in (straight, restarted):
            feed(window, values, times, as_block)
        blob = restarted.to_bytes()
        restarted = type(restarted).from_bytes(blob)
        assert restarted.to_bytes() == blob == straight.to_bytes()
        if i % 10 == 0:
            assert public_state(restarted) == public_state(straight)
    assert restarted.arrived == straight.arrived > 5000


def public_state(window: Any) -> tuple[Any, ...]:
    """Return all public properties of a window."""
    names = (
        "n",
        "arrived",
        "eps",
        "nulls",
        "nans",
        "type",
        "tuples",
        "clamped",
        "newest",
        "max_items",
        "max_age",
        "size",
    )
    read = tuple(getattr(window, name, None) for name in names)
    try:
        return (*read, window.error, window.answer(0.3), window.summary().to_bytes())
    except (errors.SpanError, errors.EmptyError) as refused:
        return (*read, str(refused))


def test_what_is_set_comes_back() -> None:
    window = SmallRecentWindow(0.25, max_items=77, max_age="1.5 h", nan="skip", late="clamp", value_type="float32")
    restored = SmallRecentWindow.from_bytes(window.to_bytes())
    assert (restored.eps, restored.max_items, restored.max_age, str(restored.type)) == (0.25, 77, 5400.0, "float32")
    restored.update([1.0, float("nan")], [5.0, 6.0])
    restored.update([2.0], [1.0])
    assert (restored.nans, restored.clamped, restored.quantile(1.0).dtype) == (1, 1, np.float32)
    sliding = SlidingWindow.from_bytes(SlidingWindow(9, 0.5, nan="skip", value_type="int16").to_bytes())
    assert (sliding.size, str(sliding.type)) == (9, "int16")
    constrained = ConstrainedWindow(last(5), 0.1, value="v", time="t", nan="skip", late="clamp", value_type="int64")
    back = ConstrainedWindow.from_bytes(constrained.to_bytes())
    back.update(pa.table({"v": [1, 2], "t": [2.0, 1.0]}))
    assert (back.clamped, back.quantile(1.0), str(back.type)) == (1, 2, "int64")


STRANGERS = """
import struct, sys, zlib
import numpy as np, pyarrow as pa, pyarrow.compute as pc
from quantide import ConstrainedWindow, errors, last, where, within
from quantide.windows import constrained_window
from tests.windows.small_windows import small_layout

constrained_window.layout_for = small_layout

expression = (within("5 min") & where(pc.field("src") == "A")) | (last(3) & where(pc.field("n") > 2.5))
window = ConstrainedWindow(expression, 0.5)
window.update(pa.table({"value": np.arange(6.0), "time": np.arange(6.0), "src": list("ABABAB"), "n": np.arange(6.0)}))
whole = window.to_bytes()
rng = np.random.default_rng(int(sys.argv[1]))


def read(blob):
    try:
        made = ConstrainedWindow.from_bytes(blob)
    except errors.CorruptBytesError:
        return 0
    made.to_bytes()
    try:
        made.quantile(0.5)
        made.update(pa.table({"value": [1.0], "time": [900.0], "src": ["A"], "n": [5.0]}), late="clamp")
        made.quantile(0.5)
    except errors.QuantideError:
        pass
    return 1


def repaired(body):
    return bytes(body) + struct.pack("<I", zlib.crc32(body))


taken = 0
for place in rng.permutation(len(whole) - 4)[: int(sys.argv[2])]:
    for bit in range(8):
        blob = bytearray(whole)
        blob[place] ^= 1 << bit
        if read(bytes(blob)):
            raise SystemExit("a flipped bit was not noticed")
        taken += read(repaired(blob[:-4]))
for length in range(0, len(whole), 7):
    if read(whole[:length]):
        raise SystemExit("taken though cut short")
    read(repaired(whole[:length]))
for _ in range(int(sys.argv[2])):
    body = bytearray(whole[:-4])
    for _ in range(int(rng.integers(1, 4))):
        at, size = int(rng.integers(len(body))), int(rng.integers(1, 9))
        body[at : at + size] = bytes(rng.integers(0, 256, int(rng.integers(0, 9)), dtype=np.uint8))
    taken += read(repaired(body))
print("survived", taken)
"""


def survive(seed: int, offsets: int) -> str:
    """Read damaged bytes in a separate process, which must exit normally."""
    command = [sys.executable, "-W", "error", "-c", STRANGERS, str(seed), str(offsets)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    return f"{done.returncode} {done.stdout.strip()} {done.stderr[-2000:]}"


def test_filters_from_strangers_do_not_end_the_process() -> None:
    """Damaged bytes of filters, which Arrow reads, are refused or read as another filter, without a crash."""
    assert survive(1, 150).startswith("0 survived")


@pytest.mark.slow
def test_many_filters_from_strangers_do_not_end_the_process() -> None:
    for seed in (2, 3, 4):
        assert survive(seed, 3000).startswith("0 survived")


@pytest.mark.parametrize("kind", ["recent", "constrained"])
@pytest.mark.parametrize("limit", [0, 1011, 3000, 2**33 + 1010])
def test_a_forged_limit_beyond_the_kept_values(kind: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes whose limit is beyond the values that the window stores are refused; 0 is no limit."""
    monkeypatch.setattr(constrained_window, "layout_for", small_layout)
    window: Any
    if kind == "recent":
        window = SmallRecentWindow(0.3, max_items=1010)
        window.update(np.arange(5000.0))
    else:
        window = ConstrainedWindow(last(1010), 0.3)
        window.update({"value": np.arange(5000.0)})
    whole = window.to_bytes()
    assert type(window).from_bytes(whole).to_bytes() == whole
    body = whole[:-4].replace(struct.pack("<Q", 1010), struct.pack("<Q", limit), 1)
    forged = body + struct.pack("<I", zlib.crc32(body))
    if limit == 1011:  # blocks are forgotten whole: some values beyond the limit are kept
        assert type(window).from_bytes(forged).n >= 1011
        return
    with pytest.raises(errors.CorruptBytesError):
        type(window).from_bytes(forged)
