"""Spark: whether it really starts, and whether its workers can run Quantide."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec

from quantide.config import Config
from quantide.doctor import java
from quantide.doctor.finding import FAILED, OK, WARNING, Finding

SECONDS = 180
PROBE = [sys.executable, "-m", "quantide.doctor.probe"]


def check_spark(_config: Config | None = None) -> Iterator[Finding]:
    if find_spec("pyspark") is None:
        yield Finding(
            "spark", WARNING, "not tried: PySpark is not installed", 'python -m pip install "quantide[spark]"'
        )
        return
    if java.problem() is not None:
        yield Finding("spark", WARNING, "not tried: there is no Java for it", "see java, above")
        return
    began = time.monotonic()
    found = probe()
    if "problem" in found:
        yield Finding("spark", FAILED, found["problem"], fix(found["problem"]))
        return
    told = f"Spark {found['spark']} starts and runs a task in {time.monotonic() - began:.0f} s"
    yield Finding("spark", OK, f"{told}; its workers run Python {found['python']}, {found['path']}")


def probe() -> dict[str, str]:
    """What the process that tried it says; or the problem."""
    with tempfile.TemporaryDirectory(prefix="quantide-doctor-") as folder:
        try:
            done = subprocess.run(
                [*PROBE, folder], capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False
            )
        except subprocess.TimeoutExpired:
            return {"problem": f"Spark did not start within {SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        found: dict[str, str] = json.loads(lines[-1])
        return found
    told = done.stderr.strip().splitlines()
    return {"problem": f"the process that tried it ended with {done.returncode}: {told[-1] if told else 'no word'}"}


def fix(problem: str) -> str:
    worker = os.environ.get("PYSPARK_PYTHON")
    if "workers" in problem and worker and worker != sys.executable:
        return f"export PYSPARK_PYTHON={sys.executable} (it is {worker} now)"
    return f"{os.path.basename(sys.executable)} -m quantide.doctor.probe shows all that Spark says"
