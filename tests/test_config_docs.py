"""Every setting of a stream is documented, and the documented examples are valid."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from quantide.config import Source, StreamConfig, read_config

TEXT = (Path(__file__).parents[1] / "docs" / "streams.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def test_every_setting_is_in_the_table() -> None:
    names = {field.name for kind in (StreamConfig, Source) for field in fields(kind)} - {"name", "folder", "source"}
    assert [name for name in sorted(names) if not re.search(rf"`(\w+\.)*{name}`", TEXT)] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_valid(example: str, tmp_path: Path) -> None:
    (tmp_path / "quantide.toml").write_text(example)
    assert read_config(tmp_path / "quantide.toml").streams
