"""Today's peers: the same questions to every one of them, on the same values, in one run."""

from pathlib import Path

from benchmarks import peers
from benchmarks.peers_column import column
from benchmarks.peers_keys import groups
from benchmarks.peers_merge import merge
from benchmarks.peers_settings import HOUR, QUICK, Settings
from benchmarks.peers_spark import lake
from benchmarks.peers_windows import windows
from benchmarks.report import Report

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS = {"column": column, "merge": merge, "windows": windows, "groups": groups, "spark": lake}
PACKAGES = ("datasketches", "fastdigest", "ddsketch", "river", "duckdb", "polars", "pandas", "chdb", "pyspark")


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    missing = [package for package in PACKAGES if peers.load(package) is None]
    return Report.in_parts("peers", settings, PARTS, command, folder, missing)
