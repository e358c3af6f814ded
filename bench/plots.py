"""SVG plots, legible on light and dark pages: lines, named points, intervals by name, and ratios."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, HEIGHT = 400, 290  # of a panel with lines
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 32, 46
WIDE, HIGH = 820, 430  # of a panel with named points
LETTER = 7.2  # width of a letter, rather too large
ROW, NAMES = 22, 210  # height of a row, width of its name
INK = "#757d86"  # like all colours here it stands out from white and from black
COLOURS = ("#2f81f7", "#d1622b", "#3fa45b", "#b25fd0", "#ad8212", "#d64a7b")
VERDICTS = {"passed": COLOURS[2], "equal": COLOURS[0], "missed": COLOURS[1]}

Points = Sequence[tuple[float, float]]
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Line:
    """Named line; lines with the same colour number share a colour. One that is not joined consists of dots."""

    name: str
    points: Points
    colour: int = 0
    dashes: str = ""
    joined: bool = True


@dataclass(frozen=True)
class Panel:
    """Axes are logarithmic except those in `linear` ("x", "y" or "xy"), which begin at 0."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    linear: str = ""


@dataclass(frozen=True)
class Curve:
    """Measured points in a panel, with a bound; curves with the same name look alike in all panels.

    `bound_name` is the kind of bound.
    """

    panel: str
    by: str
    unit: str
    name: str
    colour: int
    points: Points
    bound: Points = ()
    bound_name: str = "stated"
    linear: str = ""
    joined: bool = True

    def lines(self) -> list[Line]:
        measured = Line(self.name, self.points, self.colour, joined=self.joined)
        return [measured, Line(f"{self.name}: {self.bound_name}", self.bound, self.colour, "6 3")][
            : 1 + bool(self.bound)
        ]


