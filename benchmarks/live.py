"""Live readers: questions a second, keys nobody asked about before, how fast they follow, how fast they start."""

from dataclasses import asdict
from pathlib import Path

from benchmarks.live_appends import appends
from benchmarks.live_follow import follow
from benchmarks.live_keys import day_of_keys
from benchmarks.live_questions import questions
from benchmarks.live_restart import restart, year
from benchmarks.live_settings import QUICK, Settings
from benchmarks.live_small import small
from benchmarks.report import Report, Row, say

__all__ = ["QUICK", "Settings", "run"]

PARTS = {
    "questions": questions,
    "keys": day_of_keys,
    "small": small,
    "follow": follow,
    "restart": restart,
    "year": year,
    "appends": appends,
}


def run(settings: Settings, command: str, folder: Path | None = None) -> Report:
    """All parts; what was found so far is written after each of them, so that little is lost when a run ends early."""
    rows: dict[str, list[Row]] = {}
    report = Report.of("live", asdict(settings), rows, command, [])
    for name, measure in PARTS.items():
        rows[name] = measure(settings)
        if folder is not None:
            say(f"wrote {report.write(folder).name}, with {name}")
    return report
