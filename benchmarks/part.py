"""One thing that is measured, at three sizes, and told on a page of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from benchmarks.report import Report

Size = Literal["quick", "hour", "full"]
S = TypeVar("S")


def no_figures(report: Report) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Part(Generic[S]):
    """`run(settings, command, folder)` measures: `quick`, a smoke run of seconds whose numbers mean nothing; `hour`, a
    part's share of an hour for everything; `full`. It may write to `folder` (None: nowhere) what it has found so far.
    The rest is made from the report and from nothing else: `figures` gives SVG by the name of its file.
    """

    about: str
    run: Callable[[S, str, Path | None], Report]
    quick: S
    hour: S
    full: S
    render: Callable[[Report], str]
    headlines: Callable[[Report], list[str]]
    figures: Callable[[Report], dict[str, str]] = no_figures

    def measure(self, size: Size, command: str, folder: Path | None) -> Report:
        settings = {"quick": self.quick, "hour": self.hour, "full": self.full}[size]
        return self.run(settings, command, folder)
