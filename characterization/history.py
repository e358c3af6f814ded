"""History and stream: the figures 4 to 13 of the paper, for quantide.history.

Singh, Srivastava, Tirthapura: Estimating quantiles from the union of historical and streaming data, PVLDB 10(4),
2016, section 3.
"""

from dataclasses import asdict

import numpy as np

from benchmarks.report import Report
from characterization import history_growth, history_kappa, history_memory
from characterization.history_settings import QUICK, Settings
from characterization.history_trial import trial

__all__ = ["QUICK", "Settings", "measure", "run"]


def run(quick: bool, command: str) -> Report:
    return measure(QUICK if quick else Settings(), command)


def measure(settings: Settings, command: str) -> Report:
    _warm()
    parts = (history_memory, history_kappa, history_growth)
    found = {name: rows for part in parts for name, rows in part.measure(settings).items()}
    return Report.of("history", asdict(settings), found, command, missing=[])


def _warm() -> None:
    """What is loaded or compiled once is so before anything is timed."""
    for kind in ("float32", "float64"):
        with trial(QUICK, QUICK.memory, 1, kind) as t:
            t.fill([np.arange(100, dtype=kind)] * 4)
            t.ask("accurate")
            t.ask("quick")
