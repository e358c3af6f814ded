"""One frame of the demo as lines of text: a pure function of what there is to show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from quantide.demo.chart import chart, spark

MARGIN = "  "
GAP = "   "
CHART_ROWS = 3
CHART_WIDTH = 72

BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"


@dataclass(frozen=True)
class Row:
    """One question: the sketch's answer with what it certifies, and the truth."""

    label: str
    answer: int
    exact: int
    rank_lo: int
    rank_hi: int
    bound: float
    error: float

    @property
    def kept(self) -> bool:
        return self.error <= self.bound


@dataclass(frozen=True)
class State:
    """Everything a frame shows. Errors, bounds and densities are fractions; values are microseconds."""

    eps: float
    seconds: float
    n: int
    arriving: float
    sketching: float
    nbytes: int
    rows: tuple[Row, ...]
    asked: int
    broken: int
    worst: float
    density: tuple[float, ...]
    medians: tuple[float, ...]
    tails: tuple[float, ...]


@dataclass(frozen=True)
class Look:
    """What the terminal can do."""

    width: int = 80
    color: bool = False
    blocks: bool = True


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[Row], str]
    keep: int
    """When the terminal is narrow, columns with a small number go first."""

    def width(self, rows: Sequence[Row]) -> int:
        return max([len(self.title), *(len(self.cell(row)) for row in rows)])


COLUMNS = (
    Column("", lambda row: row.label, keep=9),
    Column("answer", lambda row: f"{row.answer:,}", keep=8),
    Column("exact", lambda row: f"{row.exact:,}", keep=5),
    Column("certified ranks", lambda row: f"{row.rank_lo:,} to {row.rank_hi:,}", keep=1),
    Column("bound", lambda row: percent(row.bound), keep=7),
    Column("true error", lambda row: percent(row.error), keep=6),
)


def render(state: State, look: Look) -> list[str]:
    """The lines of one frame, none wider than the terminal."""
    return [
        *headline(state, look),
        "",
        *table(state.rows, look),
        "",
        *pictures(state, look),
        *verdict(state, look),
    ]


def headline(state: State, look: Look) -> list[str]:
    values = 8 * state.n
    facts = (
        f"{state.n:,} values in {state.seconds:.1f} s, {millions(state.arriving)} a second",
        f"the sketch alone takes {millions(state.sketching)} a second; "
        f"it holds {size(state.nbytes)}, the values {size(values)}",
    )
    title = f"Quantide: latencies in microseconds, every answer within {100 * state.eps:g}% of all ranks"
    return [*prose(title, look, BOLD), *(line for fact in facts for line in prose(fact, look))]


def table(rows: Sequence[Row], look: Look) -> list[str]:
    """The questions, with as many columns as fit."""
    columns = fitting(rows, look.width)
    widths = [column.width(rows) for column in columns]
    titles = GAP.join(column.title.rjust(width) for column, width in zip(columns, widths, strict=True))
    lines = [text(titles, look, DIM)]
    for row in rows:
        cells = GAP.join(column.cell(row).rjust(width) for column, width in zip(columns, widths, strict=True))
        lines.append(text(cells, look, "" if row.kept else RED))
    return lines


def fitting(rows: Sequence[Row], width: int) -> list[Column]:
    """The columns that fit, the least important left out first."""
    columns = list(COLUMNS)
    while len(columns) > 1 and table_width(columns, rows) > width:
        columns.remove(min(columns, key=lambda column: column.keep))
    return columns


def table_width(columns: Sequence[Column], rows: Sequence[Row]) -> int:
    return len(MARGIN) + sum(column.width(rows) for column in columns) + len(GAP) * (len(columns) - 1)


def pictures(state: State, look: Look) -> list[str]:
    """The distribution as the sketch sees it, and how the latest values move."""
    width = min(CHART_WIDTH, look.width - len(MARGIN))
    trail = max(1, width - len("p99 lately ") - len(" 1,000,000"))
    return [
        *(text(line, look, CYAN) for line in chart(state.density, CHART_ROWS, width, look.blocks)),
        text(axis(width), look, DIM),
        text(f"p50 lately {spark(state.medians, trail, look.blocks)} {latest(state.medians)}", look),
        text(f"p99 lately {spark(state.tails, trail, look.blocks)} {latest(state.tails)}", look),
    ]


def axis(width: int) -> str:
    """Where 1 ms, 10 ms, 100 ms and 1 s lie below the chart."""
    marks = ("1 ms", "10 ms", "100 ms", "1 s")
    line = ""
    for index, mark in enumerate(marks):
        at = index * (width - len(marks[-1])) // (len(marks) - 1)
        line = line.ljust(at) + mark + " "
    return line.rstrip()


def verdict(state: State, look: Look) -> list[str]:
    if state.broken:
        return prose(f"{state.broken:,} of {state.asked:,} answers BROKE their bound", look, RED)
    said = f"{state.asked:,} answers compared: all within their bounds, worst {percent(state.worst)}"
    return prose(said, look, GREEN)


def prose(sentence: str, look: Look, style: str = "") -> list[str]:
    """A sentence in as many lines as it needs."""
    return [text(line, look, style) for line in wrap(sentence, max(1, look.width - len(MARGIN)))]


def text(line: str, look: Look, style: str = "") -> str:
    """A line cut to the terminal, in a style where colours are wanted."""
    cut = (MARGIN + line)[: look.width].rstrip()
    return f"\x1b[{style}m{cut}\x1b[0m" if style and look.color else cut


def latest(values: Sequence[float]) -> str:
    return f"{values[-1]:,.0f}" if values else ""


def percent(fraction: float) -> str:
    """
    >>> percent(0.00048)
    '0.0480%'
    """
    return f"{100 * fraction:.4f}%"


def millions(rate: float) -> str:
    """
    >>> millions(5_040_000)
    '5.0 million'
    """
    return f"{rate / 1e6:,.1f} million"


def size(nbytes: float) -> str:
    """
    >>> size(310_000), size(2_500_000_000)
    ('310.0 KB', '2.5 GB')
    """
    for unit in ("bytes", "KB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} bytes" if unit == "bytes" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:,.1f} GB"
