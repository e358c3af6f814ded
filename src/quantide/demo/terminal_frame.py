"""One frame of the demo as lines of text: a pure function of its state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from quantide.summary.answer import format_percent

MARGIN = "  "
GAP = "   "
TRAIL_WIDTH = 24
BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = ".:-=+*%#"

BOLD, DIM, GREEN, RED = "1", "2", "32", "31"


@dataclass(frozen=True)
class KeyRow:
    """A symbol: quantiles of its spread, the proved ranks of its p99, and recent values of its p99."""

    symbol: str
    p50: float
    p90: float
    p99: float
    rank_lo: int
    rank_hi: int
    n: int
    error: float
    trail: tuple[float, ...]


@dataclass(frozen=True)
class AlarmRow:
    name: str
    phi: float
    above: float
    value: float | None
    firing: bool
    state: str
    unit: str = ""


@dataclass(frozen=True)
class FrameState:
    """Content of a frame. Spreads are in basis points, errors are fractions, `lag` is in seconds."""

    address: str
    seconds: float
    n: int
    rate: float
    lag: float
    window: str
    rows: tuple[KeyRow, ...]
    alarms: tuple[AlarmRow, ...]


@dataclass(frozen=True)
class TerminalStyle:
    """Capabilities of the terminal."""

    width: int = 80
    color: bool = False
    blocks: bool = True


@dataclass(frozen=True)
class TableColumn:
    title: str
    cell: Callable[[KeyRow, TerminalStyle], str]
    priority: int
    """Columns with a low priority are left out first in a narrow terminal."""

    def format_cells(self, rows: Sequence[KeyRow], style: TerminalStyle) -> list[str]:
        cells = [self.title, *(self.cell(row, style) for row in rows)]
        width = max(map(len, cells))
        return [cell.rjust(width) for cell in cells]


COLUMNS = (
    TableColumn("", lambda row, _: row.symbol, priority=9),
    TableColumn("p50", lambda row, _: f"{row.p50:,.3f}", priority=6),
    TableColumn("p90", lambda row, _: f"{row.p90:,.3f}", priority=5),
    TableColumn("p99", lambda row, _: f"{row.p99:,.3f}", priority=8),
    TableColumn("its rank, proved", lambda row, _: format_ranks(row), priority=3),
    TableColumn("of", lambda row, _: f"{row.n:,}", priority=2),
    TableColumn("off by at most", lambda row, _: format_percent(row.error), priority=4),
    TableColumn("recent p99", lambda row, style: draw_sparkline(row.trail, TRAIL_WIDTH, style.blocks), priority=7),
)


def render(state: FrameState, style: TerminalStyle) -> list[str]:
    """Return the lines of one frame, none wider than the terminal."""
    return [
        *format_headline(state, style),
        "",
        *format_table(state.rows, style),
        "",
        *format_alarms(state.alarms, style),
    ]


def format_lag(lag: float) -> str:
    """Return the age of the newest value; a value dated ahead of the clock is reported as such."""
    if lag < -1:  # clocks may differ by less
        return f"the newest is dated {-lag:.1f} s ahead of the clock"
    return f"the newest arrived {max(0.0, lag):.1f} s ago"


def format_headline(state: FrameState, style: TerminalStyle) -> list[str]:
    arrivals = (
        f"{state.rate:,.0f} a second arrive" if state.rate else "none arrived recently (Spark takes a while to start)"
    )
    facts = (
        f"{state.n:,} values, {arrivals}; {format_lag(state.lag)}",
        f"spreads of the last {state.window} in basis points, each with its proved ranks",
    )
    title = f"Quantide demo, the same in a browser: {state.address}"
    return [*wrap_sentence(title, style, BOLD), *(line for fact in facts for line in wrap_sentence(fact, style))]


def format_table(rows: Sequence[KeyRow], style: TerminalStyle) -> list[str]:
    """Return a table of the symbols, with the columns that fit."""
    if not rows:
        return [format_line("no ticks yet", style, DIM)]
    columns = choose_columns(rows, style)
    lines = [GAP.join(cells) for cells in zip(*(column.format_cells(rows, style) for column in columns), strict=True)]
    return [format_line(lines[0], style, DIM), *(format_line(line, style) for line in lines[1:])]


def choose_columns(rows: Sequence[KeyRow], style: TerminalStyle) -> list[TableColumn]:
    """Return the columns that fit; columns of the lowest priority are left out first."""
    columns = list(COLUMNS)
    while len(columns) > 1 and measure_width(columns, rows, style) > style.width:
        columns.remove(min(columns, key=lambda column: column.priority))
    return columns


def measure_width(columns: Sequence[TableColumn], rows: Sequence[KeyRow], style: TerminalStyle) -> int:
    return (
        len(MARGIN)
        + sum(len(column.format_cells(rows, style)[0]) for column in columns)
        + len(GAP) * (len(columns) - 1)
    )


def format_alarms(alarms: Sequence[AlarmRow], style: TerminalStyle) -> list[str]:
    return [
        line for alarm in alarms for line in wrap_sentence(format_alarm(alarm), style, RED if alarm.firing else GREEN)
    ]


def format_alarm(alarm: AlarmRow) -> str:
    """
    >>> format_alarm(AlarmRow("ECHO is wide", 0.99, 30.0, 75.25, True, "certain", "bp"))
    'FIRES   ECHO is wide: p99 is 75.25 bp, the limit 30 bp'
    """
    unit = f" {alarm.unit}" if alarm.unit else ""
    value = "not known" if alarm.value is None else f"{alarm.value:,.2f}{unit}"
    state = "FIRES" if alarm.firing else "quiet"
    return f"{state}   {alarm.name}: p{100 * alarm.phi:g} is {value}, the limit {alarm.above:g}{unit}"


def format_ranks(row: KeyRow) -> str:
    return f"{row.rank_lo:,}" if row.rank_lo == row.rank_hi else f"{row.rank_lo:,} to {row.rank_hi:,}"


def wrap_sentence(sentence: str, style: TerminalStyle, color: str = "") -> list[str]:
    """Return a sentence as lines that fit the terminal."""
    return [format_line(line, style, color) for line in wrap(sentence, max(1, style.width - len(MARGIN)))]


def format_line(line: str, style: TerminalStyle, color: str = "") -> str:
    """Return a line cut to the terminal's width, in color if the terminal has it."""
    cut = (MARGIN + line)[: style.width].rstrip()
    return f"\x1b[{color}m{cut}\x1b[0m" if color and style.color else cut


def draw_sparkline(values: Sequence[float], width: int, blocks: bool = True) -> str:
    """Return the newest `width` values as a line of characters, from the lowest for the minimum to the highest.

    >>> draw_sparkline([1, 2, 3, 2, 1], 4)
    '▅█▅▁'
    >>> draw_sparkline([], 3)
    '   '
    """
    newest = list(values[-width:])
    if not newest:
        return " " * width
    minimum, span = min(newest), max(newest) - min(newest)
    glyphs = BLOCKS if blocks else ASCII
    top = len(glyphs) - 1
    return "".join(glyphs[round(top * (value - minimum) / span) if span else 0] for value in newest).rjust(width)
