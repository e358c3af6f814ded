"""Summaries that structures with proved bounds refuse."""

from typing import Any

from quantide.errors import UnprovedError


class UnprovedSummary:
    """Base of summaries with bounds that a Summary cannot express. `REASON` is part of the error message."""

    __slots__ = ()

    REASON: str


def refuse_unproved(data: Any) -> None:
    """Raise if the data is such a summary."""
    if isinstance(data, UnprovedSummary):
        raise UnprovedError(f"an object of type {type(data).__name__} is refused here: {data.REASON}")
