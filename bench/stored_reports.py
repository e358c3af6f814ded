"""All stored reports, and selections of their rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.collection import DOCS
from bench.report import Report, Row

Reports = Mapping[str, Report]
FOLDERS = ("results", "characterization")


class NotMeasuredError(LookupError):
    """The stored results do not have it: the run was interrupted, or had smaller settings."""


def stored(docs: Path = DOCS) -> dict[str, Report]:
    """Return reports by folder and subject, such as "results/fast"."""
    paths = sorted(path for folder in FOLDERS for path in (docs / folder).glob("*.json"))
    return {f"{path.parent.name}/{path.stem}": Report.read(path) for path in paths}


def settings(reports: Reports, name: str) -> Row:
    if name not in reports:
        raise NotMeasuredError(name)
    return reports[name].settings


def select(reports: Reports, name: str, part: str, **fields: Any) -> list[Row]:
    """Return the rows with these values, at least one."""
    rows = reports[name].rows.get(part, []) if name in reports else []
    if not (found := [row for row in rows if fields.items() <= row.items()]):
        raise NotMeasuredError(f"{name}: {part} with {fields}")
    return found
