"""Ratios on one logarithmic axis as SVG, a dot a line, legible on light and dark pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.plot import COLOURS, INK

WIDTH, LEFT, RIGHT, TOP, LINE = 900, 280, 70, 46, 20
KINDS = {"passed": COLOURS[2], "equal": COLOURS[0], "missed": COLOURS[1]}


@dataclass(frozen=True)
class Dot:
    """`kind` is one of KINDS."""

    name: str
    ratio: float
    kind: str


def svg(dots: Sequence[Dot], description: str) -> str:
    """A line for each dot, in the order given; 1 stands out."""
    powers = [math.log10(dot.ratio) for dot in dots]
    low, high = math.floor(min([-1.0, *powers])), math.ceil(max([1.0, *powers]))
    bottom = TOP + LINE * len(dots)

    def place(power: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (power - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 24}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(description)}</title>",
        *_names(place(0)),
    ]
    for decade in range(low, high + 1):
        parts += _tick(decade, place(decade), bottom)
    for number, (dot, power) in enumerate(zip(dots, powers, strict=True)):
        parts += _dot(dot, place(power), place(0), TOP + LINE * (number + 0.5))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _names(one: float) -> list[str]:
    """What colours mean, above the sides of the axis."""
    sides = (
        (one - 10, "end", "missed", "worse than the paper"),
        (one + 10, "start", "passed", "better than the paper"),
    )
    return [
        f'<text x="{x:.0f}" y="16" text-anchor="{anchor}" fill="{KINDS[kind]}">{words}</text>'
        for x, anchor, kind, words in sides
    ]


def _tick(power: int, x: float, bottom: float) -> list[str]:
    label = f"{10.0**power:,.0f}" if power >= 0 else f"{10.0**power:g}"
    strong = 'stroke-width="2"' if power == 0 else 'stroke-opacity=".3"'
    return [
        f'<path d="M{x:.1f} {TOP - 4}V{bottom}" stroke="{INK}" {strong}/>',
        *(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{label}</text>' for y in (TOP - 10, bottom + 16)),
    ]


def _dot(dot: Dot, x: float, one: float, y: float) -> list[str]:
    colour = KINDS[dot.kind]
    return [
        f'<text x="{LEFT - 12}" y="{y + 4:.0f}" text-anchor="end">{escape(dot.name)}</text>',
        f'<path d="M{one:.1f} {y:.0f}H{x:.1f}" stroke="{colour}" stroke-opacity=".5"/>',
        f'<circle cx="{x:.1f}" cy="{y:.0f}" r="4" fill="{colour}"/>',
    ]
