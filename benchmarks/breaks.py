"""Accuracy where others break: inputs on which an answer is worse than people believe, beside ours."""

from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    breaks_clickhouse,
    breaks_datasketches,
    breaks_duckdb,
    breaks_merge,
    breaks_spark,
    breaks_tdigest,
)
from benchmarks.breaks_settings import HOUR, QUICK, Settings
from benchmarks.peers import load
from benchmarks.report import Report, Row, say

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PACKAGES = ("datasketches", "fastdigest", "duckdb", "chdb")
CASES: dict[str, Callable[[Settings], dict[str, list[Row]] | list[Row]]] = {
    "tdigest": breaks_tdigest.run,
    "merge": breaks_merge.run,
    "spark": breaks_spark.run,
    "duckdb": breaks_duckdb.run,
    "clickhouse": breaks_clickhouse.run,
    "datasketches": breaks_datasketches.run,
}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    missing = [package for package in PACKAGES if load(package) is None]
    for package in missing:
        say(f"breaks: {package} is not installed, skipped")
    return Report.in_parts("breaks", settings, CASES, command, folder, missing)
