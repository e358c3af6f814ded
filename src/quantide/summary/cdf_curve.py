"""CDF curve: proved lower and upper bounds on the fraction of values at or below x, and its plot (extra plot)."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quantide.errors import InvalidArgumentError, MissingPackageError
from quantide.summary.ranks import check_not_empty
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Floats, Ints

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

PLOT_POINTS = 2_000  # steps that a plot can show; the band of a larger summary gets at most 1/PLOT_POINTS wider
MAX_PLOTTED = 1e300  # matplotlib fails near the largest float64
YEARS = np.array(["0001-01-01", "9999-12-31"], dtype="M8[s]")  # range of matplotlib's time axis


class CdfCurve(NamedTuple):
    """Two step functions: for x[i] <= v < x[i+1], between lo[i] and hi[i] of all values are at most v.

    Entry 0 describes the range below the first step: x[0] is repeated, so that a plot shows the step there.

    *Proof.* Let x[i] <= v < x[i+1], neighbours among the distinct values of the tuples. The last tuple of value
    x[i] stands for an element that is at most v, at rank rmin or above: at least rmin elements are at most v. The first
    tuple of value x[i+1] stands for an element above v, at rank rmax or below: at most rmax - 1 elements are at most v;
    above the last tuple, at most n. `Summary.rank(v)` gives the same bounds, which change only at values of tuples.
    """

    x: Array
    lo: Ints
    hi: Ints


def curve_of(summary: "Summary", points: int) -> CdfCurve:
    """Return the curve of a summary at no more than points + 1 of its values, in the carrier type.

    A larger summary is compressed first, so that its bounds stay true, and the band gets less than 1/points wider.
    Infinite values are counted but are not steps: a curve of infinite values alone is empty.
    """
    small = summary.compress(points)
    values = small.carried
    last = np.flatnonzero(np.append(values[1:] != values[:-1], len(values) > 0))  # the last of equal values
    lo = np.concatenate(([0], small.rmin[last]))
    hi = np.concatenate((small.rmax[:1] - 1, small.rmax[last[:-1] + 1] - 1, [small.n]))
    finite = np.flatnonzero(np.isfinite(values[last]))
    if not len(finite):
        return CdfCurve(values[:0], lo[:0], hi[:0])
    steps = np.arange(finite[0], finite[-1] + 2)
    return CdfCurve(values[last][np.maximum(steps - 1, finite[0])], lo[steps], hi[steps])


def plot_summary(summary: "Summary", ax: Any, label: str | None, log: bool) -> Any:
    """Draw the curve of a summary on axes, by default those of a new figure."""
    check_not_empty(summary.n)
    curve = curve_of(summary, PLOT_POINTS)
    if not len(curve.x):
        raise InvalidArgumentError("all values are infinite, so there is no curve to draw")
    if log:
        _check_logarithm(summary, curve.x)
    x = _axis_values(curve.x, summary.type)
    axes = _new_axes() if ax is None else ax
    lo, hi = curve.lo / summary.n, curve.hi / summary.n
    (line,) = axes.plot(x, (lo + hi) / 2, drawstyle="steps-post", label=label)
    axes.fill_between(x, lo, hi, step="post", alpha=0.3, linewidth=0, color=line.get_color())
    axes.set_xlabel(axis_label(summary.type))
    axes.set_ylabel("fraction of values at or below")
    if log:
        axes.set_xscale("log")
    if label is not None:
        axes.legend()
    return axes


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingPackageError.of("plot()", "matplotlib", "plot") from error
    return plt.subplots()[1]


def _check_logarithm(summary: "Summary", x: Array) -> None:
    if summary.type.dtype.kind == "M":
        raise InvalidArgumentError(f"times ({summary.type}) have no logarithm; leave log=True out")
    if x[0] <= 0:
        least = summary.type.restore(x[:1])[0]
        raise InvalidArgumentError(f"log=True needs values above 0, and the least is {least}; leave it out")


def _axis_values(carried: Array, kind: ValueType) -> Array:
    """Return values for an axis: numbers, or times that matplotlib supports."""
    if kind.dtype.kind != "M":
        numbers: Floats = carried.astype(np.float64) / 10**kind.scale
        if max(-numbers[0], numbers[-1]) > MAX_PLOTTED:
            raise InvalidArgumentError(f"values from {numbers[0]} to {numbers[-1]} are too large for an axis")
        return numbers
    times = kind.restore(carried)
    if times[0] < YEARS[0] or times[-1] > YEARS[1]:
        raise InvalidArgumentError(f"times from {times[0]} to {times[-1]} cannot be drawn: years are 1 to 9999")
    return times


def axis_label(kind: ValueType) -> str:
    """Return the label of the value axis.

    >>> from quantide.summary.value_types import type_named
    >>> [axis_label(type_named(name)) for name in ("duration[ms]", "timestamp[us, tz=UTC]", "int64")]
    ['value (ms)', 'value (UTC)', 'value']
    """
    if kind.dtype.kind == "m":
        return f"value ({np.datetime_data(kind.dtype)[0]})"
    return "value (UTC)" if "tz=" in kind.name else "value"
