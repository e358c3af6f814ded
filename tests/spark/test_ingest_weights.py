"""Streams whose rows have weights: a row of weight w is stored as w rows, with its key, time and filters."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from quantide.cli import main
from quantide.spark.stream import batch_task
from tests.spark.streams import Feed

SETTINGS = 'keys = ["k"]\ntime = "t"\nmax_ahead = "off"\nfilters = { big = "v > 1" }\nweight = '


def repeat(feed: Feed, weights: Any) -> None:
    """Expect the last rows of the feed as often as their weights."""
    feed.values[-1], feed.times[-1] = np.repeat(feed.values[-1], weights), np.repeat(feed.times[-1], weights)
    last = feed.keys[len(feed.keys) - len(weights) :]
    feed.keys[len(feed.keys) - len(weights) :] = np.repeat(last, weights).tolist()


@pytest.mark.parametrize("weight", ["w", "abs(w) * if(w >= 0, 1, -1)"])
def test_rows_are_stored_as_often_as_they_weigh(
    weight: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows are stored as often as they weigh; rows with bad weights are in quarantine."""
    monkeypatch.setattr(batch_task, "PIECE_ROWS", 700)
    feed = Feed(tmp_path, f'{SETTINGS}"{weight}"')
    for name in ("0.parquet", "1.parquet"):
        weights = feed.rng.integers(0, 4, 1000)
        feed.write(name, w=pa.array(np.where(np.arange(1000) % 100 == 7, -weights - 1, weights)))
        repeat(feed, np.where(np.arange(1000) % 100 == 7, 0, weights))
    feed.ingest()
    feed.check()
    capsys.readouterr()
    assert main(["quarantine", "list", str(feed.config), "--json"]) == 0
    (stream,) = json.loads(capsys.readouterr().out)["streams"]
    assert sum(group["count"] for group in stream["rows"]) == 20
    assert "no whole number from 0 to 1,048,576" in json.dumps(stream["rows"])
