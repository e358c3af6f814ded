"""SVG plots, legible on light and dark pages: lines in panels."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, HEIGHT = 400, 290  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
LETTER = 7.2  # width of a letter, rather too large
INK = "#757d86"  # like all colours here it stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#ad8212", "#d64a7b")
DASHED = "6 3"  # bounds

Points = Sequence[tuple[float, float]]
Ticks = Sequence[tuple[float, str]]


class Curve(NamedTuple):
    """Named line in a panel. Axes are logarithmic; the y axis is linear and begins at 0 if the first curve says so."""

    panel: str
    by: str
    unit: str
    name: str
    colour: int
    points: Points
    dashes: str = ""
    linear: bool = False


class Axis(NamedTuple):
    """Logarithmic axis, or a linear one, on the page."""

    low: float
    high: float
    start: float
    end: float
    linear: bool = False

    def at(self, value: float) -> float:
        low, high, here = (one if self.linear else math.log10(one) for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (here - low) / ((high - low) or 1.0)

    def ticks(self, values: Iterable[float] = ()) -> Ticks:
        """Return positions and labels of values: by default powers of ten, or three to six round numbers."""
        if not values and self.linear:
            ten = 10.0 ** math.floor(math.log10(self.high or 1.0))
            step = next(ten * part for part in (0.2, 0.5, 1, 2) if self.high / (ten * part) <= 5)
            values = [step * i for i in range(math.floor(self.high / step + 1e-9) + 1)]
        elif not values:
            values = [10.0**power for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        units = [(1e6, "M") if value >= 1e6 else (1e3, "k") if value >= 1e3 else (1, "") for value in values]
        return [(self.at(value), f"{value / by:g}{unit}") for value, (by, unit) in zip(values, units, strict=True)]


def decades(values: Iterable[float], start: float, end: float) -> Axis:
    """Return an axis from one power of ten to another."""
    powers = [math.log10(value) for value in values]
    return Axis(10.0 ** math.floor(min(powers)), 10.0 ** math.ceil(max(powers)), start, end)


def points(rows: Iterable[Mapping[str, Any]], x: str, y: str, factor: float = 1.0) -> list[tuple[float, float]]:
    """Return two columns of rows."""
    return [(row[x], factor * row[y]) for row in rows]


def figure(curves: Sequence[Curve], description: str, columns: int = 3) -> str:
    """Draw the curves' panels, so many in a row, above the names of the curves, three in a row."""
    panels = [[one for one in curves if one.panel == panel] for panel in dict.fromkeys(one.panel for one in curves)]
    legend, out = {one.name: one for one in curves}.values(), list[str]()
    width, bottom = WIDTH * min(len(panels), columns), HEIGHT * math.ceil(len(panels) / columns)
    for number, panel in enumerate(panels):
        down, along = divmod(number, columns)
        out += [f'<g transform="translate({WIDTH * along},{HEIGHT * down})">', *_panel(panel), "</g>"]
    for number, one in enumerate(legend):
        x, y = LEFT + (number % 3) * (width - 80) / 3, bottom + 12 + 22 * (number // 3)
        out += [_path(f"M{x:.0f} {y - 4}h26", one), _text(x + 32, y, one.name)]
    view = f'viewBox="0 0 {width} {bottom + 22 * math.ceil(len(legend) / 3) + 8}" role="img"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="system-ui, sans-serif" font-size="12"'
    return "\n".join([f'{head} fill="{INK}">', f"<title>{escape(description)}</title>", *out, "</svg>"]) + "\n"


def _panel(curves: Sequence[Curve]) -> Iterator[str]:
    """Draw rules, ticks with labels that do not cover each other, the names of panel and axes, and the curves."""
    xs, ys = ([point[i] for one in curves for point in one.points] for i in (0, 1))
    across, foot, covered = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT), HEIGHT - BOTTOM, -math.inf
    up = Axis(0, max(ys), foot, TOP, True) if curves[0].linear else decades(ys, foot, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    for y, label in up.ticks():
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity=".3"/>'
        yield _text(LEFT - 6, y + 4, label, "end")
    for x, label in across.ticks(sorted(set(xs))):
        yield f'<path d="M{x:.1f} {foot}v4" stroke="{INK}"/>'
        if x - LETTER * len(label) / 2 > covered:
            covered = x + LETTER * len(label) / 2
            yield _text(x, foot + 17, label, "middle")
    title, x_label, y_label = curves[0][:3]
    yield f'<g font-weight="600">{_text(middle, 18, title, "middle")}</g>'
    yield _text(middle, HEIGHT - 10, x_label, "middle")
    yield f'<g transform="rotate(-90 14 {HEIGHT / 2})">{_text(14, HEIGHT / 2, y_label, "middle")}</g>'
    for one in curves:
        placed = [(across.at(x), up.at(y)) for x, y in one.points]
        yield _path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed), one)
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[one.colour]}"/>' for x, y in placed)


def _path(path: str, curve: Curve) -> str:
    dashes = f' stroke-dasharray="{curve.dashes}"' if curve.dashes else ""
    return f'<path d="{path}" fill="none" stroke="{COLOURS[curve.colour]}" stroke-width="2"{dashes}/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
