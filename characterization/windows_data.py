"""The streams of the papers: three random ones, four that are sorted in some way, and words by their hashes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

BLOCKS = 50  # of a stream that is sorted in blocks
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def stream(kind: str, n: int) -> Values:
    """The same every time."""
    if kind == WORDS:
        return _words(np.random.default_rng([len(KINDS), n]), n)
    return KINDS[kind](np.random.default_rng([list(KINDS).index(kind), n]), n)


def times(n: int, rate: float) -> Values:
    """Moments of arrivals that come at random, so many a second on average."""
    return np.cumsum(np.random.default_rng([77, n]).exponential(1 / rate, n))


def _uniform(rng: np.random.Generator, n: int) -> Values:
    return rng.random(n)


def _normal(rng: np.random.Generator, n: int) -> Values:
    return rng.normal(size=n)


def _exponential(rng: np.random.Generator, n: int) -> Values:
    return rng.exponential(size=n)


def _sorted(rng: np.random.Generator, n: int) -> Values:
    return np.sort(rng.random(n))


def _reversed(rng: np.random.Generator, n: int) -> Values:
    return np.ascontiguousarray(np.sort(rng.random(n))[::-1])


def _block_sorted(rng: np.random.Generator, n: int) -> Values:
    """Every block is sorted; they all have values of the same range."""
    return np.concatenate([np.sort(block) for block in np.array_split(rng.random(n), BLOCKS)])


def _semi_sorted(rng: np.random.Generator, n: int) -> Values:
    """Every value of a block is below all of the next; within a block they come at random."""
    return np.concatenate([rng.permutation(block) for block in np.array_split(np.sort(rng.random(n)), BLOCKS)])


def _words(rng: np.random.Generator, n: int) -> Values:
    """Numbers that stand for words, a few of which are very frequent."""
    rank = rng.zipf(1.3, n).astype(np.uint64)
    return ((rank * MULTIPLIER) >> np.uint64(33)).astype(np.float64)


WORDS = "words"
KINDS: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "uniform": _uniform,
    "normal": _normal,
    "exponential": _exponential,
    "sorted": _sorted,
    "reversed": _reversed,
    "block-sorted": _block_sorted,
    "semi-sorted": _semi_sorted,
}
