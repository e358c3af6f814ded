"""Options of the Java processes that tests start: they live for seconds, so their code is compiled once, and quickly.

Spark reads these variables; what a test sets in `spark.driver.extraJavaOptions` comes after them.
"""

import os

import pytest

VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS")
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def pytest_configure(config: pytest.Config) -> None:
    for name in VARIABLES:
        os.environ.setdefault(name, QUICK_START)
