"""The curve of a summary: between which two lines the fraction of values at or below x is proved to run."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from quantide.summary.summary import Summary


class Curve(NamedTuple):
    """Two staircases: from x[i] on, and below x[i+1], between lo[i] and hi[i] of all values are at most that.

    Entry 0 is what lies below the first step: x[0] is repeated, so that the rise at it is part of the picture.

    *Proof.* Let x[i] <= v < x[i+1], neighbours among the distinct values that are kept. The last tuple of value x[i]
    stands for an element that is at most v, at rank rmin or above: at least rmin elements are at most v. The first
    tuple of value x[i+1] stands for an element above v, at rank rmax or below: at most rmax - 1 elements are at most v;
    above the last tuple, at most n. This is what `Summary.rank(v)` says, and it changes at kept values only.
    """

    x: NDArray[Any]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]


def curve_of(summary: "Summary", points: int) -> Curve:
    """The curve of a summary at no more than points + 1 of its values, as the numbers that carry them.

    A larger summary is compressed first, so that its bounds hold, and the band is less than 1/points wider. Infinite
    values are counted but are no steps: none of a curve that has them alone.
    """
    small = summary.compress(points)
    values = small.carried
    last = np.flatnonzero(np.append(values[1:] != values[:-1], len(values) > 0))  # of equal values
    lo = np.concatenate(([0], small.rmin[last]))
    hi = np.concatenate((small.rmax[:1] - 1, small.rmax[last[:-1] + 1] - 1, [small.n]))
    finite = np.flatnonzero(np.isfinite(values[last]))
    if not len(finite):
        return Curve(values[:0], lo[:0], hi[:0])
    steps = np.arange(finite[0], finite[-1] + 2)
    return Curve(values[last][np.maximum(steps - 1, finite[0])], lo[steps], hi[steps])
