"""One frame of the demo as lines of text: a pure function of what there is to show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from quantide.demo.chart import spark

MARGIN = "  "
GAP = "   "
TRAIL_WIDTH = 24

BOLD, DIM, GREEN, RED = "1", "2", "32", "31"


@dataclass(frozen=True)
class Row:
    """A symbol: quantiles of its spread, what is proved of the last one, and how that one moved of late."""

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
class Alarm:
    name: str
    phi: float
    above: float
    value: float | None
    firing: bool
    state: str


@dataclass(frozen=True)
class State:
    """Everything a frame shows. Spreads are in basis points, errors are fractions, `lag` is in seconds."""

    address: str
    seconds: float
    n: int
    rate: float
    lag: float
    window: str
    rows: tuple[Row, ...]
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True)
class Look:
    """What the terminal can do."""

    width: int = 80
    color: bool = False
    blocks: bool = True


@dataclass(frozen=True)
class Column:
    title: str
    cell: Callable[[Row, Look], str]
    keep: int
    """When the terminal is narrow, columns with a small number go first."""

    def cells(self, rows: Sequence[Row], look: Look) -> list[str]:
        found = [self.title, *(self.cell(row, look) for row in rows)]
        width = max(map(len, found))
        return [cell.rjust(width) for cell in found]


COLUMNS = (
    Column("", lambda row, _: row.symbol, keep=9),
    Column("p50", lambda row, _: f"{row.p50:,.3f}", keep=6),
    Column("p90", lambda row, _: f"{row.p90:,.3f}", keep=5),
    Column("p99", lambda row, _: f"{row.p99:,.3f}", keep=8),
    Column("its rank, proved", lambda row, _: ranks(row), keep=3),
    Column("of", lambda row, _: f"{row.n:,}", keep=2),
    Column("off by at most", lambda row, _: percent(row.error), keep=4),
    Column("p99 of late", lambda row, look: spark(row.trail, TRAIL_WIDTH, look.blocks), keep=7),
)


def render(state: State, look: Look) -> list[str]:
    """The lines of one frame, none wider than the terminal."""
    return [*headline(state, look), "", *table(state.rows, look), "", *alarms(state.alarms, look)]


def newest(lag: float) -> str:
    """Age of the newest value; a value that is dated ahead of the clock is never shown as new."""
    if lag < -1:  # clocks differ by less
        return f"the newest is dated {-lag:.1f} s ahead of the clock"
    return f"the newest came {max(0.0, lag):.1f} s ago"


def headline(state: State, look: Look) -> list[str]:
    coming = f"{state.rate:,.0f} a second come in" if state.rate else "none came of late (Spark takes a while to start)"
    facts = (
        f"{state.n:,} values, {coming}; {newest(state.lag)}",
        f"spreads of the last {state.window} in basis points, each with the ranks that are proved for it",
    )
    title = f"Quantide demo, the same in a browser: {state.address}"
    return [*prose(title, look, BOLD), *(line for fact in facts for line in prose(fact, look))]


def table(rows: Sequence[Row], look: Look) -> list[str]:
    """The symbols, with as many columns as fit."""
    if not rows:
        return [text("no ticks yet", look, DIM)]
    columns = fitting(rows, look)
    lines = [GAP.join(cells) for cells in zip(*(column.cells(rows, look) for column in columns), strict=True)]
    return [text(lines[0], look, DIM), *(text(line, look) for line in lines[1:])]


def fitting(rows: Sequence[Row], look: Look) -> list[Column]:
    """The columns that fit, the least important left out first."""
    columns = list(COLUMNS)
    while len(columns) > 1 and table_width(columns, rows, look) > look.width:
        columns.remove(min(columns, key=lambda column: column.keep))
    return columns


def table_width(columns: Sequence[Column], rows: Sequence[Row], look: Look) -> int:
    return len(MARGIN) + sum(len(column.cells(rows, look)[0]) for column in columns) + len(GAP) * (len(columns) - 1)


def alarms(found: Sequence[Alarm], look: Look) -> list[str]:
    return [line for alarm in found for line in prose(alarm_line(alarm), look, RED if alarm.firing else GREEN)]


def alarm_line(alarm: Alarm) -> str:
    """
    >>> alarm_line(Alarm("ECHO is wide", 0.99, 30.0, 75.25, True, "certain"))
    'FIRES   ECHO is wide: p99 is 75.25, the limit 30'
    """
    value = "not known" if alarm.value is None else f"{alarm.value:,.2f}"
    state = "FIRES" if alarm.firing else "quiet"
    return f"{state}   {alarm.name}: p{100 * alarm.phi:g} is {value}, the limit {alarm.above:g}"


def ranks(row: Row) -> str:
    return f"{row.rank_lo:,}" if row.rank_lo == row.rank_hi else f"{row.rank_lo:,} to {row.rank_hi:,}"


def prose(sentence: str, look: Look, style: str = "") -> list[str]:
    """A sentence in as many lines as it needs."""
    return [text(line, look, style) for line in wrap(sentence, max(1, look.width - len(MARGIN)))]


def text(line: str, look: Look, style: str = "") -> str:
    """A line cut to the terminal, in a style where colours are wanted."""
    cut = (MARGIN + line)[: look.width].rstrip()
    return f"\x1b[{style}m{cut}\x1b[0m" if style and look.color else cut


def percent(fraction: float) -> str:
    """
    >>> percent(0.00048)
    '0.0480%'
    """
    return f"{100 * fraction:.4f}%"
