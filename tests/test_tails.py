"""The tail of the guarantee: every rank is answered within a share of its distance from either end."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import SlidingWindow, StreamSketch, Summaries, Summary
from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.kernels.error_profile import ranks_in_range, ranks_of_profile
from quantide.sketches.running_summary import DOUBLINGS
from quantide.sketches.stream_sketch import MIN_LEAF
from quantide.summary.ranks import MAX_N
from tests.oracle import tail_faults
from tests.orders import ORDERS

EPS, TAIL = 0.02, 0.1
Rng = np.random.Generator


def faults(values: Any, summary: Summary, eps: float = EPS, tail: float = TAIL) -> list[str]:
    """Return what contradicts the promise, at every rank of small data and at those near the ends of large data."""
    assert summary.n == len(values)
    certified = summary.tail
    assert certified is not None
    assert certified <= tail * (1 + 1e-9)
    assert summary.error <= eps
    return tail_faults(np.sort(values), summary.quantiles, eps, tail)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [1, 2, 50, 4095, 4096, 4097, 40_000, 200_003])
def test_every_order(order: str, size: int, rng: Rng) -> None:
    values = ORDERS[order](rng, size)
    sketch = StreamSketch(EPS, tail=TAIL)
    sketch.update(values)
    assert sketch.tail == TAIL
    assert not faults(values, sketch.summary())
    assert sketch.nbytes <= StreamSketch.max_nbytes(EPS, size, tail=TAIL)


def test_values_one_by_one(rng: Rng) -> None:
    """The state does not depend on how values are divided into calls, nor on queries in between."""
    values = rng.lognormal(0, 2, 9000)
    at_once, one_by_one = StreamSketch(0.01), StreamSketch(0.01)
    at_once.update(values)
    for i, value in enumerate(values.tolist()):
        one_by_one.update(value)
        if i % 1500 == 7:
            assert not faults(values[: i + 1], one_by_one.summary(), 0.01, 0.1)
    assert one_by_one.to_bytes() == at_once.to_bytes()
    assert not faults(values, one_by_one.summary(), 0.01, 0.1)


@pytest.mark.parametrize("where", ["early", "late", "alternating", "in one block", "at block edges"])
def test_the_extremes_arrive(where: str, rng: Rng) -> None:
    """Insert extreme values at the positions that are worst for blocks."""
    size, extremes = 120_000, 600
    values = rng.random(size)
    places = {
        "early": np.arange(extremes),
        "late": np.arange(size - extremes, size),
        "alternating": np.arange(extremes) * (size // extremes),
        "in one block": 5 * 4096 + np.arange(extremes) * 4,
        "at block edges": np.concatenate([4096 * k + np.arange(-15, 15) for k in range(1, 21)]),
    }[where]
    values[places[::2]] = 10 + rng.random(len(places[::2]))
    values[places[1::2]] = -10 - rng.random(len(places[1::2]))
    sketch = StreamSketch(EPS, tail=TAIL)
    for piece in np.array_split(values, 77):
        sketch.update(piece)
    assert not faults(values, sketch.summary())


@pytest.mark.parametrize("ties", ["top", "bottom", "both", "five values"])
def test_ties_at_the_ends(ties: str, rng: Rng) -> None:
    values = rng.random(60_000)
    if ties in ("top", "both"):
        values[rng.permutation(60_000)[:500]] = 2.0
    if ties in ("bottom", "both"):
        values[rng.permutation(60_000)[:500]] = -1.0
    if ties == "five values":
        values = np.floor(values * 5)
    sketch = StreamSketch(EPS, tail=TAIL)
    sketch.update(values)
    assert not faults(values, sketch.summary())


@pytest.mark.parametrize("way", ["equal", "one large", "small ones", "tree"])
def test_merges(way: str, rng: Rng) -> None:
    sizes = {
        "equal": [20_000] * 8,
        "one large": [150_000, 3, 9000],
        "small ones": [1, 7, 100] * 20,
        "tree": [9000] * 16,
    }
    parts = [rng.lognormal(k % 3, 2, size) for k, size in enumerate(sizes[way])]
    sketches = [StreamSketch(EPS, tail=TAIL) for _ in parts]
    for sketch, part in zip(sketches, parts, strict=True):
        sketch.update(part)
    while way == "tree" and len(sketches) > 1:
        for one, other in zip(sketches[::2], sketches[1::2], strict=True):
            one.merge(other)
        sketches = sketches[::2]
    for other in sketches[1:]:
        sketches[0].merge(other)
    assert not faults(np.concatenate(parts), sketches[0].summary())
    again = StreamSketch.from_bytes(sketches[0].to_bytes())
    assert (again.tail, again.to_bytes()) == (TAIL, sketches[0].to_bytes())


@given(st.data())
def test_any_sequence_of_calls(data: st.DataObject) -> None:
    """Updates, merges, summaries and copies by bytes, in any order, on few or many distinct values."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    eps, tail = data.draw(st.sampled_from([(0.3, 0.5), (0.1, 0.3), (0.02, 0.2), (0.02, 0.05)]))
    sketch, seen = StreamSketch(eps, tail=tail), [np.empty(0)]
    for _ in range(data.draw(st.integers(1, 6))):
        size = data.draw(st.sampled_from([1, 3, 40, 700, 5000, 9000]))
        values = rng.integers(0, data.draw(st.sampled_from([3, 50, 10**6])), size).astype(float)
        match data.draw(st.sampled_from(["update", "merge", "summary", "bytes"])):
            case "update":
                sketch.update(values)
            case "merge":
                other = StreamSketch(eps, tail=tail)
                other.update(values)
                sketch.merge(other)
            case "summary":
                sketch.update_summary(Summary.of(values).compress(int(1 / eps) + 1, tail / 2))
            case "bytes":
                sketch = StreamSketch.from_bytes(sketch.to_bytes())
                continue
        seen.append(values)
        assert sketch.tail == tail
        assert not faults(np.concatenate(seen), sketch.summary(), eps, tail)


