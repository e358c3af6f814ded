"""SVG plots, legible on light and dark pages: lines in panels, and ratios by name."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, HEIGHT = 400, 290  # of a panel with lines
WIDE = 820  # of ratios
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
ROW, NAMES = 22, 270  # height of a row, width of its name
LETTER = 7.2  # width of a letter, rather too large
INK = "#757d86"  # like all colours here it stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#ad8212", "#d64a7b")
VERDICTS = {"passed": 2, "equal": 0, "missed": 1}  # with their colours
DASHED = "6 3"  # bounds

Points = Sequence[tuple[float, float]]
Ticks = Sequence[tuple[float, str]]
Size = tuple[int, int]


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
    """Draw the curves' panels side by side, so many in a row, above the names of the curves."""
    panels = [[one for one in curves if one.panel == panel] for panel in dict.fromkeys(one.panel for one in curves)]
    legend = {one.name: one for one in curves}.values()
    return _picture(description, (WIDTH, HEIGHT), [_panel(panel) for panel in panels], legend, columns)


def ratios(rows: Sequence[tuple[str, float, str]], description: str) -> str:
    """Draw names with ratios and verdicts on one logarithmic axis, a dot in each row joined to 1."""
    across = decades([0.1, 10.0, *(row[1] for row in rows)], NAMES, WIDE - RIGHT)
    size, ys = (WIDE, TOP + ROW * len(rows) + BOTTOM), [TOP + ROW * (number + 0.5) for number in range(len(rows))]
    names = [(y, row[0]) for y, row in zip(ys, rows, strict=True)]
    parts = [*_frame(size, across.ticks(), names, ("", "times better than the paper; below 1: worse", ""), NAMES)]
    for y, (_, ratio, verdict) in zip(ys, rows, strict=True):
        parts.append(_path(f"M{across.at(1.0):.1f} {y:.1f}H{across.at(ratio):.1f}", VERDICTS[verdict]))
        parts.append(_dot(across.at(ratio), y, VERDICTS[verdict], 4.5))
    return _picture(description, size, [parts], [])


def _panel(curves: Sequence[Curve]) -> Iterator[str]:
    xs, ys = ([point[i] for one in curves for point in one.points] for i in (0, 1))
    across = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = Axis(0, max(ys), HEIGHT - BOTTOM, TOP, True) if curves[0].linear else decades(ys, HEIGHT - BOTTOM, TOP)
    yield from _frame((WIDTH, HEIGHT), across.ticks(sorted(set(xs))), up.ticks(), curves[0][:3])
    for one in curves:
        placed = [(across.at(x), up.at(y)) for x, y in one.points]
        yield _path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed), one.colour, one.dashes)
        yield from (_dot(x, y, one.colour, 2.5) for x, y in placed)


def _picture(text: str, size: Size, panels: Sequence[Any], legend: Collection[Curve], columns: int = 1) -> str:
    """Place panels in rows, above a legend with three entries in a row."""
    width, bottom, out = size[0] * min(len(panels), columns), size[1] * math.ceil(len(panels) / columns), []
    for number, parts in enumerate(panels):
        down, along = divmod(number, columns)
        out += [f'<g transform="translate({size[0] * along},{size[1] * down})">', *parts, "</g>"]
    for number, line in enumerate(legend):
        x, y = LEFT + (number % 3) * (width - 80) / 3, bottom + 12 + 22 * (number // 3)
        out += [_path(f"M{x:.0f} {y - 4}h26", line.colour, line.dashes), _text(x + 32, y, line.name)]
    view = f'viewBox="0 0 {width} {bottom + 22 * math.ceil(len(legend) / 3) + 8}" role="img"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="system-ui, sans-serif" font-size="12"'
    return "\n".join([f'{head} fill="{INK}">', f"<title>{escape(text)}</title>", *out, "</svg>"]) + "\n"


def _frame(size: Size, across: Ticks, up: Ticks, labels: Sequence[Any], left: float = LEFT) -> Iterator[str]:
    """Draw rules, ticks with labels that do not cover each other, the title and the names of both axes."""
    (width, height), covered = size, -math.inf
    middle, foot = (left + width - RIGHT) / 2, height - BOTTOM
    for y, label in up:
        yield f'<path d="M{left} {y:.1f}H{width - RIGHT}" stroke="{INK}" stroke-opacity=".3"/>'
        yield _text(left - 6, y + 4, label, "end")
    for x, label in across:
        yield f'<path d="M{x:.1f} {foot}v4" stroke="{INK}"/>'
        if x - LETTER * len(label) / 2 > covered:
            covered = x + LETTER * len(label) / 2
            yield _text(x, foot + 17, label, "middle")
    title, x_label, y_label = labels
    yield f'<g font-weight="600">{_text(middle, 18, title, "middle")}</g>'
    yield _text(middle, height - 10, x_label, "middle")
    yield f'<g transform="rotate(-90 14 {height / 2})">{_text(14, height / 2, y_label, "middle")}</g>'


def _path(path: str, colour: int, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="{path}" fill="none" stroke="{COLOURS[colour]}" stroke-width="2"{dashed}/>'


def _dot(x: float, y: float, colour: int, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{COLOURS[colour]}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
