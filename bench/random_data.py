"""Random data that is hard to summarise, and summaries of it that were made in many ways."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bench.exact_data import Array, ExactData, ExactPair
from quantide import GKSketch, RecentWindow, SlidingWindow, StreamSketch, Summary

SIZES = ((1, 8), (8, 60), (60, 400), (400, 4_000))
SIZE_SHARES = (0.3, 0.4, 0.26, 0.04)
HUGE = (-1.7e308, -1e308, 1e-300, 1e16, 1e308, 1.7e308)
WAYS = ("exact", "compressed", "compressed tail", "merged", "lifted", "bytes", "sketch", "window", "time window")
WAY_SHARES = (0.12, 0.25, 0.1, 0.25, 0.12, 0.05, 0.07, 0.02, 0.02)
Rng = np.random.Generator
Shapes = dict[str, Callable[[Rng, int], Array]]


def normal(rng: Rng, size: int) -> Array:
    return rng.normal(rng.integers(0, 3), 1.0, size)


FLOATS: Shapes = {
    "normal": normal,
    "sorted": lambda rng, size: np.sort(normal(rng, size)),
    "heavy tail": lambda rng, size: rng.lognormal(0, rng.choice([1, 3, 9]), size),
    "ties": lambda rng, size: rng.integers(-3, 4, size) / 2.0,
    "constant": lambda rng, size: np.full(size, rng.normal()),
    "signed zeros": lambda rng, size: rng.choice([-0.0, 0.0, -5e-324, 1.0], size),
    "denormal": lambda rng, size: rng.integers(-4, 5, size) * 5e-324,
    "huge": lambda rng, size: rng.choice(HUGE, size),
    "infinite": lambda rng, size: rng.choice([-np.inf, -1.5, 0.1, 2.0, 7.3, np.inf], size),
    "one infinity": lambda rng, size: rng.choice([-1.5, 0.1, 2.0, 7.3, np.inf], size),
    "float32": lambda rng, size: rng.lognormal(0, 3, size).astype(np.float32),
    "neighbours": lambda rng, size: 1.0 + rng.integers(-3, 4, size) * 2.0**-52,
    "integers": lambda rng, size: rng.integers(-20, 20, size),
}
INTEGERS: Shapes = {
    "integers": FLOATS["integers"],
    "int32": lambda rng, size: rng.integers(-(2**31), 2**31 - 1, size).astype(np.int32),
    "large integers": lambda rng, size: rng.integers(-(2**63), 2**63 - 1, size),
    "beyond 2^53": lambda rng, size: 2**53 + rng.integers(-3, 4, size),
}


@dataclass
class Sample:
    """Data and summaries of it; `complete` are those whose n is that of the data. Others are lifted further."""

    values: Array
    data: ExactData
    summaries: list[Summary]
    is_complete: list[bool] = field(default_factory=list)

    @property
    def complete(self) -> list[Summary]:
        return [one for one, complete in zip(self.summaries, self.is_complete, strict=True) if complete]


@dataclass
class SamplePair:
    """Two samples, which have values of types that compare, and their exact distances."""

    rng: Rng
    a: Sample
    b: Sample
    exact: ExactPair


def draw_size(rng: Rng) -> int:
    return int(rng.integers(*SIZES[rng.choice(len(SIZES), p=SIZE_SHARES)]))


def draw_values(rng: Rng, family: Shapes = FLOATS) -> Array:
    """Return values of a random shape."""
    shapes = list(family.values())
    return shapes[rng.integers(len(shapes))](rng, draw_size(rng))


def draw_sample(rng: Rng, values: Array, number: int) -> Sample:
    """Return a sample with so many summaries; one in twelve has weights."""
    if rng.random() < 1 / 12:
        weights = rng.integers(1, rng.choice([3, 1_000, 10**12]), len(values))
        whole = Summary.of(values, weights=weights)
        made = [whole.compress(int(rng.integers(1, 60))) for _ in range(number)]
        return Sample(values, ExactData(values, weights), made, [True] * number)
    data, sample = values, Sample(values, ExactData(values), [])
    for way in rng.choice(WAYS, number, p=WAY_SHARES):
        summary, complete = summarise(rng, str(way), data)
        sample.summaries.append(summary)
        sample.is_complete.append(complete)
    return sample


def summarise(rng: Rng, way: str, values: Array) -> tuple[Summary, bool]:
    """Return a summary that was made in some way, and whether its n is the number of values."""
    size = int(rng.integers(1, rng.choice([4, 12, 60])))
    if way == "exact":
        return Summary.of(values), True
    if way == "compressed":
        return Summary.of(values).compress(size), True
    if way == "compressed tail":
        return Summary.of(values).compress(size, float(rng.choice([0.01, 0.1, 0.5]))), True
    if way == "merged":
        parts = np.array_split(rng.permutation(values), int(rng.integers(2, 5)))
        small = [Summary.of(part).compress(int(rng.integers(1, 20))) for part in parts if len(part)]
        merged = Summary.merge(*small)
        return (merged if rng.random() < 0.3 else merged.compress(size)), True
    if way == "lifted":
        missing, more = int(rng.integers(0, min(len(values), 1 + len(values) // 4))), int(rng.integers(0, 2))
        return Summary.of(rng.permutation(values)[missing:]).compress(size).lift(missing + more), not more
    if way == "bytes":
        return Summary.from_bytes(Summary.of(values).compress(size).to_bytes()), True
    if way == "sketch":
        sketch = (StreamSketch if rng.random() < 0.7 else GKSketch)(float(rng.choice([0.02, 0.2])))
        sketch.update(values)
        return sketch.summary(), True
    if way == "window":
        window = SlidingWindow(len(values), 0.2)
        window.update(np.concatenate((values[: rng.integers(0, 9)], values)))
        summary = window.summary()
        return summary, summary.n == len(values)
    recent = RecentWindow(0.2, max_age=100)
    before = values[: rng.integers(0, 9)]
    recent.update(np.concatenate((before, values)), times=np.append(np.zeros(len(before)), np.full(len(values), 50.0)))
    summary = recent.summary(within=20)
    return summary, summary.n == len(values)


def draw_pair(rng: Rng, number: int = 2) -> SamplePair:
    """Return two samples with so many summaries each."""
    family = FLOATS if rng.random() < 0.8 else INTEGERS
    a, b = draw_values(rng, family), draw_values(rng, family)
    if rng.random() < 0.15:  # the same data, or nearly
        b = np.append(a, a[:1]) if rng.random() < 0.5 else a
    left, right = draw_sample(rng, a, number), draw_sample(rng, b, number)
    return SamplePair(rng, left, right, ExactPair(left.data, right.data))
