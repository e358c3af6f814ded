"""The server: questions at a fixed rate while data comes in, and standing queries with many who listen."""

from pathlib import Path

from benchmarks.report import Report
from benchmarks.serve_events import events
from benchmarks.serve_questions import questions
from benchmarks.serve_settings import HOUR, QUICK, Settings

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS = {"questions": questions, "events": events}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("serve", settings, PARTS, command, folder, [])
