"""Checks of Java and Spark: Java as Spark finds it, a real start of Spark, and its Python workers."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec

from quantide.config import Config
from quantide.doctor.finding import FAILED, OK, WARNING, Finding
from quantide.errors import SparkSetupError

OLDEST_JAVA = 17
INSTALL_JAVA = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
JAVA_TIMEOUT = 20
PROBE_TIMEOUT = 180
PROBE_COMMAND = [sys.executable, "-m", "quantide.doctor.spark_probe"]


# Java


def check_java(_config: Config | None = None) -> Iterator[Finding]:
    """Check Java; its absence is a failure only if PySpark is installed, since only Spark needs it."""
    problem = find_java_problem()
    if problem is None:
        yield Finding("java", OK, f"{read_java_version(find_java() or '')} ({find_java()})")
    else:
        state = FAILED if find_spec("pyspark") else WARNING
        yield Finding("java", state, f"{problem}; only Spark needs it", INSTALL_JAVA)


def find_java_problem() -> str | None:
    """Return the reason why Spark would not find a usable Java; None if it would."""
    path, home = find_java(), os.environ.get("JAVA_HOME")
    if path is None:
        return "there is no java on the path, and JAVA_HOME is not set"
    if not os.access(path, os.X_OK):
        return f"JAVA_HOME is {home}, which does not contain a program bin/java"
    try:
        version = read_java_version(path)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path} does not run: {error}"
    if version is None:
        return f"{path} does not print its version"
    return None if int(version.split(".")[0]) >= OLDEST_JAVA else f"{path} is Java {version}, which is too old"


def require_java(reason: str) -> None:
    """Raise SparkSetupError if there is no usable Java, before anything starts."""
    problem = find_java_problem()
    if problem is not None:
        raise SparkSetupError(f"{reason}, which needs Java: {problem}; {INSTALL_JAVA}")


def find_java() -> str | None:
    """Return the java that Spark runs: JAVA_HOME's if that is set, otherwise the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def read_java_version(path: str) -> str | None:
    """Return the version that Java prints; an old 1.8 is 8."""
    process = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT, check=False)
    match = re.search(r'version "(?:1\.)?([0-9][^"]*)"', process.stderr + process.stdout)
    return match[1] if match else None


# Spark


def check_spark(_config: Config | None = None) -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        yield Finding(
            "spark", WARNING, "not tried: PySpark is not installed", 'python -m pip install "quantide[spark]"'
        )
        return
    if find_java_problem() is not None:
        yield Finding("spark", WARNING, "not tried: there is no Java for it", "see java, above")
        return
    started = time.monotonic()
    report = run_probe()
    if "problem" in report:
        yield Finding("spark", FAILED, report["problem"], suggest_fix(report["problem"]))
        return
    text = f"Spark {report['spark']} starts and runs a task in {time.monotonic() - started:.0f} s"
    yield Finding("spark", OK, f"{text}; its workers run Python {report['python']}, {report['path']}")


def run_probe() -> dict[str, str]:
    """Run the probe in a separate process; return its report, or the problem."""
    with tempfile.TemporaryDirectory(prefix="quantide-doctor-") as folder:
        try:
            process = subprocess.run(
                [*PROBE_COMMAND, folder],
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"problem": f"Spark did not start within {PROBE_TIMEOUT} s"}
    lines = process.stdout.strip().splitlines()
    if process.returncode == 0 and lines:
        report: dict[str, str] = json.loads(lines[-1])
        return report
    errors = process.stderr.strip().splitlines()
    last_line = errors[-1] if errors else "without a message"
    return {"problem": f"the process that tried it ended with {process.returncode}: {last_line}"}


def suggest_fix(problem: str) -> str:
    worker = os.environ.get("PYSPARK_PYTHON")
    if "workers" in problem and worker and worker != sys.executable:
        return f"export PYSPARK_PYTHON={sys.executable} (it is {worker} now)"
    return f"{os.path.basename(sys.executable)} -m quantide.doctor.spark_probe shows Spark's full output"
