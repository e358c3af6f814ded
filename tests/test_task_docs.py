"""The task pages work as they are written, and show the output that they document."""

import json
import re
from pathlib import Path

import pytest

from quantide.config import read_config
from tests.task_pages import BLOCK, DOCS, Reader

FOLLOWED = ["alarm.md", "compare.md", "grafana.md", "million-queries.md", "watch-p99.md"]
WITHOUT_SERVER = ["drift.md", "release.md"]
WITH_SPARK = ["percentile-approx.md"]  # tests/spark/test_task_docs.py
SHORTER = {"default_rng(1), 100_000": "default_rng(1), 1_000"}  # what only takes time


@pytest.mark.slow
@pytest.mark.parametrize("page", [*FOLLOWED, *WITHOUT_SERVER])
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path, SHORTER) as reader:
        assert reader.follow(f"tasks/{page}") >= 3


def test_every_task_page_is_tried() -> None:
    assert {path.name for path in (DOCS / "tasks").glob("*.md")} == {*FOLLOWED, *WITHOUT_SERVER, *WITH_SPARK}


@pytest.mark.parametrize("page", FOLLOWED)
def test_configurations_and_bodies_can_be_read(page: str, tmp_path: Path) -> None:
    text = (DOCS / "tasks" / page).read_text(encoding="utf-8")
    [(name, config)] = re.findall(r"^cat > (\w+\.toml) <<'END'\n(.*?)^END$", text, re.S | re.M)
    (tmp_path / name).write_text(config)
    assert list(read_config(tmp_path / name).streams) == ["latency"]
    shown = [json.loads(body) for kind, body in BLOCK.findall(text) if kind == "json"]
    assert shown
