"""A line chart as SVG, legible on light and dark pages; axes are logarithmic unless a panel says otherwise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
LETTER = 7  # about how wide a digit is
INK = "#757d86"  # like all colours here it stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#ad8212", "#d64a7b")


@dataclass(frozen=True)
class Line:
    """A named line; lines of the same colour number share a colour. One that is not joined is dots alone."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashes: str = ""
    joined: bool = True


@dataclass(frozen=True)
class Panel:
    """`linear` names the axes that are not logarithmic: "x", "y" or "xy"; they begin at 0."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    linear: str = ""


def svg(panels: Sequence[Panel], description: str, columns: int = 3) -> str:
    """The panels side by side, so many in a row, the names of the lines below."""
    names = {line.name: line for panel in panels for line in panel.lines}
    width = WIDTH * min(len(panels), columns)
    bottom = HEIGHT * math.ceil(len(panels) / columns)
    height = bottom + 22 * math.ceil(len(names) / 3) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(description)}</title>",
    ]
    for number, panel in enumerate(panels):
        down, along = divmod(number, columns)
        parts += [f'<g transform="translate({WIDTH * along},{HEIGHT * down})">', *_panel(panel), "</g>"]
    for number, line in enumerate(names.values()):
        x, y = 62 + (number % 3) * (width - 80) / 3, bottom + 12 + 22 * (number // 3)
        parts.append(f'<path d="M{x:.0f} {y - 4}h26" {_stroke(line)}/>' if line.joined else _dots([(x, y - 4)], line))
        parts.append(f'<text x="{x + 32:.0f}" y="{y}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> list[str]:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    across: _Axis = _Linear(0, max(xs), LEFT, WIDTH - RIGHT) if "x" in panel.linear else _along(xs)
    up: _Axis = _Linear(0, max(ys), HEIGHT - BOTTOM, TOP) if "y" in panel.linear else _decades(ys)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<text x="{middle:.0f}" y="18" text-anchor="middle" font-weight="600">{escape(panel.title)}</text>']
    for value in up.ticks():
        y = up.place(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity=".3"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    written = -math.inf  # up to where labels are
    for value in across.ticks() if "x" in panel.linear else sorted(set(xs)):
        x, label = across.place(value), tick(value)
        parts.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v4" stroke="{INK}"/>')
        if x - LETTER * len(label) / 2 > written:
            written = x + LETTER * len(label) / 2
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(panel.x_label)}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="translate(14,{half:.0f}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{escape(panel.y_label)}</text>")
    for line in panel.lines:
        places = [(across.place(x), up.place(y)) for x, y in line.points]
        parts += _joined(places, line) if line.joined else [_dots(places, line)]
    return parts


class _Axis(Protocol):
    def place(self, value: float) -> float: ...

    def ticks(self) -> list[float]: ...


@dataclass(frozen=True)
class Log:
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        return self.start + (self.end - self.start) * math.log(value / self.low) / span

    def ticks(self) -> list[float]:
        """The powers of ten."""
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


@dataclass(frozen=True)
class _Linear:
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return self.start + (self.end - self.start) * (value - self.low) / span

    def ticks(self) -> list[float]:
        """Three to six round numbers."""
        span = (self.high - self.low) or 1.0
        ten = 10.0 ** math.floor(math.log10(span))
        step = next(ten * part for part in (0.2, 0.5, 1, 2) if span / (ten * part) <= 5)
        return [round(self.low + step * i, 12) for i in range(math.floor(span / step + 1e-9) + 1)]


def _along(xs: Sequence[float]) -> Log:
    return Log(min(xs), max(xs), LEFT, WIDTH - RIGHT)


def _decades(ys: Sequence[float]) -> Log:
    """From one power of ten to another."""
    return Log(10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys))), HEIGHT - BOTTOM, TOP)


def _joined(places: Sequence[tuple[float, float]], line: Line) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[line.colour]}"/>' for x, y in places]
    return [f'<path d="M{path}" {_stroke(line)}/>', *dots]


def _dots(places: Sequence[tuple[float, float]], line: Line) -> str:
    """Strokes of no length with round ends: there may be thousands."""
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
    return f'<path d="{path}" stroke="{COLOURS[line.colour]}" stroke-width="3" stroke-linecap="round"/>'


def _stroke(line: Line) -> str:
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return f'fill="none" stroke="{COLOURS[line.colour]}" stroke-width="2"{dashes}'


def tick(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
