"""Random lists of values that are hard for histograms: ties, edges of buckets and their neighbours, extreme sizes."""

import math

import numpy as np

from tests.histograms.producers import BOUNDS, Values


def random_values(rng: np.random.Generator) -> Values:
    """Return 1 to 40 values of a random shape."""
    n = int(rng.choice([1, 2, 3, 8, 40]))
    shape = int(rng.integers(9))
    if shape == 0:
        return [float(x) for x in rng.lognormal(0, 3, n)]
    if shape == 1:
        return [float(x) for x in rng.integers(-3, 4, n)]
    if shape == 2:
        return [float(x) for x in rng.normal(0, 10, n)]
    if shape == 3:
        return [float(rng.choice([0.0, 1.0, 0.25, 7.5]))] * n
    if shape == 4:  # powers of two of any scale, and their neighbours
        exponents = rng.integers(-400, 400, n) / 2.0 ** rng.integers(0, 9, n)
        return [_near(float(2.0**e), rng) for e in exponents]
    if shape == 5:
        return [_near(float(rng.choice(BOUNDS)), rng) for _ in range(n)]
    if shape == 6:  # powers of the base of a DDSketch, and their neighbours
        return [_near((1.01 / 0.99) ** int(k), rng) for k in rng.integers(-2000, 2000, n)]
    if shape == 7:
        return [float(x) for x in rng.choice([5e-324, 1e-310, 2.0**-1022, 1e-300, 1e-9, 1.0, 1e9, 1e300, 1.7e308], n)]
    return [float(x) for x in np.concatenate((np.zeros(n // 2), rng.exponential(1, n - n // 2)))]


def _near(x: float, rng: np.random.Generator) -> float:
    return float(rng.choice([math.nextafter(x, -math.inf), x, x, math.nextafter(x, math.inf)]))


def random_integers(rng: np.random.Generator) -> Values:
    """Return whole numbers from 0 on, below 2^40, near powers of two and anywhere."""
    n = int(rng.choice([1, 2, 3, 8, 40]))
    powers = 2 ** rng.integers(0, 39, n) + rng.integers(-1, 2, n)
    return [float(x) for x in rng.choice([powers, rng.integers(0, 3000, n), rng.integers(0, 2**39, n)])]
