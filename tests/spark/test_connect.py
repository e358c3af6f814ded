"""Spark Connect, without a context and a local JVM: the same answers, to the byte."""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.answer_checks import check
from tests.spark.process_groups import FREE_PORT, environment, finish, running
from tests.spark.query_driver import EPS, FRAMES, QUESTIONS, rows_of, write_lake

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder, files=3, rows=800_000)
    return folder


@pytest.fixture(scope="module")
def answers(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of a driver that has only a Connect session."""
    folder = tmp_path_factory.mktemp("answers")
    command = [sys.executable, "-m", "tests.spark.query_driver", "connect:local[2]", str(lake), str(folder)]
    with running([*command, *QUESTIONS, *FRAMES], folder / "driver.log", environment() | FREE_PORT) as driver:
        finish(driver, folder / "driver.log")
    return folder


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_those_of_a_classic_session(spark: SparkSession, lake: Path, answers: Path, name: str) -> None:
    answer, expected = pq.read_table(answers / f"{name}.parquet"), QUESTIONS[name](spark, str(lake)).toArrow()
    assert answer.schema == expected.schema
    assert rows_of(answer) == rows_of(expected)


@pytest.mark.parametrize("name", FRAMES)
def test_answers_of_frames_are_right(spark: SparkSession, lake: Path, answers: Path, name: str) -> None:
    answer = pq.read_table(answers / f"{name}.parquet")
    assert answer.schema == FRAMES[name](spark, str(lake)).toArrow().schema
    check(answer, pq.read_table(lake), EPS)
