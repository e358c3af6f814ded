"""Numbers and tables as Markdown that reads well in a terminal too."""

from collections.abc import Sequence

DASH = "-"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table with aligned columns; numbers to the right."""
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
    """Two to three digits: 0.85, 8.3, 120."""
    if value is None:
        return DASH
    if value < 9.95:
        return f"{value:.2f}" if value < 2 else f"{value:.1f}"
    return f"{value:,.0f}"


def millions(per_second: float | None) -> str:
    """A rate in millions a second."""
    if per_second is None:
        return DASH
    millions = per_second / 1e6
    return f"{millions:.0f}" if millions >= 100 else f"{millions:.1f}" if millions >= 1 else f"{millions:.2f}"


def size(count: int | None) -> str:
    """Bytes in the unit that fits."""
    if count is None:
        return DASH
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def seconds(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def power(n: int) -> str:
    """10^9 for powers of ten, 2,000,000 for others."""
    digits = str(n)
    return f"10^{len(digits) - 1}" if n >= 1000 and digits == "1" + "0" * (len(digits) - 1) else f"{n:,}"


def plain(value: float | None) -> str:
    """A small fraction without an exponent."""
    return DASH if value is None else f"{value:.6f}".rstrip("0").rstrip(".") or "0"
