"""Probe that starts Spark and imports Quantide in a worker: `python -m quantide.doctor.spark_probe`.

Its last line is JSON. It is a process of its own, so that Spark cannot affect the doctor's process.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quantide.errors import QuantideError
from quantide.spark.ingest import LOCAL_CONF, START_CONF
from quantide.spark.spark_session import check_workers, start_session
from quantide.spark.stream.stream_source import SPARK_ERRORS, first_line


def probe_spark(folder: str) -> dict[str, str]:
    """Return the versions of Spark and of a worker's Python; or the problem."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("quantide doctor")
    for name, value in (
        START_CONF | LOCAL_CONF | {"spark.local.dir": folder, "spark.sql.warehouse.dir": folder}
    ).items():
        builder = builder.config(name, value)
    try:
        session = start_session(builder)
        try:
            check_workers(session)
            row = session.range(0, 1, 1, 1).mapInArrow(describe_worker, "python string, path string").collect()[0]
            return {"spark": session.version, "python": row["python"], "path": row["path"]}
        finally:
            session.stop()
    except QuantideError as error:
        return {"problem": str(error)}
    except (PySparkException, *SPARK_ERRORS) as error:
        return {"problem": first_line(error)}


def describe_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys

    import numba  # noqa: F401
    import pyarrow

    for _ in batches:
        version = ".".join(map(str, sys.version_info[:3]))
        yield pyarrow.RecordBatch.from_pydict({"python": [version], "path": [sys.executable]})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="quantide-doctor-") as temporary:
        print(json.dumps(probe_spark(sys.argv[1] if len(sys.argv) > 1 else temporary)))