@dataclass(frozen=True)
class Axis:
    """Logarithmic axis, or a linear one, on the page."""

    low: float
    high: float
    start: float
    end: float
    linear: bool = False

    def at(self, value: float) -> float:
        if self.linear:
            return self.start + (self.end - self.start) * (value - self.low) / ((self.high - self.low) or 1.0)
        return self.start + (self.end - self.start) * math.log(value / self.low) / (
            math.log(self.high / self.low) or 1.0
        )

    def ticks(self) -> list[float]:
        """Return powers of ten, or three to six round numbers."""
        if not self.linear:
            return [10.0**power for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        span = (self.high - self.low) or 1.0
        ten = 10.0 ** math.floor(math.log10(span))
        step = next(ten * part for part in (0.2, 0.5, 1, 2) if span / (ten * part) <= 5)
        return [round(self.low + step * i, 12) for i in range(math.floor(span / step + 1e-9) + 1)]


def decades(values: Iterable[float], start: float, end: float, least: int = 0) -> Axis:
    """Return an axis from one power of ten to another."""
    found = list(values)
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return Axis(10.0**low, 10.0 ** max(high, low + least), start, end)


def points(rows: Iterable[Mapping[str, Any]], x: str, y: str, factor: float = 1.0) -> list[tuple[float, float]]:
    """Return two columns of rows."""
    return [(row[x], factor * row[y]) for row in rows]


def figure(curves: Sequence[Curve], description: str, columns: int = 3) -> str:
    """Draw a panel for each of the curves' panels, in their order."""
    panels = []
    for title in dict.fromkeys(curve.panel for curve in curves):
        some = [curve for curve in curves if curve.panel == title]
        lines = [line for curve in some for line in curve.lines()]
        panels.append(Panel(title, some[0].by, some[0].unit, lines, some[0].linear))
    return svg(panels, description, columns)


def svg(panels: Sequence[Panel], description: str, columns: int = 3) -> str:
    """Draw panels side by side, so many in a row, above the names of their lines."""
    names = {line.name: line for panel in panels for line in panel.lines}
    width, bottom = WIDTH * min(len(panels), columns), HEIGHT * math.ceil(len(panels) / columns)
    parts = [_head(width, bottom + 22 * math.ceil(len(names) / 3) + 8, description)]
    for number, panel in enumerate(panels):
        down, along = divmod(number, columns)
        parts += [f'<g transform="translate({WIDTH * along},{HEIGHT * down})">', *_panel(panel), "</g>"]
    for number, line in enumerate(names.values()):
        x, y = 62 + (number % 3) * (width - 80) / 3, bottom + 12 + 22 * (number // 3)
        parts.append(f'<path d="M{x:.0f} {y - 4}h26" {_stroke(line)}/>' if line.joined else _dots([(x, y - 4)], line))
        parts.append(f'<text x="{x + 32:.0f}" y="{y}">{escape(line.name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel) -> list[str]:
    xs, ys = ([point[i] for line in panel.lines for point in line.points] for i in (0, 1))
    across = Axis(0 if "x" in panel.linear else min(xs), max(xs), LEFT, WIDTH - RIGHT, "x" in panel.linear)
    up = Axis(0, max(ys), HEIGHT - BOTTOM, TOP, True) if "y" in panel.linear else decades(ys, HEIGHT - BOTTOM, TOP)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [_title(middle, panel.title)]
    for value in up.ticks():
        parts += _rule(LEFT, WIDTH - RIGHT, up.at(value), f"{value:g}")
    end_of_label = -math.inf
    for value in across.ticks() if across.linear else sorted(set(xs)):
        x, label = across.at(value), tick(value)
        parts.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v4" stroke="{INK}"/>')
        if x - LETTER * len(label) / 2 > end_of_label:
            end_of_label = x + LETTER * len(label) / 2
            parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    parts.append(_text(middle, HEIGHT - 10, panel.x_label, "middle"))
    parts.append(_upward((TOP + HEIGHT - BOTTOM) / 2, panel.y_label))
    for line in panel.lines:
        placed = [(across.at(x), up.at(y)) for x, y in line.points]
        parts += _joined(placed, line) if line.joined else [_dots(placed, line)]
    return parts


def _joined(placed: Points, line: Line) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLOURS[line.colour]}"/>' for x, y in placed]
    return [f'<path d="M{path}" {_stroke(line)}/>', *dots]


def _dots(placed: Points, line: Line) -> str:
    """Draw strokes of no length with round ends: there may be thousands."""
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in placed)
    return f'<path d="{path}" stroke="{COLOURS[line.colour]}" stroke-width="3" stroke-linecap="round"/>'


def _stroke(line: Line) -> str:
    dashes = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    return f'fill="none" stroke="{COLOURS[line.colour]}" stroke-width="2"{dashes}'


@dataclass(frozen=True)
class Point:
    """Named point; `kind` is an entry of the legend."""

    name: str
    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class Scatter:
    """Named points on logarithmic axes; a y of at most `floor` is labelled exact."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    floor: float


def scatter(panels: Sequence[Scatter], kinds: Mapping[str, int], description: str) -> str:
    """Draw panels one below the other; `kinds`: the legend, each entry with the number of its colour."""
    height = HIGH * len(panels) + 26
    parts = [_head(WIDE, height, description)]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate(0,{HIGH * number})">', *_scatter(panel, kinds), "</g>"]
    used = {kind: colour for kind, colour in kinds.items() if any(p.kind == kind for one in panels for p in one.points)}
    return "\n".join([*parts, *_legend(used, height - 10), "</svg>"]) + "\n"


def _scatter(panel: Scatter, kinds: Mapping[str, int]) -> list[str]:
    across = decades([point.x for point in panel.points], LEFT, WIDE - RIGHT, 1)
    ys = [point.y for point in panel.points if point.y > panel.floor]
    up, exact = decades([*ys, panel.floor * 10], HIGH - BOTTOM - 26, TOP, 1), HIGH - BOTTOM - 4
    middle = (LEFT + WIDE - RIGHT) / 2
    parts = [_title(middle, panel.title), *_columns(across, TOP, HIGH - BOTTOM + 4)]
    for value in up.ticks():
        parts += _rule(LEFT, WIDE - RIGHT, up.at(value), f"{value:g}")
    parts += [*_rule(LEFT, WIDE - RIGHT, exact, "exact"), _text(middle, HIGH - 10, panel.x_label, "middle")]
    parts.append(_upward(HIGH / 2, panel.y_label))
    placed = [(across.at(p.x), up.at(p.y) if p.y > panel.floor else exact) for p in panel.points]
    parts += [_mark("dot", *at, COLOURS[kinds[p.kind]]) for p, at in zip(panel.points, placed, strict=True)]
    return [*parts, *_labels([p.name for p in panel.points], placed)]


def _labels(names: Sequence[str], placed: Points) -> Iterator[str]:
    """Write each name near its point where it covers nothing; a thin line leads to one that is far."""
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in placed]
    for name, (x, y) in zip(names, placed, strict=True):
        label = next((one for one in _near(x, y, LETTER * len(name)) if _free(one[0], taken)), None)
        if label is None:
            raise ValueError(f"no room for the name {name!r}")
        box, anchor = label
        taken.append(box)
        left, top, right, bottom = box
        to_x, to_y = min(max(x, left), right), min(max(y, top), bottom)
        if math.hypot(to_x - x, to_y - y) > 14:
            yield f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{INK}" stroke-opacity=".6"/>'
        yield _text({"start": left, "end": right}.get(anchor, (left + right) / 2), bottom - 3, name, anchor)


def _near(x: float, y: float, width: float) -> Iterator[tuple[Box, str]]:
    """Yield boxes to the right, to the left, above and below, further and further away, with their anchors."""
    for far in range(0, 400, 8):
        for aside in sorted({0, far, -far}):
            for left, middle, anchor in (
                (x + 9, y + aside, "start"),
                (x - 9 - width, y + aside, "end"),
                (x - width / 2 + aside, y - 14 - far, "middle"),
                (x - width / 2 + aside, y + 14 + far, "middle"),
            ):
                yield (left, middle - 7, left + width, middle + 7), anchor


def _free(box: Box, taken: Sequence[Box]) -> bool:
    left, top, right, bottom = box
    inside = left >= LEFT and right <= WIDE - 2 and top >= TOP - 8 and bottom <= HIGH - BOTTOM + 4
    return inside and all(right < a or left > c or bottom < b or top > d for a, b, c, d in taken)


@dataclass(frozen=True)
class Marks:
    """Row with a name: two measured values, the promised one, and a word about it."""

    name: str
    kind: str
    found: Sequence[float]
    promised: float | None
    word: str


def marks(rows: Sequence[Marks], kinds: Mapping[str, int], names: Sequence[str], x_label: str, description: str) -> str:
    """Draw a dot and a ring for the measured values (`names`), a bar for the promise, on a logarithmic axis.

    Values below the axis are drawn at its beginning.
    """
    bottom = TOP + ROW * len(rows)
    height = bottom + BOTTOM + 46
    across = decades(
        [value for one in rows for value in (*one.found, one.promised) if value], NAMES, WIDE - RIGHT - 90, 1
    )
    parts = [_head(WIDE, height, description), *_columns(across, TOP - 8, bottom)]
    for number, one in enumerate(rows):
        parts += _marks(one, TOP + ROW * (number + 0.5), across, COLOURS[kinds[one.kind]])
    parts.append(_text((NAMES + WIDE - RIGHT - 90) / 2, bottom + 36, x_label, "middle"))
    for number, (mark, name) in enumerate((("dot", names[0]), ("ring", names[1]), ("bar", "promised"))):
        x = NAMES + 170 * number
        parts += [_mark(mark, x, bottom + 54, INK), _text(x + 12, bottom + 58, name)]
    return "\n".join([*parts, *_legend(kinds, height - 12), "</svg>"]) + "\n"


def _marks(one: Marks, y: float, across: Axis, colour: str) -> Iterator[str]:
    found = [across.at(max(value, across.low)) for value in one.found]
    yield _text(NAMES - 14, y + 4, one.name, "end")
    line = f'stroke="{colour}" stroke-opacity=".5" stroke-width="2"'
    yield f'<path d="M{min(found):.1f} {y:.1f}H{max(found):.1f}" {line}/>'
    for mark, x in zip(("dot", "ring"), found, strict=True):
        yield _mark(mark, x, y, colour)
    if one.promised:
        yield _mark("bar", across.at(max(one.promised, across.low)), y, colour)
    yield _text(WIDE - RIGHT - 76, y + 4, one.word)


def ratios(rows: Sequence[tuple[str, float, str]], description: str) -> str:
    """Draw names with ratios and verdicts on one logarithmic axis, a dot in each row; 1 stands out."""
    powers = [math.log10(ratio) for _, ratio, _ in rows]
    low, high = math.floor(min([-1.0, *powers])), math.ceil(max([1.0, *powers]))
    width, top, bottom = 900.0, 46, 46 + 20 * len(rows)
    across = Axis(low, high, 280, width - 70, linear=True)
    parts = [_head(width, bottom + 24, description)]
    for aside, anchor, verdict, text in (-10, "end", "missed", "worse"), (10, "start", "passed", "better"):
        attributes = f'text-anchor="{anchor}" fill="{VERDICTS[verdict]}"'
        parts.append(f'<text x="{across.at(0) + aside:.0f}" y="16" {attributes}>{text} than the paper</text>')
    for decade in range(low, high + 1):
        x, label = across.at(decade), f"{10.0**decade:,.0f}" if decade >= 0 else f"{10.0**decade:g}"
        strong = 'stroke-width="2"' if decade == 0 else 'stroke-opacity=".3"'
        parts.append(f'<path d="M{x:.1f} {top - 4}V{bottom}" stroke="{INK}" {strong}/>')
        parts += [_text(x, y, label, "middle") for y in (top - 10, bottom + 16)]
    for number, ((name, _, verdict), power) in enumerate(zip(rows, powers, strict=True)):
        x, y, colour = across.at(power), top + 20 * (number + 0.5), VERDICTS[verdict]
        parts.append(_text(268, y + 4, name, "end"))
        parts.append(f'<path d="M{across.at(0):.1f} {y:.0f}H{x:.1f}" stroke="{colour}" stroke-opacity=".5"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.0f}" r="4" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _mark(mark: str, x: float, y: float, colour: str) -> str:
    if mark == "bar":
        return f'<path d="M{x:.1f} {y - 8:.1f}v16" stroke="{colour}" stroke-width="3"/>'
    fill = colour if mark == "dot" else "none"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'


def _rule(left: float, right: float, y: float, label: str) -> list[str]:
    line = f'<path d="M{left} {y:.1f}H{right}" stroke="{INK}" stroke-opacity=".3"/>'
    return [line, _text(left - 6, y + 4, label, "end")]


def _columns(across: Axis, top: float, bottom: float) -> Iterator[str]:
    for value in across.ticks():
        x = across.at(value)
        yield f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{INK}" stroke-opacity=".3"/>'
        yield _text(x, bottom + 15, tick(value), "middle")


def _legend(kinds: Mapping[str, int], y: float) -> Iterator[str]:
    for number, (kind, colour) in enumerate(kinds.items()):
        x = LEFT + number * (WIDE - LEFT - RIGHT) / len(kinds)
        yield _mark("dot", x, y - 4, COLOURS[colour]) + _text(x + 12, y, kind)


def _title(x: float, text: str) -> str:
    return f'<g font-weight="600">{_text(x, 18, text, "middle")}</g>'


def _upward(y: float, text: str) -> str:
    return f'<text transform="translate(14,{y:.0f}) rotate(-90)" text-anchor="middle">{escape(text)}</text>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _head(width: float, height: float, description: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">\n<title>{escape(description)}</title>'
    )


def tick(value: float) -> str:
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"
