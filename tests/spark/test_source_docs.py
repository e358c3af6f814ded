"""The pages of docs/sources can be followed word for word, and their configurations are valid."""

import re
from pathlib import Path

import pytest

from quantide.config import read_config
from tests.task_pages import DOCS, Reader

PAGES = sorted(path.name for path in (DOCS / "sources").glob("*.md"))
FOLLOWED = ["delta.md", "folders.md", "iceberg.md"]


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path, {}) as reader:
        assert reader.follow(f"sources/{page}") >= 2


@pytest.mark.parametrize("page", FOLLOWED)
def test_configurations_are_valid(page: str, tmp_path: Path) -> None:
    text = (DOCS / "sources" / page).read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.S | re.M)
    examples += re.findall(r"^cat > \w+\.toml <<'END'\n(.*?)^END$", text, re.S | re.M)
    assert examples
    for example in examples:
        (tmp_path / "quantide.toml").write_text(example)
        assert list(read_config(tmp_path / "quantide.toml").streams) == ["latency"]
