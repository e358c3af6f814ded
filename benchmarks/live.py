"""Live readers: questions a second, keys nobody asked about before, how fast they follow, how fast they start."""

from pathlib import Path

from benchmarks.live_appends import appends
from benchmarks.live_follow import follow
from benchmarks.live_keys import day_of_keys
from benchmarks.live_questions import questions
from benchmarks.live_restart import restart, year
from benchmarks.live_settings import HOUR, QUICK, Settings
from benchmarks.live_small import small
from benchmarks.report import Report

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS = {
    "questions": questions,
    "keys": day_of_keys,
    "small": small,
    "follow": follow,
    "restart": restart,
    "year": year,
    "appends": appends,
}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("live", settings, PARTS, command, folder, [])
