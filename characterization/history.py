"""History and stream: the figures 4 to 13 of the paper, for quantide.history.

Singh, Srivastava, Tirthapura: Estimating quantiles from the union of historical and streaming data, PVLDB 10(4),
2016, section 3.
"""

from pathlib import Path

import numpy as np

from benchmarks.report import Report
from characterization import history_growth, history_kappa, history_memory
from characterization.history_settings import HOUR, QUICK, Settings
from characterization.history_trial import trial

__all__ = ["HOUR", "QUICK", "Settings", "run"]


PARTS = {"memory": history_memory.measure, "kappa": history_kappa.measure, "growth": history_growth.measure}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    _warm()
    return Report.in_parts("history", settings, PARTS, command, folder, missing=[])


def _warm() -> None:
    """What is loaded or compiled once is so before anything is timed."""
    for kind in ("float32", "float64"):
        with trial(QUICK, QUICK.memory, 1, kind) as t:
            t.fill([np.arange(100, dtype=kind)] * 4)
            t.ask("accurate")
            t.ask("quick")
