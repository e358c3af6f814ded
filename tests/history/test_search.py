"""block_search.cut against a full sort: the right cut, at most one block of each segment, constant blocks never.

With blocks read ahead it is the same cut, with at most two blocks of each segment and in fewer waves.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantide.errors import CorruptBytesError
from quantide.history.block_search import Fences, RankCut, Read, cut
from quantide.history.run import RunSegment
from quantide.summary.summary import Summary

Rng = np.random.Generator


@dataclass
class BlockSegment:
    """Sorted values in blocks of the given sizes, and the blocks that were read."""

    values: Any
    sizes: Sequence[int]
    read: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert sum(self.sizes) == len(self.values)
        starts = np.array([0, *accumulate(self.sizes)])
        none = np.zeros(len(self.sizes), dtype=np.int64)
        self.segment = RunSegment(
            self.values[starts[:-1]], starts, self.values[-1], ("",), none, np.arange(len(none)), none
        )

    def block(self, number: int) -> Any:
        """Return a block's values."""
        self.read.append(number)
        start = sum(self.sizes[:number])
        return self.values[start : start + self.sizes[number]]


def reader(by_segment: dict[int, BlockSegment]) -> Read:
    return lambda wave: [by_segment[id(segment)].block(block) for segment, block in wave]


def checked_cut(
    stored: Sequence[BlockSegment], stream: Summary | None, rank: int, fences: Fences | None = None
) -> RankCut:
    """Cut, and check the blocks read for it; also with blocks that are read ahead."""
    fences = fences or Fences([one.segment for one in stored])
    ahead = _cut(stored, stream, rank, fences, ahead=True)
    assert [one.read for one in stored if len(set(one.read)) < len(one.read) or len(one.read) > 2] == []
    rank_cut = _cut(stored, stream, rank, fences, ahead=False)
    assert [len(one.read) for one in stored if len(one.read) > 1] == []
    assert (ahead.below, ahead.above, ahead.before.tolist()) == (
        rank_cut.below,
        rank_cut.above,
        rank_cut.before.tolist(),
    )
    return rank_cut


def _cut(stored: Sequence[BlockSegment], stream: Summary | None, rank: int, fences: Fences, ahead: bool) -> RankCut:
    for one in stored:
        one.read.clear()
    read = reader({id(one.segment): one for one in stored})
    rank_cut = cut(fences, stream, rank, read, ahead=ahead)
    assert rank_cut.blocks_read == sum(len(one.read) for one in stored)
    for one in stored:
        for number in one.read:
            start = sum(one.sizes[:number])
            first, following = one.values[start], one.values[min(start + one.sizes[number], len(one.values) - 1)]
            assert first < following, "a block is read though its fences tell that it is constant"
    return rank_cut


def estimated(stream: Summary | None, value: Any) -> int:
    """Return the middle of the bounds that a summary's tuples prove on the number of elements <= value."""
    if stream is None:
        return 0
    values, rmin, rmax = stream.values.tolist(), stream.rmin.tolist(), stream.rmax.tolist()
    index = bisect_right(values, value)
    return int((rmin[index - 1] if index else 0) + (rmax[index] - 1 if index < len(values) else stream.n)) // 2


class Sorted:
    """All elements in their one order, by (value, segment, position), with their positions among the stream's too."""

    def __init__(self, stored: Sequence[BlockSegment], stream: Summary | None) -> None:
        self.elements = sorted((value, run) for run, one in enumerate(stored) for value in one.values.tolist())
        self.places = [i + 1 + estimated(stream, value) for i, (value, _) in enumerate(self.elements)]
        self.segments = len(stored)
        self.n = len(self.elements) + (stream.n if stream else 0)

    def check(self, rank_cut: RankCut, rank: int) -> None:
        """Check that the elements before the rank are those whose position is below it."""
        split = bisect_left(self.places, rank)
        before = [0] * self.segments
        for _, run in self.elements[:split]:
            before[run] += 1
        assert rank_cut.before.tolist() == before
        assert rank_cut.below == (self.elements[split - 1][0] if split else None)
        assert rank_cut.above == (self.elements[split][0] if split < len(self.elements) else None)


def check_ranks(stored: Sequence[BlockSegment], stream: Summary | None, ranks: Sequence[int] | None = None) -> None:
    """Check the cuts at these ranks, or at all; the fences are made once, as in span views."""
    right = Sorted(stored, stream)
    fences = Fences([one.segment for one in stored])
    for rank in ranks or range(1, right.n + 1):
        right.check(checked_cut(stored, stream, rank, fences), rank)


# --- chosen by hypothesis -----------------------------------------------------------------------------------


