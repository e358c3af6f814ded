"""Finding: the result of a check."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quantide.config import Config

OK, WARNING, FAILED = "ok", "warning", "failed"


@dataclass(frozen=True)
class Finding:
    """`state` is ok, warning (it works, but not as well as it could, or not for all) or failed; `fix` says what to
    do."""

    check: str
    state: str
    found: str
    fix: str | None = None


Check = Callable[[Config | None], Iterator[Finding]]


def format_gigabytes(size: float) -> str:
    """
    >>> format_gigabytes(12_340_000_000)
    '12.3 GB'
    """
    return f"{size / 1e9:,.1f} GB"
