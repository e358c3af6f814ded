"""Curves: what was measured to grow by what, and figures of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import plot
from characterization.growth import Points

STATED = "6 3"  # the dashes of a bound


@dataclass(frozen=True)
class Curve:
    """What was measured to grow by what, and its bound; lines of one name look alike in all panels.

    `word` says what kind of bound `stated` is; `linear` names axes, see plot.Panel; `joined`, see plot.Line.
    """

    panel: str
    by: str
    unit: str
    name: str
    colour: int
    points: Points
    stated: Points = ()
    word: str = "stated"
    linear: str = ""
    joined: bool = True

    def lines(self) -> list[plot.Line]:
        measured = plot.Line(self.name, self.points, self.colour, joined=self.joined)
        bound = plot.Line(f"{self.name}: {self.word}", self.stated, self.colour, STATED)
        return [measured, bound] if self.stated else [measured]


def figure(shown: Sequence[Curve], description: str, columns: int = 3) -> str:
    """A panel for each of the curves' panels, in their order."""
    panels = []
    for title in dict.fromkeys(curve.panel for curve in shown):
        some = [curve for curve in shown if curve.panel == title]
        lines = [line for curve in some for line in curve.lines()]
        panels.append(plot.Panel(title, some[0].by, some[0].unit, lines, some[0].linear))
    return plot.svg(panels, description, columns)