@given(st.integers(1, 3000), st.integers(0, 60), st.sampled_from([0.001, 0.02, 0.11, 0.5, 1.9]))
def test_ranks_of_a_profile(n: int, limit: int, slope: float) -> None:
    ranks = ranks_of_profile(n, limit, slope)
    gaps = np.diff(ranks) - 1
    assert (ranks[0], ranks[-1]) == (1, n)
    assert (gaps >= 0).all()
    assert gaps.max(initial=0) <= limit
    assert (gaps <= slope * np.minimum(n - ranks[1:], ranks[:-1] - 1)).all()


@given(st.data(), st.integers(1, 3000), st.integers(0, 60), st.sampled_from([-1.0, 0.001, 0.02, 0.11, 0.5, 1.9]))
def test_ranks_of_a_range_count_from_the_ends_of_all(data: st.DataObject, n: int, limit: int, slope: float) -> None:
    first = data.draw(st.integers(1, n))
    last = data.draw(st.integers(first, n))
    ranks = ranks_in_range(first, last, n, limit, slope)
    gaps = np.diff(ranks) - 1
    assert (ranks[0], ranks[-1]) == (first, last)
    assert (gaps >= 0).all()
    assert gaps.max(initial=0) <= limit
    if slope >= 0:
        assert (gaps <= slope * np.minimum(n - ranks[1:], ranks[:-1] - 1)).all()
    middle = (ranks[:-1] > n / 4) & (ranks[1:] < 3 * n / 4) & (ranks[:-1] > first)
    assert (gaps[middle] >= min(limit, (slope if slope >= 0 else 1) * n / 8 - 2)).all(), "more ranks than are needed"


