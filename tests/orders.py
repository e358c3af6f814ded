"""The orders in which values may arrive: named generators, `(rng, n) -> float64 array`.

The last three are made to hurt sketches that work in blocks: what comes next falls where they know least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Order: TypeAlias = Callable[[np.random.Generator, int], Floats]

BLOCK = 1024  # the smallest leaf of StreamSketch


def uniform(rng: np.random.Generator, n: int) -> Floats:
    return rng.random(n)


def ascending(rng: np.random.Generator, n: int) -> Floats:
    return np.sort(rng.normal(size=n))


def descending(rng: np.random.Generator, n: int) -> Floats:
    return np.sort(rng.normal(size=n))[::-1].copy()


def zigzag(rng: np.random.Generator, n: int) -> Floats:
    """Lowest, highest, second lowest, second highest: towards the middle from both ends."""
    del rng
    values = np.arange(n, dtype=np.float64)
    values[1::2] = n - values[1::2]
    return values


def all_equal(rng: np.random.Generator, n: int) -> Floats:
    return np.full(n, rng.normal())


def few_distinct(rng: np.random.Generator, n: int) -> Floats:
    return rng.choice([-3.0, 0.5, 0.5000001, 7.0, 1e300], n, p=[0.05, 0.6, 0.1, 0.2, 0.05])


def block_sorted(rng: np.random.Generator, n: int) -> Floats:
    """Sorted blocks of random values, of lengths that fit no leaf."""
    values = rng.random(n)
    for start in range(0, n, 700):
        values[start : start + 700].sort()
    return values


def semi_sorted(rng: np.random.Generator, n: int) -> Floats:
    """Ascending, each value some places from where it belongs, one in twenty anywhere."""
    values = np.arange(n) + rng.normal(scale=20, size=n)
    stray = rng.random(n) < 0.05
    values[stray] = rng.permutation(values[stray])
    return values


def bit_reversed(rng: np.random.Generator, n: int) -> Floats:
    """0, 1/2, 1/4, 3/4, 1/8, ...: every prefix is evenly spread."""
    del rng
    index, values = np.arange(n), np.zeros(n)
    for bit in range(max(1, n.bit_length())):
        values += ((index >> bit) & 1) * 0.5 ** (bit + 1)
    return values


def drifting(rng: np.random.Generator, n: int) -> Floats:
    walk: Floats = np.cumsum(rng.normal(size=n))
    return walk + rng.normal(scale=10, size=n)


def heavy_tailed(rng: np.random.Generator, n: int) -> Floats:
    values: Floats = rng.pareto(0.3, n) * rng.choice([-1.0, 1.0], n)
    return values


def infinities(rng: np.random.Generator, n: int) -> Floats:
    values = rng.normal(size=n)
    kind = rng.random(n)
    values[kind < 0.15] = -np.inf
    values[kind > 0.9] = np.inf
    return values


def signed_zeros(rng: np.random.Generator, n: int) -> Floats:
    return rng.choice([-0.0, 0.0, 5e-324, -5e-324, 1.0, -1.0], n, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])


def nested(rng: np.random.Generator, n: int) -> Floats:
    """Each block lies in the middle of all blocks before it: in one single gap of every earlier leaf."""
    values, low, high = np.empty(n), 0, n
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        half = size // 2
        ranks = np.concatenate([np.arange(low, low + half), np.arange(high - (size - half), high)])
        values[start : start + size] = rng.permutation(ranks)
        low, high = low + half, high - (size - half)
    return values


def beside_samples(rng: np.random.Generator, n: int) -> Floats:
    """Each block lies right behind one of few evenly spaced elements, the ones a sketch tends to keep."""
    anchors = np.sort(rng.normal(size=8))
    values = np.empty(n)
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        reach = 2.0 ** -(start // BLOCK % 40)
        values[start : start + size] = rng.choice(anchors) + reach * rng.random(size)
    return values


def widest_gap(rng: np.random.Generator, n: int) -> Floats:
    """Each block lies in the widest gap of an imagined sketch that keeps ever fewer of the old elements."""
    line = np.arange(min(BLOCK, n))  # arrivals in the order of their values, so far
    kept = line % 64 == 0
    for start in range(BLOCK, n, BLOCK):
        places = np.flatnonzero(kept[line])
        ends = np.concatenate([[0], places, [len(line)]])
        wide = int(np.argmax(np.diff(ends)))
        middle = (ends[wide] + ends[wide + 1]) // 2
        block = np.arange(start, min(start + BLOCK, n))
        line = np.insert(line, middle, block)
        old = kept & (rng.random(len(kept)) < 0.9)
        kept = np.concatenate([old, (block - start) % 64 == 0])
    values = np.empty(n)
    values[line] = np.arange(n)
    for start in range(0, n, BLOCK):
        rng.shuffle(values[start : start + BLOCK])
    return values


ORDERS: dict[str, Order] = {
    order.__name__: order
    for order in (
        uniform,
        ascending,
        descending,
        zigzag,
        all_equal,
        few_distinct,
        block_sorted,
        semi_sorted,
        bit_reversed,
        drifting,
        heavy_tailed,
        infinities,
        signed_zeros,
        nested,
        beside_samples,
        widest_gap,
    )
}
