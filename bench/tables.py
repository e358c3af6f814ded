"""Numbers and Markdown tables that are readable in a terminal too; a missing number is a dash."""

from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Undefined

DASH = "-"
Format = Callable[..., str]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table with aligned columns, numbers to the right."""
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"every row needs {len(header)} cells")
    columns = []
    for head, *cells in zip(header, *rows, strict=True):
        width = max(3, *map(len, (head, *cells)))
        if all(cell == DASH or cell.removeprefix("-")[:1].isdigit() for cell in cells):
            columns.append([cell.rjust(width) for cell in (head, "-" * (width - 1) + ":", *cells)])
        else:
            columns.append([cell.ljust(width) for cell in (head, "-" * width, *cells)])
    return "".join("| " + " | ".join(line) + " |\n" for line in zip(*columns, strict=True))


def dashed(function: Format) -> Format:
    """Format None and missing values as a dash."""
    return lambda value, *more: DASH if value is None or isinstance(value, Undefined) else function(value, *more)


def _scaled(value: float, units: str, digits: str) -> str:
    """Format with the largest of some units, each a thousand times the next, that is at most the value."""
    larger = units.split(",")
    power = next((power for power in range(len(larger) - 1, 0, -1) if value >= 1e3**power), 0)
    return f"{value / 1e3**power:{digits}} {larger[-1 - power]}".rstrip()


def _amount(value: float, unit: str) -> str:
    """Format seconds or bytes with three digits; other units as they are."""
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else _scaled(value * 1e9, "ms,us,ns", ".3g")
    return _scaled(value, "PB,TB,GB,MB,kB,B", ".3g") if unit == "bytes" else f"{short(value)} {unit}"


def _microseconds(value: float) -> str:
    whole = round(value * 1e6)
    return f"{whole:,} microsecond{'s' * (whole != 1)}" if whole else "less than 1 microsecond"


ratio = dashed(lambda x: f"{x:.2f}" if x < 2 else f"{x:.1f}" if x < 9.95 else f"{x:,.0f}")  # 0.85, 8.3, 120
millions = dashed(lambda x: f"{x / 1e6:.0f}" if x >= 1e8 else f"{x / 1e6:.1f}" if x >= 1e6 else f"{x / 1e6:.2f}")
size = dashed(lambda x: _scaled(x, "GB,MB,KB,B", ".1f") if x >= 1e3 else f"{x} B")
seconds = dashed(lambda x: f"{x * 1e3:.1f} ms" if x < 1 else f"{x:.2f} s")
duration = dashed(lambda x: seconds(x) if x < 600 else f"{x / 60:.0f} min" if x < 7200 else f"{x / 3600:.1f} h")
minutes = dashed(lambda x: f"{round(x) // 60} min {round(x) % 60:02d} s" if round(x) >= 60 else f"{round(x)} s")
power = dashed(lambda n: f"10^{len(str(n)) - 1}" if n >= 1000 and n == 10 ** (len(str(n)) - 1) else f"{n:,}")
plain = dashed(lambda x: f"{x:.6f}".rstrip("0").rstrip("."))  # a small fraction without an exponent
short = dashed(lambda x: "no end" if x == float("inf") else _scaled(x, "P,T,G,M,k,", ".3g"))  # 11.6 M
amount = dashed(_amount)

FILTERS: dict[str, Format] = {"ratio": ratio, "millions": millions, "size": size, "seconds": seconds, "power": power}
FILTERS |= {"duration": duration, "minutes": minutes, "plain": plain, "short": short, "amount": amount}
_MORE: dict[str, Callable[[Any], str]] = {
    "cores": lambda x: f"{x:,.0f}" if x >= 10 else f"{x:.2g}",
    "ms": lambda x: f"{x * 1e3:.2f} ms" if x < 0.1 else f"{x * 1e3:,.0f} ms",
    "milli": lambda x: f"{x * 1e3:.1f} ms",
    "us": lambda x: f"{x * 1e6:,.0f} µs",
    "microseconds": _microseconds,
    "n": lambda x: f"{x:,}" if isinstance(x, int) else f"{x:,.0f}",
    "usd": lambda x: f"{x:,.0f}" if x >= 100 else f"{x:.2g}" if x < 1 else f"{x:.1f}",
    "yes": lambda x: "yes" if x else "NO",
}
FILTERS |= {name: dashed(function) for name, function in _MORE.items()} | {"f": dashed(format)}
