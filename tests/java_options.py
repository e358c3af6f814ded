"""Options of the Java processes that tests start: they live for seconds, so their code is compiled once, and quickly.

Spark reads these variables; what a test sets in `spark.driver.extraJavaOptions` comes after them.
"""

import os
from pathlib import Path

import pytest

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
ARCHIVE = Path(__file__).parents[1] / "build" / "tools" / "spark.jsa"  # written by tests/java_classes.py
QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # an archive that does not fit is no warning


def pytest_configure(config: pytest.Config) -> None:
    archive = f" -XX:SharedArchiveFile={ARCHIVE} {QUIET}" if ARCHIVE.exists() else ""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_START)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, QUICK_START + archive)
