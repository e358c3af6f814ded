"""Windows: how fast they are fed and asked, what they hold, and peers beside them."""

from pathlib import Path

from benchmarks.report import Report
from benchmarks.windows_peers import peers
from benchmarks.windows_questions import questions
from benchmarks.windows_rates import rates
from benchmarks.windows_settings import HOUR, QUICK, Settings
from benchmarks.windows_space import space

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS = {"rates": rates, "questions": questions, "peers": peers, "space": space}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("windows", settings, PARTS, command, folder)
