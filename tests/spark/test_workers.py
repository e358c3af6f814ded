"""Workers whose Python cannot run Quantide: a named error says what to set."""

import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.spark.process_groups import FREE_PORT, environment, finish, running

pytestmark = pytest.mark.slow

NEEDED_BY_SPARK = ["numpy", "numpy.libs", "pandas", "pyarrow", "dateutil", "pytz", "six.py", "tzdata"]

QUERY = """
import sys
from pyspark.sql import SparkSession
from quantide.spark import SparkSetupError, quantiles

builder = SparkSession.builder
spark = (builder.remote if sys.argv[1] == "connect" else builder.master)("local[1]").getOrCreate()
for _ in range(2):
    try:
        quantiles(sys.argv[2], "v", 0.5)
    except SparkSetupError as error:
        print("named:", error)
spark.stop()
"""


def python_with(folder: Path, packages: list[str]) -> Path:
    """The Python of a new virtual environment that has these packages of ours and no others."""
    venv.create(folder, with_pip=False)
    ours = Path(sysconfig.get_path("purelib"))
    theirs = folder / ours.relative_to(sys.prefix)
    for name in packages:
        if (ours / name).exists():
            (theirs / name).symlink_to(ours / name)
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    ("session", "packages", "message"),
    [
        ("classic", NEEDED_BY_SPARK, "No module named 'quantide'"),
        ("connect", NEEDED_BY_SPARK, "No module named 'quantide'"),
        ("classic", [], "No module named 'pyarrow'"),
        ("classic", None, "Cannot run program"),
    ],
    ids=["without quantide", "without quantide, Connect", "without anything", "no Python"],
)
def test_workers_that_cannot_run_quantide(
    session: str, packages: list[str] | None, message: str, tmp_path: Path
) -> None:
    python = tmp_path / "nowhere" / "python" if packages is None else python_with(tmp_path / "venv", packages)
    log, env = tmp_path / "driver.log", environment(str(python)) | FREE_PORT
    env.pop("PYTHONPATH", None)  # it would lead the workers to the sources
    with running([sys.executable, "-c", QUERY, session, str(tmp_path)], log, env) as driver:
        lines = [line for line in finish(driver, log).splitlines() if line.startswith("named:")]
    assert len(lines) == 2, "a session that failed once is checked again"
    for line in lines:
        assert message in line
        assert "PYSPARK_PYTHON" in line
