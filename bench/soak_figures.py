"""Figures of the soak test of Kafka, push and S3 under kills, full disks and wrong clocks; it takes an hour."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.collection import Subject
from bench.report import Report, Row, show, sized
from quantide.windows.time_clock import read_span
from tests.kafka.system_soak import measure_soak


@dataclass(frozen=True)
class Settings:
    """Seed of the events, and seconds for which they happen, which SOAK="10 min" changes."""

    seed: int = 1
    seconds: float = sized(float(read_span(os.environ.get("SOAK") or "1 h")), quick=20.0)


def soak(s: Settings) -> dict[str, list[Row]]:
    """Run the soak test, which raises if a value is lost or doubled, or an answer is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="quantide-soak-"))
    show(f"soak: logs, and the stores if it fails, are in {folder}")
    figures = measure_soak(folder, s.seed, s.seconds)
    shutil.rmtree(folder)
    return figures


def context(report: Report) -> Row:
    """Return sums over all sources."""
    fields = ("acknowledged", "lost", "doubled", "answers")
    return {name: sum(row[name] for row in report.rows["sources"]) for name in fields}


SUBJECT = Subject(
    "kills, full disks and wrong clocks with Kafka, push and S3: every acknowledged value is stored once",
    Settings,
    {"soak": soak},
    context,
    by_name=True,
)
