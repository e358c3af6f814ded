"""A line chart with logarithmic axes as SVG, legible on light and dark pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 400, 290
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
INK = "#7f8790"  # a grey that stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#c99a1a", "#d64a7b")


@dataclass(frozen=True)
class Line:
    """A named line; lines of the same colour number share a colour."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashes: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]


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
        parts.append(f'<path d="M{x:.0f} {y - 4}h26" {_stroke(line)}/>')
        parts.append(f'<text x="{x + 32:.0f}" y="{y}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> list[str]:
    xs = [x for line in panel.lines for x, _ in line.points]
    ys = [y for line in panel.lines for _, y in line.points]
    x_axis = _Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
    y_axis = _Axis(10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys))), HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<text x="{middle:.0f}" y="18" text-anchor="middle" font-weight="600">{escape(panel.title)}</text>']
    for value in y_axis.decades():
        y = y_axis.place(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity=".3"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in sorted(set(xs)):
        x = x_axis.place(value)
        parts.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v4" stroke="{INK}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{_tick(value)}</text>')
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(panel.x_label)}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="translate(14,{half:.0f}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{escape(panel.y_label)}</text>")
    for line in panel.lines:
        path = "L".join(f"{x_axis.place(x):.1f} {y_axis.place(y):.1f}" for x, y in line.points)
        parts.append(f'<path d="M{path}" {_stroke(line)}/>')
        dots = ((x_axis.place(x), y_axis.place(y)) for x, y in line.points)
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[line.colour]}"/>' for x, y in dots]
    return parts


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        return self.start + (self.end - self.start) * math.log(value / self.low) / span

    def decades(self) -> list[float]:
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


def _stroke(line: Line) -> str:
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return f'fill="none" stroke="{COLOURS[line.colour]}" stroke-width="2"{dashes}'


def _tick(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
