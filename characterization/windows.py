"""Windows: the figures of two papers, for quantide.windows.

Lin, Lu, Xu, Yu: Continuously maintaining quantile summaries of the most recent N elements over a data stream, ICDE
2004. Xu, Lin, Zhou: Space efficient quantile summary for constrained sliding windows on a data stream.
"""

from dataclasses import asdict

from benchmarks.report import Report
from characterization import windows_constrained, windows_recent
from characterization.windows_settings import QUICK, Settings

__all__ = ["QUICK", "Settings", "measure", "run"]


def run(quick: bool, command: str) -> Report:
    return measure(QUICK if quick else Settings(), command)


def measure(settings: Settings, command: str) -> Report:
    rows = windows_recent.measure(settings) | windows_constrained.measure(settings)
    return Report.of("windows", asdict(settings), rows, command, missing=[])
