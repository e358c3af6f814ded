"""SVG plots, legible on light and dark pages: lines, named points, and ratios by name."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

WIDTH, HEIGHT = 400, 290  # of a panel with lines
WIDE, HIGH = 820, 430  # of a panel with named points
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
ROW, NAMES = 22, 270  # height of a row, width of its name
LETTER = 7.2  # width of a letter, rather too large
INK = "#757d86"  # like all colours here it stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#ad8212", "#d64a7b")
VERDICTS = {"passed": 2, "equal": 0, "missed": 1}  # with their colours

Points = Sequence[tuple[float, float]]
Ticks = Sequence[tuple[float, str]]
Size = tuple[int, int]


class Line(NamedTuple):
    """Named line; lines with the same colour number share a colour."""

    name: str
    points: Points
    colour: int = 0
    dashes: str = ""


class Panel(NamedTuple):
    """Axes are logarithmic; the y axis is linear and begins at 0 if `linear` is "y"."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    linear: str = ""


class Curve(NamedTuple):
    """Measured points in a panel, and a bound of the kind `bound_name`."""

    panel: str
    by: str
    unit: str
    name: str
    colour: int
    points: Points
    bound: Points = ()
    bound_name: str = "stated"
    linear: str = ""


class Point(NamedTuple):
    """Named point; `kind` is an entry of the legend."""

    name: str
    x: float
    y: float
    kind: str


class Scatter(NamedTuple):
    """Named points on logarithmic axes; a y of at most `floor` is labelled exact."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    floor: float


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


def decades(values: Iterable[float], start: float, end: float, least: int = 0) -> Axis:
    """Return an axis from one power of ten to another."""
    powers = [math.log10(value) for value in values]
    low, high = math.floor(min(powers)), math.ceil(max(powers))
    return Axis(10.0**low, 10.0 ** max(high, low + least), start, end)


def points(rows: Iterable[Mapping[str, Any]], x: str, y: str, factor: float = 1.0) -> list[tuple[float, float]]:
    """Return two columns of rows."""
    return [(row[x], factor * row[y]) for row in rows]


def figure(curves: Sequence[Curve], description: str, columns: int = 3) -> str:
    """Draw a panel for each of the curves' panels, in their order."""
    panels: dict[str, Panel] = {}
    for one in curves:
        lines = [Line(one.name, one.points, one.colour)]
        lines += [Line(f"{one.name}: {one.bound_name}", one.bound, one.colour, "6 3")] if one.bound else []
        first = panels.get(one.panel) or Panel(one.panel, one.by, one.unit, [], one.linear)
        panels[one.panel] = first._replace(lines=[*first.lines, *lines])
    return svg(list(panels.values()), description, columns)


def svg(panels: Sequence[Panel], description: str, columns: int = 3) -> str:
    """Draw panels side by side, so many in a row, above the names of their lines."""
    legend = {line.name: line for panel in panels for line in panel.lines}
    return _picture(description, (WIDTH, HEIGHT), [_panel(panel) for panel in panels], legend.values(), columns)


def scatter(panels: Sequence[Scatter], kinds: Mapping[str, int], description: str) -> str:
    """Draw panels one below the other; `kinds`: the legend, each entry with the number of its colour."""
    used = {point.kind for panel in panels for point in panel.points}
    legend = [Line(kind, (), colour) for kind, colour in kinds.items() if kind in used]
    return _picture(description, (WIDE, HIGH), [_scatter(panel, kinds) for panel in panels], legend)


def ratios(rows: Sequence[tuple[str, float, str]], description: str) -> str:
    """Draw names with ratios and verdicts on one logarithmic axis, a dot in each row joined to 1."""
    across, height = (
        decades([0.1, 10.0, *(row[1] for row in rows)], NAMES, WIDE - RIGHT),
        TOP + ROW * len(rows) + BOTTOM,
    )
    ys = [TOP + ROW * (number + 0.5) for number in range(len(rows))]
    names = [(y, row[0]) for y, row in zip(ys, rows, strict=True)]
    labels = ("", "times better than the paper; below 1: worse", "")
    parts = [*_frame((WIDE, height), across.ticks(), names, labels, NAMES)]
    for y, (_, ratio, verdict) in zip(ys, rows, strict=True):
        parts.append(_path(f"M{across.at(1.0):.1f} {y:.1f}H{across.at(ratio):.1f}", Line("", (), VERDICTS[verdict])))
        parts.append(_dot(across.at(ratio), y, VERDICTS[verdict], 4.5))
    return _picture(description, (WIDE, height), [parts], [])


