"""One thing that is measured, at three sizes, and told on a page of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks.report import Report

Size = Literal["quick", "hour", "full"]


class Measuring(Protocol):
    """A module that measures. `QUICK`: a smoke run of seconds whose numbers mean nothing; `HOUR`: a part's share of an
    hour for everything; `Settings()`: the large size."""

    HOUR: Any
    QUICK: Any

    @property
    def Settings(self) -> Callable[[], Any]: ...

    @property
    def run(self) -> Callable[[Any, str, Path | None], Report]:
        """`run(settings, command, folder)` may write to the folder (None: nowhere) what it has found so far."""


class Telling(Protocol):
    """A module that makes a page and headlines from a report and from nothing else."""

    def render(self, report: Report) -> str: ...

    def headlines(self, report: Report) -> list[str]: ...


def no_figures(report: Report) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Part:
    """`figures` gives SVG by the name of its file."""

    about: str
    measuring: Measuring
    telling: Telling
    figures: Callable[[Report], dict[str, str]] = no_figures

    def measure(self, size: Size, command: str, folder: Path | None) -> Report:
        module = self.measuring
        settings = {"quick": module.QUICK, "hour": module.HOUR, "full": module.Settings()}[size]
        return module.run(settings, command, folder)