@st.composite
def segments(draw: st.DrawFn) -> BlockSegment:
    """Draw few distinct values, so that they tie; blocks of any sizes."""
    top = draw(st.sampled_from([0, 1, 3, 20, 1000]))
    values = draw(st.lists(st.integers(0, top), min_size=1, max_size=draw(st.sampled_from([1, 3, 12, 40]))))
    sizes, left = [], len(values)
    while left:
        sizes.append(draw(st.integers(1, min(left, draw(st.sampled_from([1, 4, 40]))))))
        left -= sizes[-1]
    return BlockSegment(np.sort(np.array(values, dtype=float)), sizes)


@st.composite
def streams(draw: st.DrawFn) -> Summary | None:
    """Draw nothing, or a summary that is exact or very coarse."""
    values = draw(st.none() | st.lists(st.integers(0, 25), min_size=1, max_size=60))
    return Summary.of(np.array(values, dtype=float)).compress(draw(st.integers(1, 12))) if values else None


def check_chosen(stored: list[BlockSegment], stream: Summary | None, at: float) -> None:
    rank = max(1, round(at * (sum(len(one.values) for one in stored) + (stream.n if stream else 0))))
    check_ranks(stored, stream, [rank])


CHOSEN = given(st.lists(segments(), min_size=1, max_size=7), streams(), st.floats(0, 1))


@CHOSEN
@settings(max_examples=150)
def test_any_segments(stored: list[BlockSegment], stream: Summary | None, at: float) -> None:
    check_chosen(stored, stream, at)


@pytest.mark.slow
@CHOSEN
@settings(max_examples=20_000)
def test_very_many_segments(stored: list[BlockSegment], stream: Summary | None, at: float) -> None:
    check_chosen(stored, stream, at)


# --- made to hurt -------------------------------------------------------------------------------------------


def in_blocks(values: Any, size: int) -> BlockSegment:
    whole, rest = divmod(len(values), size)
    return BlockSegment(np.sort(np.asarray(values, dtype=float)), [size] * whole + [rest] * (rest > 0))


def unequal(rng: Rng) -> list[BlockSegment]:
    """Return one long segment beside fifteen short ones."""
    long = in_blocks(rng.integers(0, 3000, 2000), 64)
    return [long, *(in_blocks(rng.integers(0, 3000, int(rng.integers(1, 9))), 64) for _ in range(15))]


def unequal_blocks(rng: Rng) -> list[BlockSegment]:
    """Return blocks of one row beside blocks of half a segment."""
    return [
        BlockSegment(np.sort(rng.normal(size=200)), sizes)
        for sizes in ([1] * 100 + [100], [100] + [1] * 100, [50, 1, 98, 1, 50], [200], [1] * 200, [199, 1])
    ]


def ties(rng: Rng) -> list[BlockSegment]:
    """Return three distinct values only, so that most blocks begin with the same."""
    return [in_blocks(rng.integers(0, 3, int(rng.integers(20, 120))), int(rng.integers(1, 9))) for _ in range(6)]


def constant(rng: Rng) -> list[BlockSegment]:
    """Return segments of one value: nothing needs to be read."""
    return [in_blocks(np.full(60, float(rng.integers(0, 3))), 7) for _ in range(8)]


def nearly_constant(rng: Rng) -> list[BlockSegment]:
    """Return one other value, at an end or hidden within a long tie."""
    out = [in_blocks([5.0] * 90 + [float(rng.integers(4, 7))], 8) for _ in range(4)]
    return [*out, in_blocks([4.0] + [5.0] * 30, 8), in_blocks([5.0] * 30 + [6.0], 8), in_blocks([5.0], 8)]


def same(rng: Rng) -> list[BlockSegment]:
    """Return the same values in each, so that all fences tie."""
    values = rng.normal(size=150)
    return [in_blocks(values, 10) for _ in range(6)]


def interleaved(rng: Rng) -> list[BlockSegment]:
    """Return every value of one segment between two of the others: every block overlaps one of each."""
    del rng
    return [in_blocks(np.arange(120) * 7.0 + i, 8) for i in range(7)]


def apart(rng: Rng) -> list[BlockSegment]:
    """Return segments one after the other, the last first."""
    del rng
    return [in_blocks(np.arange(100) + 100.0 * i, 9) for i in (4, 3, 2, 1, 0)]


def one_block_each(rng: Rng) -> list[BlockSegment]:
    return [in_blocks(rng.integers(0, 40, 30), 30) for _ in range(9)]


def infinities(rng: Rng) -> list[BlockSegment]:
    return [in_blocks(rng.choice([-np.inf, -1.0, 0.0, 1.0, np.inf], 60), 5) for _ in range(5)]


def doubling(rng: Rng) -> list[BlockSegment]:
    """Return segments each half as long as the one before, like levels of runs."""
    return [in_blocks(rng.integers(0, 500, max(1, 1024 >> i)), 32) for i in range(11)]


HURTING: list[Callable[[Rng], list[BlockSegment]]] = [
    unequal,
    unequal_blocks,
    ties,
    constant,
    nearly_constant,
    same,
    interleaved,
    apart,
    one_block_each,
    infinities,
    doubling,
]


