"""Every command, argument and option is documented, and no other."""

import argparse
import re
from pathlib import Path

import pytest

from quantide.cli.command_line import COMMANDS

TEXT = (Path(__file__).parents[1] / "docs" / "commands.md").read_text(encoding="utf-8")
SECTIONS = {
    name: text.split("\n### ")[0]
    for name, text in re.findall(r"^### `quantide ([a-z -]+)`\n(.*?)(?=\n### |\Z)", TEXT, re.S | re.M)
}
COMMON = {"-h", "--help", "--json"}


def actions(name: str) -> list[argparse.Action]:
    """Return a command's arguments and options, without hidden and common ones."""
    return [
        a
        for a in COMMANDS[name].make_parser()._actions
        if a.help != argparse.SUPPRESS and not COMMON & set(a.option_strings)
    ]


def rows(section: str) -> set[str]:
    """Return the arguments and options in the first column of its tables."""
    return {cell.split()[0] for cell in re.findall(r"^\| `((?:--)?[A-Za-z-]+(?: [A-Z]+)?)` \|", section, re.M)}


def test_every_command_and_no_other_has_a_section() -> None:
    assert sorted(SECTIONS) == sorted(COMMANDS)
    common = TEXT.split("\n### ")[0]
    assert "`--json`" in common
    assert "`--help`" in common
    assert "`--version`" in common


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_has_every_option_and_an_example(name: str) -> None:
    section = SECTIONS[name]
    names = {action.option_strings[0] if action.option_strings else str(action.metavar) for action in actions(name)}
    checks = {"configuration", "disk", "kafka", "kernels", "port", "sorting", "store"} if name == "doctor" else set()
    assert rows(section) - checks == names
    assert re.search(rf"```\n(TOKEN=\$\()?quantide {name}", section)
    assert "With `--json`" in section


@pytest.mark.parametrize("name", COMMANDS)
def test_choices_and_links_are_named(name: str) -> None:
    for action in actions(name):
        for choice in action.choices or ():
            assert f"`{choice}`" in SECTIONS[name]
    assert f"(#quantide-{name.replace(' ', '-')})" in TEXT
