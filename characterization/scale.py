"""Scale: what each part of the product costs at three sizes, for a model that is then used at sizes nobody has here.

The merges of a year and the fan-out to a hundred thousand clients are simulated, by the product's own code.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Report, Row
from characterization import scale_levels, scale_serving, scale_store
from characterization.scale_settings import HOUR, QUICK, Settings

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS: dict[str, Callable[[Settings], dict[str, list[Row]] | list[Row]]] = {
    "writing": scale_store.measure_writing,
    "summaries": scale_store.measure_summaries,
    "files": scale_store.measure_files,
    "question": scale_store.measure_questions,
    "readers": scale_store.measure_readers,
    "levels": scale_levels.measure,
    "fanout": scale_serving.measure,
}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    for measure in PARTS.values():  # what is loaded or compiled once is so before anything is timed
        measure(QUICK)
    return Report.in_parts("scale", settings, PARTS, command, folder, missing=[])
