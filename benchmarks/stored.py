"""All that is stored of both families, and how one row of it is found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.family import DOCS
from benchmarks.report import Report, Row

Reports = Mapping[str, Report]
FOLDERS = ("results", "characterization")


class NotMeasuredError(LookupError):
    """The stored results do not have it: a run that ended early, or smaller settings."""


@dataclass(frozen=True)
class Found:
    """What was measured: the number that is compared, how it is told, and under which settings."""

    value: float
    told: str
    setting: str


Measure = Callable[[Reports], Found]


def stored(docs: Path = DOCS) -> dict[str, Report]:
    """By folder and part, such as "results/fast"."""
    paths = sorted(path for folder in FOLDERS for path in (docs / folder).glob("*.json"))
    return {f"{path.parent.name}/{path.stem}": Report.read(path) for path in paths}


def settings(reports: Reports, name: str) -> Row:
    if name not in reports:
        raise NotMeasuredError(name)
    return reports[name].settings


def rows(reports: Reports, name: str, part: str, **wanted: Any) -> list[Row]:
    """Those that are as wanted, at least one."""
    found = reports[name].rows.get(part, []) if name in reports else []
    found = [row for row in found if all(row[key] == value for key, value in wanted.items())]
    if not found:
        raise NotMeasuredError(f"{name}: {part} with {wanted}")
    return found
