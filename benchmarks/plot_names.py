"""Plots that are read by names: points with their names beside them, and one row of marks for each name."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.plot import COLOURS, INK, Log, tick

WIDTH, HEIGHT = 820, 430
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 34, 48
SIZE = 12  # of letters
LETTER = 7.2  # about how wide a letter is, and rather too much
ROW, NAMES = 22, 210


@dataclass(frozen=True)
class Point:
    """`kind` is one of the words of the legend."""

    name: str
    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class Panel:
    """Both axes are logarithmic; `floor` is the y of what is exact, and is called so."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[Point]
    floor: float


@dataclass(frozen=True)
class Marks:
    """A row of names: two values that were found, and what was promised, with a word about it."""

    name: str
    kind: str
    found: Sequence[float]
    promised: float | None
    word: str


Box = tuple[float, float, float, float]  # left, top, right, bottom


def scatter(panels: Sequence[Panel], kinds: Mapping[str, int], description: str) -> str:
    """The panels one below the other; `kinds`: the legend, each word with the number of its colour."""
    height = HEIGHT * len(panels) + 26
    parts = [_head(WIDTH, height, description)]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate(0,{HEIGHT * number})">', *_panel(panel, kinds), "</g>"]
    used = {kind: colour for kind, colour in kinds.items() if any(p.kind == kind for one in panels for p in one.points)}
    return "\n".join([*parts, *_legend(used, height - 10), "</svg>"]) + "\n"


def rows(marks: Sequence[Marks], kinds: Mapping[str, int], names: Sequence[str], x_label: str, description: str) -> str:
    """One row for each name on a logarithmic axis: a dot and a ring for what was found (`names` says which is which), a
    bar for what was promised. What is below the axis stands at its beginning."""
    height = TOP + ROW * len(marks) + BOTTOM + 46
    values = [value for one in marks for value in (*one.found, one.promised) if value]
    across = _decades(values, NAMES, WIDTH - RIGHT - 90)
    bottom = TOP + ROW * len(marks)
    parts = [_head(WIDTH, height, description), *_down(across, TOP - 8, bottom)]
    for number, one in enumerate(marks):
        parts += _marks(one, TOP + ROW * (number + 0.5), across, COLOURS[kinds[one.kind]])
    parts.append(_text((NAMES + WIDTH - RIGHT - 90) / 2, bottom + 36, x_label, "middle"))
    keys = [("dot", names[0]), ("ring", names[1]), ("bar", "promised")]
    for number, (mark, name) in enumerate(keys):
        x = NAMES + 170 * number
        parts += [_mark(mark, x, bottom + 54, INK), _text(x + 12, bottom + 58, name)]
    return "\n".join([*parts, *_legend(kinds, height - 12), "</svg>"]) + "\n"


def _marks(one: Marks, y: float, across: Log, colour: str) -> Iterator[str]:
    def place(value: float) -> float:
        return across.place(max(value, across.low))

    yield _text(NAMES - 14, y + 4, one.name, "end")
    xs = sorted(map(place, one.found))
    yield f'<path d="M{xs[0]:.1f} {y:.1f}H{xs[-1]:.1f}" stroke="{colour}" stroke-opacity=".5" stroke-width="2"/>'
    for mark, value in zip(("dot", "ring"), one.found, strict=True):
        yield _mark(mark, place(value), y, colour)
    if one.promised:
        yield _mark("bar", place(one.promised), y, colour)
    yield _text(WIDTH - RIGHT - 76, y + 4, one.word)


def _mark(mark: str, x: float, y: float, colour: str) -> str:
    if mark == "bar":
        return f'<path d="M{x:.1f} {y - 8:.1f}v16" stroke="{colour}" stroke-width="3"/>'
    fill = colour if mark == "dot" else "none"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'


