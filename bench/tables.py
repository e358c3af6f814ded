"""Numbers and Markdown tables that are readable in a terminal too."""

from collections.abc import Sequence

DASH = "-"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table with aligned columns, numbers to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    if any(len(line) != len(header) for line in lines):
        raise ValueError(f"every row needs {len(header)} cells")
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(header))]
    right = [all(_numeric(line[i]) for line in lines[1:]) for i in range(len(header))]
    rule = ["-" * (width - 1) + ":" if to_right else "-" * width for width, to_right in zip(widths, right, strict=True)]
    padded = [
        [cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(*columns, strict=True)]
        for columns in ((line, widths, right) for line in lines)
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in (padded[0], rule, *padded[1:])) + "\n"


def _numeric(cell: str) -> bool:
    return cell == DASH or cell.removeprefix("-")[:1].isdigit()


def ratio(value: float | None) -> str:
    """Format with two to three digits: 0.85, 8.3, 120."""
    if value is None:
        return DASH
    if value < 9.95:
        return f"{value:.2f}" if value < 2 else f"{value:.1f}"
    return f"{value:,.0f}"


def millions(per_second: float | None) -> str:
    """Format a rate in millions a second."""
    if per_second is None:
        return DASH
    rate = per_second / 1e6
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"


def size(count: float | None) -> str:
    """Format bytes."""
    if count is None:
        return DASH
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def seconds(value: float | None) -> str:
    return DASH if value is None else f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def milliseconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value * 1e3:,.0f} ms"


def microseconds(value: float) -> str:
    return f"{value * 1e6:,.0f} µs"


def duration(value: float) -> str:
    """Format seconds, minutes or hours."""
    if value < 600:
        return seconds(value)
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def minutes(value: float) -> str:
    whole, rest = divmod(round(value), 60)
    return f"{whole} min {rest:02d} s" if whole else f"{rest} s"


def power(n: int) -> str:
    """Format powers of ten as 10^9, other integers as 2,000,000."""
    digits = str(n)
    return f"10^{len(digits) - 1}" if n >= 1000 and digits == "1" + "0" * (len(digits) - 1) else f"{n:,}"


def plain(value: float | None) -> str:
    """Format a small fraction without an exponent."""
    return DASH if value is None else f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def short(number: float) -> str:
    """Format with a decimal prefix: 11.6 M."""
    if number == float("inf"):
        return "no end"
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {letter}"
    return f"{number:.3g}"


def amount(number: float, unit: str) -> str:
    """Format seconds or bytes with three digits; other units as they are."""
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if number >= factor:
                return f"{number / factor:.3g} {name}"
        return f"{number * 1e9:.3g} ns"
    if unit == "bytes":
        return f"{short(number)}B" if number >= 1e3 else f"{number:.3g} B"
    return f"{short(number)} {unit}"


def count(number: float) -> str:
    """Format cores, or how many times a limit is exceeded."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
