"""Windows: the figures of two papers, for quantide.windows.

Lin, Lu, Xu, Yu: Continuously maintaining quantile summaries of the most recent N elements over a data stream, ICDE
2004. Xu, Lin, Zhou: Space efficient quantile summary for constrained sliding windows on a data stream.
"""

from pathlib import Path

from benchmarks.report import Report
from characterization import windows_constrained, windows_recent
from characterization.windows_settings import HOUR, QUICK, Settings

__all__ = ["HOUR", "QUICK", "Settings", "run"]


PARTS = {"recent": windows_recent.measure, "constrained": windows_constrained.measure}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("windows", settings, PARTS, command, folder, missing=[])
