"""Java, as Spark looks for it: in JAVA_HOME when that is set, and nowhere else then; or on the path."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec

from quantide.config import Config
from quantide.doctor.finding import FAILED, OK, WARNING, Finding

OLDEST = 17
INSTALL = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
SECONDS = 20


def check_java(_config: Config | None = None) -> Iterator[Finding]:
    """Only Spark needs it: without PySpark its lack is no failure."""
    told = problem()
    if told is None:
        yield Finding("java", OK, f"{java_version(java_path() or '')} ({java_path()})")
    else:
        yield Finding("java", FAILED if find_spec("pyspark") else WARNING, f"{told}; only Spark needs it", INSTALL)


def problem() -> str | None:
    """Why Spark would not find a Java that it can use; None when it would."""
    path, home = java_path(), os.environ.get("JAVA_HOME")
    if path is None:
        return "there is no java on the path, and JAVA_HOME is not set"
    if not os.access(path, os.X_OK):
        return f"JAVA_HOME is {home}, and there is no program bin/java in it"
    try:
        found = java_version(path)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path} does not run: {error}"
    if found is None:
        return f"{path} does not tell its version"
    return None if int(found.split(".")[0]) >= OLDEST else f"{path} is Java {found}, which is too old"


def require(why: str) -> None:
    """Refuse what needs Java where there is none, before anything is begun."""
    wrong = problem()
    if wrong is not None:
        from quantide.spark.session import SparkSetupError

        raise SparkSetupError(f"{why}, which needs Java: {wrong}; {INSTALL}")


def java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java")


def java_version(path: str) -> str | None:
    """As Java tells it; an old 1.8 is 8."""
    done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=SECONDS, check=False)
    found = re.search(r'version "(?:1\.)?([0-9][^"]*)"', done.stderr + done.stdout)
    return found[1] if found else None
