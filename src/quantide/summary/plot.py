"""A summary as a picture: its curve, and the band in which the truth is proved to lie. Needs the extra plot."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quantide.errors import InvalidArgumentError, MissingPackageError
from quantide.summary.curve import curve_of
from quantide.summary.ranks import check_not_empty
from quantide.summary.types import ValueType

if TYPE_CHECKING:
    from quantide.summary.summary import Summary

POINTS = 2_000  # steps that a picture can show; the band of a larger summary gets at most 1/POINTS wider
LARGEST = 1e300  # matplotlib cannot go to the end of float64
YEARS = np.array(["0001-01-01", "9999-12-31"], dtype="M8[s]")  # what matplotlib can put on an axis


def plot_summary(summary: "Summary", ax: Any, label: str | None, log: bool) -> Any:
    """Draw the curve of a summary on axes; on those of a new figure when there are none."""
    check_not_empty(summary.n)
    curve = curve_of(summary, POINTS)
    if not len(curve.x):
        raise InvalidArgumentError("all values are infinite, so there is no curve to draw")
    if log:
        check_logarithm(summary, curve.x)
    x = on_axis(curve.x, summary.type)
    axes = new_axes() if ax is None else ax
    lo, hi = curve.lo / summary.n, curve.hi / summary.n
    (line,) = axes.plot(x, (lo + hi) / 2, drawstyle="steps-post", label=label)
    axes.fill_between(x, lo, hi, step="post", alpha=0.3, linewidth=0, color=line.get_color())
    axes.set_xlabel(unit_of(summary.type))
    axes.set_ylabel("fraction of values at or below")
    if log:
        axes.set_xscale("log")
    if label is not None:
        axes.legend()
    return axes


def new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingPackageError.of("a picture", "matplotlib", "plot") from error
    return plt.subplots()[1]


def check_logarithm(summary: "Summary", x: NDArray[Any]) -> None:
    if summary.type.dtype.kind == "M":
        raise InvalidArgumentError(f"times ({summary.type}) have no logarithm; leave log=True out")
    if x[0] <= 0:
        least = summary.type.restore(x[:1])[0]
        raise InvalidArgumentError(f"log=True needs values above 0, and the least is {least}; leave it out")


def on_axis(carried: NDArray[Any], kind: ValueType) -> NDArray[Any]:
    """Numbers, or times that matplotlib knows."""
    if kind.dtype.kind != "M":
        numbers: NDArray[np.float64] = carried.astype(np.float64) / 10**kind.scale
        if max(-numbers[0], numbers[-1]) > LARGEST:
            raise InvalidArgumentError(f"values from {numbers[0]} to {numbers[-1]} are too large for an axis")
        return numbers
    times = kind.restore(carried)
    if times[0] < YEARS[0] or times[-1] > YEARS[1]:
        raise InvalidArgumentError(f"times from {times[0]} to {times[-1]} cannot be drawn: years are 1 to 9999")
    return times


def unit_of(kind: ValueType) -> str:
    """What stands at the axis of values.

    >>> from quantide.summary.types import type_named
    >>> unit_of(type_named("duration[ms]")), unit_of(type_named("timestamp[us, tz=UTC]")), unit_of(type_named("int64"))
    ('value (ms)', 'value (UTC)', 'value')
    """
    if kind.dtype.kind == "m":
        return f"value ({np.datetime_data(kind.dtype)[0]})"
    return "value (UTC)" if "tz=" in kind.name else "value"
