"""Windows: how fast they are fed and asked, what they hold, and peers beside them."""

from dataclasses import asdict
from pathlib import Path

from benchmarks.report import Report, Row, say
from benchmarks.windows_peers import peers
from benchmarks.windows_questions import questions
from benchmarks.windows_rates import rates
from benchmarks.windows_settings import QUICK, Settings
from benchmarks.windows_space import space

__all__ = ["QUICK", "Settings", "run"]

PARTS = {"rates": rates, "questions": questions, "peers": peers, "space": space}


def run(settings: Settings, command: str, folder: Path | None = None) -> Report:
    """All parts; what was found so far is written after each of them, so that little is lost when a run ends early."""
    rows: dict[str, list[Row]] = {}
    report = Report.of("windows", asdict(settings), rows, command)
    for name, measure in PARTS.items():
        rows[name] = measure(settings)
        if folder is not None:
            say(f"wrote {report.write(folder).name}, with {name}")
    return report