def _panel(panel: Panel) -> Iterator[str]:
    xs, ys = ([point[i] for line in panel.lines for point in line.points] for i in (0, 1))
    across = Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    up = Axis(0, max(ys), HEIGHT - BOTTOM, TOP, True) if panel.linear else decades(ys, HEIGHT - BOTTOM, TOP)
    yield from _frame((WIDTH, HEIGHT), across.ticks(sorted(set(xs))), up.ticks(), panel[:3])
    for line in panel.lines:
        placed = [(across.at(x), up.at(y)) for x, y in line.points]
        yield _path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed), line)
        yield from (_dot(x, y, line.colour, 2.5) for x, y in placed)


def _scatter(panel: Scatter, kinds: Mapping[str, int]) -> Iterator[str]:
    across = decades([point.x for point in panel.points], LEFT, WIDE - RIGHT, 1)
    ys = [point.y for point in panel.points if point.y > panel.floor]
    up, exact = decades([*ys, panel.floor * 10], HIGH - BOTTOM - 26, TOP, 1), HIGH - BOTTOM - 4
    yield from _frame((WIDE, HIGH), across.ticks(), [*up.ticks(), (exact, "exact")], panel[:3])
    placed = [(across.at(p.x), up.at(p.y) if p.y > panel.floor else exact) for p in panel.points]
    yield from (_dot(*at, kinds[p.kind], 4.5) for p, at in zip(panel.points, placed, strict=True))
    yield from _labels([p.name for p in panel.points], placed)


def _labels(names: Sequence[str], placed: Points) -> Iterator[str]:
    """Write each name near its point, where it covers nothing; a thin line leads to one that is far."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in placed]
    for name, (x, y) in zip(names, placed, strict=True):
        grid = np.meshgrid(np.arange(LEFT, WIDE - LETTER * len(name), 3), np.arange(TOP, HIGH - BOTTOM - 8, 2))
        left, top = (one.ravel() for one in grid)
        right, bottom = left + LETTER * len(name), top + 14
        free = np.all([(right < a) | (left > c) | (bottom < b) | (top > d) for a, b, c, d in taken], axis=0)
        near_x, near_y = np.clip(x, left, right), np.clip(y, top, bottom)
        far = np.hypot(near_x - x, near_y - y) + np.abs(top + 7 - y) / 20
        at = int(np.where(free, far, np.inf).argmin())
        taken.append((left[at], top[at], right[at], bottom[at]))
        if far[at] > 14:
            yield f'<path d="M{x:.1f} {y:.1f}L{near_x[at]:.1f} {near_y[at]:.1f}" stroke="{INK}" stroke-opacity=".6"/>'
        ends = right[at] < x
        yield _text(right[at] if ends else left[at], top[at] + 11, name, "end" if ends else "start")


def _picture(text: str, size: Size, panels: Sequence[Iterable[str]], legend: Collection[Line], columns: int = 1) -> str:
    """Place panels in rows, above a legend with three entries in a row."""
    width, bottom, out = size[0] * min(len(panels), columns), size[1] * math.ceil(len(panels) / columns), []
    for number, parts in enumerate(panels):
        down, along = divmod(number, columns)
        out += [f'<g transform="translate({size[0] * along},{size[1] * down})">', *parts, "</g>"]
    for number, line in enumerate(legend):
        x, y = LEFT + (number % 3) * (width - 80) / 3, bottom + 12 + 22 * (number // 3)
        out += [_path(f"M{x:.0f} {y - 4}h26", line), _text(x + 32, y, line.name)]
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


def _path(path: str, line: Line) -> str:
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return f'<path d="{path}" fill="none" stroke="{COLOURS[line.colour]}" stroke-width="2"{dashes}/>'


def _dot(x: float, y: float, colour: int, radius: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{COLOURS[colour]}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
