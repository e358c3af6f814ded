"""A process of its own that starts Spark and lets a worker import what it needs: `python -m quantide.doctor.probe`.

Its last line is JSON. Whatever Spark does to a process, it is not done to the one that asks.
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
from quantide.spark.ingest import LOCAL, START
from quantide.spark.session import check_workers, start_session
from quantide.spark.stream.source import SPARK_ERRORS, first_line


def look(folder: str) -> dict[str, str]:
    """What Spark and a worker of it say of themselves; or the problem."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("quantide doctor")
    for name, value in (START | LOCAL | {"spark.local.dir": folder, "spark.sql.warehouse.dir": folder}).items():
        builder = builder.config(name, value)
    try:
        session = start_session(builder)
        try:
            check_workers(session)
            row = session.range(0, 1, 1, 1).mapInArrow(about_worker, "python string, path string").collect()[0]
            return {"spark": session.version, "python": row["python"], "path": row["path"]}
        finally:
            session.stop()
    except QuantideError as error:
        return {"problem": str(error)}
    except (PySparkException, *SPARK_ERRORS) as error:
        return {"problem": first_line(error)}


def about_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys

    import numba  # noqa: F401
    import pyarrow

    for _ in batches:
        version = ".".join(map(str, sys.version_info[:3]))
        yield pyarrow.RecordBatch.from_pydict({"python": [version], "path": [sys.executable]})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="quantide-doctor-") as place:
        print(json.dumps(look(sys.argv[1] if len(sys.argv) > 1 else place)))
