"""Archive of the classes that Spark loads (class data sharing), with which Java processes start in half the time.

`python -m tests.java_classes PATH` starts Spark once and writes the archive. Java ignores one that does not fit.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.java_options import QUICK_START

START = """
from pyspark.sql import SparkSession
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
session.range(1000).selectExpr("id", "id % 7 k").groupBy("k").count().collect()
session.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()
session.stop()
"""


def main(path: Path) -> None:
    """Write the archive; without Java, or if it fails, tests run without one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.tmp")
    options = f"{QUICK_START} -XX:ArchiveClassesAtExit={written.absolute()}"
    env = os.environ | {"SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", START], env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0 and written.exists():
        written.replace(path)
        return
    print(f"==> No archive of Java classes; tests start more slowly: {done.stderr[-300:].strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
