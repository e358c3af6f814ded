"""HTML of a comparison for notebooks: its numbers with their bounds, and both curves in one picture."""

from html import escape
from typing import Any

import numpy as np

from quantide.summary.cdf_curve import CdfCurve, curve_of
from quantide.summary.comparison import PROOFS, Comparison
from quantide.summary.notebook import CURVE_POINTS, HEIGHT, WIDTH, html_table, phi_name, stair_corners
from quantide.summary.outward_rounding import interval_texts
from quantide.typing import Array, Floats

DASHES = ("", ' stroke-dasharray="4 3"')  # of a, and of the reference b


def comparison_html(comparison: Comparison) -> str:
    """Render the distances, the shifts of quantiles, and the curves of both sides: a solid, b dashed."""
    head = f"<b>Comparison</b> of a (n = {comparison.a.n:,}) with b (n = {comparison.b.n:,}), proved bounds"
    rows = [
        ("", "at least", "at most", "a above b"),
        *((name, *_ends(interval), "") for name, interval in _distances(comparison)),
        *(_shift_row(comparison, phi) for phi in comparison.phis),
    ]
    return f"<div><div>{head}</div>{html_table(rows)}{_picture(comparison)}</div>"


def _distances(comparison: Comparison) -> list[tuple[str, tuple[float, float]]]:
    names = {"ks": "KS distance", "psi": "PSI", "wasserstein": "Wasserstein distance"}
    return [(title, getattr(comparison, name)) for name, title in names.items()]


def _shift_row(comparison: Comparison, phi: float) -> tuple[str, ...]:
    return (f"shift of {phi_name(phi)}", *_ends(comparison.shifts[phi]), PROOFS[comparison.is_above(phi)])


def _ends(interval: tuple[Any, Any]) -> tuple[str, str]:
    low, high = interval_texts(*interval)
    return "" if interval[0] is None else low, "" if interval[1] is None else high


def _picture(comparison: Comparison) -> str:
    """Draw both curves with their bands, over the values between the outermost 1% of either side; or nothing."""
    sides = comparison.a, comparison.b
    curves = [curve_of(side, CURVE_POINTS) for side in sides]
    spans = [_middle(curve, side.n) for curve, side in zip(curves, sides, strict=True)]
    if any(span is None for span in spans):
        return ""
    low, high = min(span[0] for span in spans if span), max(span[1] for span in spans if span)
    if low == high:
        return ""
    drawn = [_draw(curve, side.n, low, high, dash) for curve, side, dash in zip(curves, sides, DASHES, strict=True)]
    title = escape("fraction of values at or below: a solid, b dashed")
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" fill="currentColor">'
        f"<title>{title}</title>{''.join(drawn)}</svg>"
    )


def _middle(curve: CdfCurve, n: int) -> tuple[float, float] | None:
    """Return halves of the values at 1% and 99% of a curve; None if it is empty. Halves do not overflow."""
    if not len(curve.x):
        return None
    middle = (curve.lo + curve.hi) / 2 / n
    ends = np.minimum(np.searchsorted(middle, [0.01, 0.99]), len(curve.x) - 1)
    low, high = _halves(curve.x)[ends]
    return float(low), float(high)


def _halves(x: Array) -> Floats:
    halves: Floats = x / 2.0
    return halves


def _draw(curve: CdfCurve, n: int, low: float, high: float, dash: str) -> str:
    across = WIDTH * ((np.clip(_halves(curve.x), low, high) - low) / (high - low))
    heights = (curve.hi / n, (curve.lo + curve.hi) / 2 / n, curve.lo / n)
    upper, line, lower = (stair_corners(across, HEIGHT * (1 - y)) for y in heights)
    return (
        f'<polygon points="{" ".join([*upper, *reversed(lower)])}" fill-opacity="0.2"/>'
        f'<polyline points="{" ".join(line)}" fill="none" stroke="currentColor"{dash}/>'
    )