@pytest.mark.parametrize("tuples", [None, 1, 6, 10**6])
@pytest.mark.parametrize("make", HURTING, ids=lambda make: str(make.__name__))
def test_segments_that_hurt(make: Callable[[Rng], list[BlockSegment]], tuples: int | None, rng: Rng) -> None:
    """Search without a stream, with a stream known by a few tuples, and with one known exactly."""
    stored = make(rng)
    every = np.concatenate([one.values for one in stored])
    stream = None if tuples is None else Summary.of(rng.choice(every, 200)).compress(tuples)
    n = len(every) + (stream.n if stream else 0)
    ends = [1, 2, n - 1, n]
    check_ranks(stored, stream, [*ends, *rng.integers(1, n + 1, 20).tolist()])


@pytest.mark.parametrize("make", [ties, nearly_constant, infinities], ids=lambda make: str(make.__name__))
def test_every_rank(make: Callable[[Rng], list[BlockSegment]], rng: Rng) -> None:
    check_ranks(make(rng), Summary.of(rng.integers(0, 6, 40).astype(float)).compress(3))


def test_constant_segments_are_never_read(rng: Rng) -> None:
    stored = constant(rng)
    for rank in range(1, 481, 9):
        assert checked_cut(stored, None, rank).blocks_read == 0


def test_segments_after_the_rank_are_never_read() -> None:
    """Fences alone exclude segments after the rank, if no values overlap."""
    stored = [in_blocks(np.arange(1000) + 1000.0 * i, 50) for i in range(20)]
    for rank in (1, 49, 50, 51, 777, 10_000, 10_001, 19_999, 20_000):
        rank_cut = checked_cut(stored, None, rank)
        assert rank_cut.above == rank - 1
        assert [i for i, one in enumerate(stored) if one.read and i > (rank - 1) // 1000] == []


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_every_carrier(dtype: Any, rng: Rng) -> None:
    """Values keep their type, up to the largest integers."""
    ends = np.iinfo(np.int64)
    some = rng.integers(ends.min, ends.max, 50) if dtype == np.int64 else rng.normal(size=50)
    limits = [ends.min, ends.max] if dtype == np.int64 else [-np.inf, np.inf]
    stored = [
        BlockSegment(np.sort(np.append(some[i::3], limits).astype(dtype)), [4] * 4 + [rest])
        for i, rest in enumerate((3, 3, 2))
    ]
    check_ranks(stored, None)
    assert checked_cut(stored, None, 20).above.dtype == dtype


def test_fences_out_of_order_do_no_harm(rng: Rng) -> None:
    """A damaged index file may have these: the search ends, or raises a named error."""
    damaged, other = in_blocks(np.arange(100.0), 5), in_blocks(np.arange(100.0) + 0.5, 5)
    for rank in range(1, 201, 7):
        mixed = replace(damaged.segment, fences=rng.permutation(damaged.segment.fences))
        read = reader({id(mixed): damaged, id(other.segment): other})
        with suppress(CorruptBytesError):
            cut(Fences([mixed, other.segment]), None, rank, read)


# --- reading ahead ------------------------------------------------------------------------------------------


def smooth(rng: Rng) -> list[BlockSegment]:
    return [in_blocks(rng.lognormal(0, 1, int(rng.integers(20, 100)) * 512), 512) for _ in range(12)]


def rounded(rng: Rng) -> list[BlockSegment]:
    return [in_blocks(np.round(rng.lognormal(3, 0.8, 64 * 512), 1), 512) for _ in range(12)]


def shifted(rng: Rng) -> list[BlockSegment]:
    return [in_blocks(rng.normal(i / 10, 1, 64 * 512), 512) for i in range(12)]


@pytest.mark.parametrize("make", [smooth, rounded, shifted], ids=lambda make: str(make.__name__))
def test_a_wave_read_ahead_is_mostly_enough(make: Callable[[Rng], list[BlockSegment]], rng: Rng) -> None:
    """One wave of blocks read ahead is mostly enough; without it twelve segments take about six waves."""
    stored = make(rng)
    fences = Fences([one.segment for one in stored])
    ranks = [max(1, round(phi * fences.n)) for phi in np.linspace(0.02, 0.98, 49)]
    ahead = [_cut(stored, None, rank, fences, ahead=True) for rank in ranks]
    without = [_cut(stored, None, rank, fences, ahead=False) for rank in ranks]
    assert [one.above for one in ahead] == [one.above for one in without]
    assert sum(one.waves for one in without) > 4 * len(ranks)
    assert sum(one.waves == 1 for one in ahead) >= 0.6 * len(ranks)
    assert max(one.waves for one in ahead) <= 3
    assert sum(one.blocks_read for one in ahead) <= sum(one.blocks_read for one in without) + len(ranks)
