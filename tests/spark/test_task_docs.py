"""The code of docs/tasks/percentile-approx.md runs, and prints the output that the page shows, but for errors."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.task_pages import DOCS, words

TEXT = (DOCS / "tasks" / "percentile-approx.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```(?:\n+```text\n(.*?)^```)?", TEXT, re.S | re.M)


def values(text: str) -> list[float]:
    """Return the numbers with one decimal: latencies. They depend a little on how Spark splits the work."""
    return [float(number) for number in re.findall(r"(?<![\d.])\d+\.\d(?![\dE])", text)]


@pytest.mark.slow
def test_blocks_run_one_after_the_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    compared = 0
    for block, shown in BLOCKS:
        if ">>>" in block:  # runs with the other doctests
            continue
        block = re.sub(r'"(lake|hourly)', rf'"{tmp_path}/\1', block)  # Java does not follow when Python changes folders
        exec(compile(block, "percentile-approx.md", "exec"), names)
        printed = capsys.readouterr().out
        if shown:
            assert words(printed) == words(shown), block
            assert re.findall(r"\| *(?:/\w+|\d+) *\|", printed) == re.findall(r"\| *(?:/\w+|\d+) *\|", shown)
            assert values(printed) == pytest.approx(values(shown), rel=0.01), block
            compared += 1
    assert compared >= 5