def _panel(panel: Panel, kinds: Mapping[str, int]) -> list[str]:
    across = _decades([point.x for point in panel.points], LEFT, WIDTH - RIGHT)
    ys = [point.y for point in panel.points if point.y > panel.floor]
    up = _decades([*ys, panel.floor * 10], HEIGHT - BOTTOM - 26, TOP)
    exact = HEIGHT - BOTTOM - 4
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [f'<g font-weight="600">{_text(middle, 18, panel.title, "middle")}</g>']
    parts += _down(across, TOP, HEIGHT - BOTTOM + 4)
    for value in up.ticks():
        parts += _line(up.place(value), f"{value:g}")
    parts += _line(exact, "exact")
    parts.append(_text(middle, HEIGHT - 10, panel.x_label, "middle"))
    turned = f'transform="translate(14,{HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{escape(panel.y_label)}</text>")
    places = [(across.place(p.x), up.place(p.y) if p.y > panel.floor else exact) for p in panel.points]
    parts += [_mark("dot", *place, COLOURS[kinds[p.kind]]) for p, place in zip(panel.points, places, strict=True)]
    return [*parts, *_labels([p.name for p in panel.points], places)]


def _line(y: float, label: str) -> list[str]:
    line = f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" stroke-opacity=".3"/>'
    return [line, _text(LEFT - 6, y + 4, label, "end")]


def _down(across: Log, top: float, bottom: float) -> Iterator[str]:
    for value in across.ticks():
        x = across.place(value)
        yield f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{INK}" stroke-opacity=".3"/>'
        yield _text(x, bottom + 15, tick(value), "middle")


def _labels(names: Sequence[str], places: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Each name at the first place near its point where it covers nothing; a thin line leads to one that is far."""
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in places]
    for name, (x, y) in zip(names, places, strict=True):
        label = next((one for one in _near(x, y, LETTER * len(name)) if _free(one[0], taken)), None)
        if label is None:
            raise ValueError(f"no room for the name {name!r}")
        box, anchor = label
        taken.append(box)
        left, top, right, bottom = box
        to_x, to_y = _between(x, left, right), _between(y, top, bottom)
        if math.hypot(to_x - x, to_y - y) > 14:
            yield f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{INK}" stroke-opacity=".6"/>'
        yield _text({"start": left, "end": right}.get(anchor, (left + right) / 2), bottom - 3, name, anchor)


def _near(x: float, y: float, width: float) -> Iterator[tuple[Box, str]]:
    """Boxes to the right, to the left, above and below, and further and further away; with the side they begin at."""
    for far in range(0, 400, 8):
        for aside in sorted({0, far, -far}):
            yield _box(x + 9, y + aside, width), "start"
            yield _box(x - 9 - width, y + aside, width), "end"
            yield _box(x - width / 2 + aside, y - 14 - far, width), "middle"
            yield _box(x - width / 2 + aside, y + 14 + far, width), "middle"


def _box(left: float, middle: float, width: float) -> Box:
    return left, middle - 7, left + width, middle + 7


def _free(box: Box, taken: Sequence[Box]) -> bool:
    left, top, right, bottom = box
    inside = left >= LEFT and right <= WIDTH - 2 and top >= TOP - 8 and bottom <= HEIGHT - BOTTOM + 4
    return inside and all(right < a or left > c or bottom < b or top > d for a, b, c, d in taken)


def _between(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _decades(values: Sequence[float], start: float, end: float) -> Log:
    """From one power of ten to another."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Log(10.0**low, 10.0 ** max(high, low + 1), start, end)


def _legend(kinds: Mapping[str, int], y: float) -> Iterator[str]:
    for number, (kind, colour) in enumerate(kinds.items()):
        x = LEFT + number * (WIDTH - LEFT - RIGHT) / len(kinds)
        yield _mark("dot", x, y - 4, COLOURS[colour]) + _text(x + 12, y, kind)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _head(width: int, height: float, description: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="{SIZE}" fill="{INK}">\n<title>{escape(description)}</title>'
    )
