"""The commands, as a user calls them."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from quantide.cli import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"quantide {version('quantide')}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["demo", "--eps", "small"]])
def test_a_wrong_call_ends_with_2_and_the_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: quantide")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--eps", "0"),
        ("--eps", "2"),
        ("--eps", "nan"),
        ("--rate", "0"),
        ("--rate", "nan"),
        ("--seconds", "-1"),
        ("--seed", "-3"),
    ],
)
def test_our_own_errors_are_one_line(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0.1", option, value]) == 2
    error = capsys.readouterr().err
    assert error.startswith("quantide: ")
    assert option.strip("-") in error
    assert value in error
    assert error.count("\n") == 1


def test_demo_shows_a_table_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0.2", "--rate", "100000"]) == 0
    shown = capsys.readouterr().out
    assert "certified ranks" in shown
    assert "all within their bounds" in shown


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "quantide", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"quantide {version('quantide')}\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    demo = f"{sys.executable} -m quantide demo --seconds 3 --rate 100000"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{demo} | head -n 1"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
