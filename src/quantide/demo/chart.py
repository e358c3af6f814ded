"""A small chart made of characters."""

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = ".:-=+*%#"


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
    glyphs = BLOCKS if blocks else ASCII
    top = len(glyphs) - 1
    return "".join(glyphs[round(top * (value - low) / span) if span else 0] for value in newest).rjust(width)
