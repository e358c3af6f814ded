"""The server: questions at a fixed rate while data comes in, and standing queries with many who listen."""

from dataclasses import asdict
from pathlib import Path

from benchmarks.report import Report, Row, say
from benchmarks.serve_events import events
from benchmarks.serve_questions import questions
from benchmarks.serve_settings import QUICK, Settings

__all__ = ["QUICK", "Settings", "run"]

PARTS = {"questions": questions, "events": events}


def run(settings: Settings, command: str, folder: Path | None = None) -> Report:
    """Both parts; what was found so far is written after each."""
    rows: dict[str, list[Row]] = {}
    report = Report.of("serve", asdict(settings), rows, command, [])
    for name, measure in PARTS.items():
        rows |= measure(settings)
        if folder is not None:
            say(f"wrote {report.write(folder).name}, with {name}")
    return report
