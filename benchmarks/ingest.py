"""Streams through Spark: rows a second, many keys, how long a file takes to be answered, and whether it stays so."""

from dataclasses import asdict
from pathlib import Path

from benchmarks.ingest_lag import latency
from benchmarks.ingest_rate import keys, rate
from benchmarks.ingest_settings import QUICK, Settings
from benchmarks.ingest_steady import steady
from benchmarks.report import Report, Row, say

__all__ = ["QUICK", "Settings", "run"]

PARTS = {"rate": rate, "keys": keys, "latency": latency, "steady": steady}


def run(settings: Settings, command: str, folder: Path | None = None) -> Report:
    """All parts; what was found so far is written after each of them, so that little is lost when a run ends early."""
    settings = settings.with_soak()
    rows: dict[str, list[Row]] = {}
    report = Report.of("ingest", asdict(settings), rows, command, [])
    for name, measure in PARTS.items():
        rows |= measure(settings)
        if folder is not None:
            say(f"wrote {report.write(folder).name}, with {name}")
    return report
