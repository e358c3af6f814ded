"""Columns that a file does not have: one wording for all formats, with the nearest name that is there."""

from collections.abc import Sequence

from quantide.config.table import nearest

NO_COLUMN = "there is no column"
HEADER = "its first line looks like a header"
SHOWN = 50  # names that are listed


def column_missing(column: str, names: Sequence[str]) -> str:
    """
    >>> column_missing("latncy", ["ts", "latency"])
    "there is no column 'latncy'; there are ts, latency. Did you mean 'latency'?"
    """
    there = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    near = nearest(column, names, 0.6)
    hint = f". Did you mean {near!r}?" if near else ""
    return f"{NO_COLUMN} {column!r}; there are {there}{hint}"


def is_mistake(reason: str) -> bool:
    """Return True if a file is held because of what a configuration says of its columns."""
    return NO_COLUMN in reason or HEADER in reason
