"""Small charts made of characters."""

from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*%#"


def spark(values: Sequence[float], width: int, blocks: bool = True) -> str:
    """The newest `width` values as one line, the smallest lowest and the largest highest.

    >>> spark([1, 2, 3, 2, 1], 4)
    '▅█▅▁'
    >>> spark([], 3)
    '   '
    """
    newest = list(values[-width:])
    if not newest:
        return " " * width
    low, span = min(newest), max(newest) - min(newest)
    glyphs = (BLOCKS if blocks else ASCII)[1:]
    top = len(glyphs) - 1
    return "".join(glyphs[round(top * (value - low) / span) if span else 0] for value in newest).rjust(width)


def chart(heights: Sequence[float], rows: int, width: int, blocks: bool = True) -> list[str]:
    """Columns that stand on a common ground, `rows` lines high and `width` characters wide.

    >>> for line in chart([0, 1, 2], rows=2, width=3):
    ...     print(repr(line))
    '  █'
    ' ██'
    """
    if not heights:
        return [" " * width] * rows
    glyphs = BLOCKS if blocks else ASCII
    full = len(glyphs) - 1
    highest = max(heights) or 1
    columns = [round(rows * full * height / highest) for height in resample(heights, width)]
    return [
        "".join(glyphs[min(full, max(0, column - row * full))] for column in columns) for row in reversed(range(rows))
    ]


def resample(values: Sequence[float], width: int) -> list[float]:
    """
    >>> resample([1, 2, 3, 4], 2), resample([1, 2], 4)
    ([1, 3], [1, 1, 2, 2])
    """
    return [values[index * len(values) // width] for index in range(width)]
