"""Every setting of a stream is documented, and the documented examples are valid."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from quantide.config import Decode, PushSettings, Source, StreamConfig, read_config

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "streams.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def settings_in_tables(text: str) -> set[str]:
    """Return the settings that the first column of a table names, without the tables that they are in."""
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name.rpartition(".")[2] for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}


@pytest.mark.parametrize(
    ("kind", "page", "others"),
    [
        (StreamConfig, "streams.md", {"name", "folder"}),  # of the table [streams.NAME]; derived from `store`
        (Source, "streams.md", {"push"}),  # the format
        (Decode, "sources/kafka.md", set()),
        (PushSettings, "sources/push.md", {"own_time", "time_unit"}),  # derived from `time` and `time_unit` of a stream
    ],
)
def test_every_setting_is_in_a_table(kind: type, page: str, others: set[str]) -> None:
    names = {field.name for field in fields(kind)}
    assert others <= names
    assert sorted(names - others - settings_in_tables((DOCS / page).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_valid(example: str, tmp_path: Path) -> None:
    (tmp_path / "quantide.toml").write_text(example)
    assert read_config(tmp_path / "quantide.toml").streams
