"""Growth as one number: the exponent c of y ~ x^c."""

import math
from collections.abc import Sequence

Points = Sequence[tuple[float, float]]


def exponent(points: Points) -> float:
    """The slope of the line through the logarithms that fits all points best."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("growth needs points at two different places")
    xs, ys = ([math.log(point[i]) for point in points] for i in (0, 1))
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum((x - x0) ** 2 for x in xs)


def last_exponent(points: Points) -> float:
    """The slope between the last two points: how it goes on."""
    return exponent(sorted(points)[-2:])


def last_step(points: Points) -> float:
    """How much y one more x costs, between the last two points."""
    (x0, y0), (x1, y1) = sorted(points)[-2:]
    return (y1 - y0) / (x1 - x0)
