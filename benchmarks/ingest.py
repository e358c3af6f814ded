"""Streams through Spark: rows a second, many keys, how long a file takes to be answered, and whether it stays so."""

from pathlib import Path

from benchmarks.ingest_lag import latency
from benchmarks.ingest_rate import keys, rate
from benchmarks.ingest_settings import HOUR, QUICK, Settings
from benchmarks.ingest_steady import steady
from benchmarks.report import Report

__all__ = ["HOUR", "QUICK", "Settings", "run"]

PARTS = {"rate": rate, "keys": keys, "latency": latency, "steady": steady}


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("ingest", settings.with_soak(), PARTS, command, folder, [])