@given(st.data())
def test_compression_adds_to_the_tail_what_it_may(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    sizes = data.draw(st.lists(st.integers(1, 800), min_size=1, max_size=4))
    distinct = data.draw(st.sampled_from([2, 30, 10**6]))
    parts, summaries = [rng.integers(0, distinct, size) for size in sizes], []
    for part in parts:
        summaries.append(Summary.of(part).compress(20, 0.05))
        assert not faults(part, summaries[-1], 0.025 + 0.5 / len(part), 0.05)
    merged = Summary.merge(*summaries)
    values = np.concatenate(parts)
    largest = max((s.tail or 0.0 for s in summaries), default=0.0)
    error = sum(s.rank_error for s in summaries) / merged.n
    assert not faults(values, merged, error + 0.5 / merged.n, largest)
    small = merged.compress(10, 0.1)
    assert not faults(values, small, error + 0.05 + 1 / merged.n, largest + 0.1)
    assert len(small) <= len(merged)


def test_summaries_by_key(rng: Rng) -> None:
    keys, values = rng.integers(0, 40, 50_000), rng.lognormal(0, 2, 50_000)
    by_key = Summaries.of(keys, values, 0.01)
    parts = [Summaries.of(keys[half], values[half], 0.01) for half in (slice(None, 9000), slice(9000, None))]
    merged = Summaries.merge(*parts).compress(200, 0.02)
    for key in range(40):
        group = values[keys == key]
        assert not faults(group, by_key[key], 0.01, 0.1)
        assert not faults(group, merged[key], 0.0125 + 1 / len(group), 0.12)
        assert by_key.tail[key] == by_key[key].tail
    assert np.isnan(Summaries.of(keys, values, 0.01, tail=None).tail).all()


def test_parts_without_a_tail() -> None:
    values = np.arange(50_000.0)
    plain = StreamSketch(EPS, tail=None)
    plain.update(values)
    sketch = StreamSketch(EPS, tail=TAIL)
    sketch.update(values)
    sketch.merge(StreamSketch(EPS, tail=None))
    assert sketch.tail == TAIL  # an empty part changes nothing
    sketch.merge(plain)
    promised: float | None = sketch.tail
    assert promised is None
    assert sketch.summary().tail is None
    assert sketch.error <= EPS
    assert StreamSketch.from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()


def test_unequal_tails_give_the_larger(rng: Rng) -> None:
    values = rng.random(50_000)
    sketch, other = StreamSketch(EPS, tail=TAIL), StreamSketch(EPS, tail=0.2)
    sketch.update(values)
    other.update(values)
    sketch.merge(other)
    assert sketch.tail == 0.2
    assert not faults(np.concatenate((values, values)), sketch.summary(), EPS, 0.2)
    sketch.update_summary(Summary.of(values).compress(100, 0.15))
    assert sketch.tail == pytest.approx(0.3, rel=0.05)
    assert not faults(np.concatenate([values] * 3), sketch.summary(), EPS, sketch.tail)
    sketch.update_summary(Summary.of(values).compress(100))
    assert sketch.tail is None


@pytest.mark.parametrize(("eps", "tail"), [(0.001, 0.01), (0.01, 0.1), (0.02, None), (0.5, None)])
def test_the_default(eps: float, tail: float | None) -> None:
    assert StreamSketch(eps).tail == tail


@pytest.mark.parametrize("tail", [0, -1, 1, 2.5, float("nan"), "0.1", True, 1e-20])
def test_what_is_no_tail(tail: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="tail must be"):
        StreamSketch(0.01, tail=tail)


def test_a_value_with_several_tuples_has_every_rank_between_them() -> None:
    values = np.sort(np.repeat(np.arange(5.0), 1000))
    summary = Summary.of(values).compress(20)
    for phi in (0.05, 0.1, 0.15):
        answer = summary.answer(phi)
        assert (answer.value, answer.rank_lo, answer.rank_hi, answer.error) == (0, answer.target, answer.target, 0)
    assert Summaries.of(np.zeros(5000), values, 0.02).answer([0.1])["error"].to_pylist() == [0]


def forged(data: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the first occurrence of some bytes, and repair the checksum."""
    assert old in data
    body = data[:-4].replace(old, new, 1)
    return body + struct.pack("<I", zlib.crc32(body))


def test_bytes_that_claim_a_tail_are_refused() -> None:
    """Bytes that claim a tail are refused: of a pool of coarse summaries, and of buckets of a window without a tail."""
    sketch = StreamSketch(0.1, tail=None)
    sketch.update_summary(Summary.of(np.arange(20_000.0)).compress(20))
    leaf = struct.pack("<Q", sketch.leaf)
    with pytest.raises(CorruptBytesError):
        StreamSketch.from_bytes(forged(sketch.to_bytes(), bytes(8) + leaf, struct.pack("<d", 0.01) + leaf))
    window = SlidingWindow(1_000_000, 0.01)
    window.update_summary(Summary.of(np.arange(50_000.0)).compress(200))
    flag = struct.pack("<dQ", 0.1, 1)
    assert window.tail is None
    with pytest.raises(CorruptBytesError):
        SlidingWindow.from_bytes(forged(window.to_bytes(), flag, struct.pack("<dQ", 0.1, 0)))


def test_the_share_of_gaps_cannot_rise_further_than_the_proof_has_it() -> None:
    assert MIN_LEAF * 2 ** (DOUBLINGS - 1) >= MAX_N


@pytest.mark.parametrize("tail", [2.0**-53, 2.0**-50])
def test_the_smallest_tails_are_exact(tail: float) -> None:
    sketch = StreamSketch(0.1, tail=tail)
    sketch.update(np.arange(20_000.0))
    assert sketch.quantile(0.77) == 15_399
    assert Summaries.of(np.zeros(9000), np.arange(9000.0), 0.1, tail=tail / 76).compress(4, tail / 76)[0].error == 0
