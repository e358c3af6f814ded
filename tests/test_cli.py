"""The commands, as a user calls them."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History, __version__
from quantide.cli import main
from quantide.cli.commands import COMMANDS, GROUPS
from quantide.cli.extras import FIRST, extra_for
from tests.server.serving import configure

Out = pytest.CaptureFixture[str]


def help_of(argv: list[str], capsys: Out) -> str:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 0
    return capsys.readouterr().out


def refused(argv: list[str], capsys: Out) -> str:
    """The one line that says why it cannot be done."""
    assert main(argv) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("quantide: ")
    assert error.count("\n") == 1
    return error


def document(argv: list[str], capsys: Out) -> Any:
    """The one document of JSON on standard output."""
    assert main([*argv, "--json"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert out.count("\n") == 1
    return json.loads(out)


def test_version(capsys: Out) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"quantide {__version__}\n"


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command_in_its_group(argv: list[str], capsys: Out) -> None:
    assert main(argv) == 0
    shown = capsys.readouterr().out
    for group, commands in GROUPS.items():
        part = shown.partition(f"\n{group}:\n")[2].partition("\n\n")[0]
        assert [line.split("  ")[1] for line in part.splitlines()] == [command.name for command in commands]
    assert "for example:" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_a_sentence_and_an_example(name: str, capsys: Out) -> None:
    shown = help_of([*name.split(), "--help"], capsys)
    assert shown.startswith(f"usage: quantide {name} ")
    assert COMMANDS[name].line in " ".join(shown.split())
    assert f"quantide {name} " in shown.partition("for example:\n")[2] or f"quantide {name}\n" in shown
    assert "--json" in shown
    assert "--parent" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_read(name: str) -> None:
    """The options of each example are those that there are."""
    for example in COMMANDS[name].examples:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|[^\s()$]+', example)]
        COMMANDS[name].parser().read(words[words.index("quantide") + 1 + len(name.split()) :])


def test_help_of_half_a_name(capsys: Out) -> None:
    assert main(["token", "--help"]) == 0
    assert re.findall(r"^quantide (token \w+)", capsys.readouterr().out, re.MULTILINE) == [
        "token create",
        "token list",
        "token revoke",
        "token open",
    ]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("quantil a 0.5", "'quantil' is not a command; did you mean: quantide quantile"),
        ("tokn list", "did you mean: quantide token"),
        ("token", "say which: quantide token create, quantide token list, quantide token revoke, quantide token open"),
        ("token frobnicate", "say which"),
        ("token creat quantide.toml", "did you mean: quantide token create"),
        ("history biuld a b", "did you mean: quantide history build"),
        ("nothing-like-it", "`quantide --help` lists"),
        ("--eps", "'--eps' is not a command"),
        ("quantile", "required: PATH, PHI; see: quantide quantile --help"),
        ("quantile a x", "'x'"),
        ("quantile a 0.5 --mod exact", "did you mean --mode?"),
        ("quantile a 0.5 --wholly-other", "see: quantide quantile --help"),
        ("quantile a 0.5 --mode best", "'best'"),
        ("demo --seconds soon", "'soon'"),
        ("demo now", "'now' is not understood"),
        ("token create quantide.toml", "required: --role"),
    ],
)
def test_a_wrong_call_is_told_what_to_do(argv: str, told: str, capsys: Out) -> None:
    assert told in refused(argv.split(), capsys)


def test_errors_for_programs(capsys: Out) -> None:
    for argv, code in (
        (["quantil", "--json"], "usage"),
        (["quantile", "--json"], "usage"),
        (["demo", "--seconds", "0", "--json"], "invalid_argument"),
        (["serve", "no-such.toml", "--json"], "config"),
        (["ingest", "no-such.toml", "--json"], "config"),
        (["run", "no-such.toml", "--json"], "config"),
    ):
        assert main(argv) == 2
        out, error = capsys.readouterr()
        assert out == ""
        found = json.loads(error)
        assert found["error"]["code"] == code
        assert set(found["error"]) == {"code", "message"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--seed", "-3"),
        ("--port", "-1"),
        ("--port", "65536"),
    ],
)
def test_our_own_errors_are_one_line(option: str, value: str, capsys: Out) -> None:
    error = refused(["demo", "--seconds", "0.1", option, value], capsys)
    assert option.strip("-") in error
    assert value in error


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Out) -> None:
    monkeypatch.setitem(sys.modules, "quantide.history.show", None)
    assert "quantide doctor" in refused(["history", str(tmp_path)], capsys)
    wrapped = ImportError("quantide.spark needs PySpark")
    wrapped.__cause__ = ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    assert extra_for(wrapped).endswith('run: pip install "quantide[spark]"')


def test_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/private/x")

    monkeypatch.setattr("quantide.history.show.show_history", fail)
    assert "Permission denied: '/private/x'" in refused(["history", "x"], capsys)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quantide.history.show.show_history", interrupt)
    assert main(["history", "x"]) == 130


def test_ctrl_c_while_it_is_still_importing() -> None:
    script = """if True:
        import sys
        from quantide.cli import main

        class Interrupted:
            def find_spec(self, name, *_):
                if name == "numpy":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupted())
        sys.exit(main(["--help"]))
    """
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.needs))
def test_all_extras_that_a_command_lacks_are_named_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    without(monkeypatch, *FIRST.values())
    example = COMMANDS[name].examples[0].partition("quantide ")[2].rstrip(")").replace('"', "").split()
    example = example[: example.index("--expires")] if "--expires" in example else example
    said = refused(example, capsys)
    assert f'run: pip install "quantide[{",".join(COMMANDS[name].needs)}]"' in said
    assert f"quantide {name} needs" in said


def test_a_command_that_needs_two_extras_names_the_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    without(monkeypatch, "pyspark")
    said = refused(["ingest", "streams.toml"], capsys)
    assert said.endswith('ingest needs pyspark, which is not installed; run: pip install "quantide[spark]"\n')


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "quantide", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"quantide {__version__}\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "quantide", "--help"], check=False, stdout=writes, stderr=subprocess.PIPE, text=True
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


def test_answers_for_programs(tmp_path: Path, capsys: Out) -> None:
    place = str(tmp_path / "s")
    with History(place, keys=["host", "port"]) as history:
        history.append([1.0, 2.0, np.inf], key=[("a", 1), ("a", 1), ("b", 2)])
        history.end_step()
        history.append([-np.inf], key=("a", 1))
    found = document(["quantile", place, "0.5", "1", "--mode", "exact"], capsys)
    assert (found["n"], found["stream_n"], found["last_steps"], found["widened"]) == (4, 1, 1, False)
    assert (found["key"], found["mode"], found["value_type"]) == (None, "exact", "float64")
    assert [(a["phi"], a["value"], a["rank_lo"], a["rank_hi"]) for a in found["answers"]] == [
        (0.5, 1.0, 2, 2),
        (1.0, "inf", 4, 4),
    ]
    found = document(["quantile", place, "0.1", "--key", "a", "--key", "1"], capsys)
    assert (found["key"], found["n"], found["answers"][0]["value"]) == (["a", "1"], 3, "-inf")


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        (np.array(["2026-01-31T12:00:00"], dtype="datetime64[us]"), "timestamp[us]", "2026-01-31T12:00:00.000000"),
        (np.array([7], dtype=np.int64), "int64", 7),
    ],
)
def test_values_of_other_types_for_programs(values: Any, kind: str, shown: object, tmp_path: Path, capsys: Out) -> None:
    with History(tmp_path / "s", value_type=kind) as history:
        history.append(values)
    assert document(["quantile", str(tmp_path / "s"), "1"], capsys)["answers"][0]["value"] == shown


def test_a_history_for_programs(tmp_path: Path, capsys: Out) -> None:
    place = tmp_path / "s"
    with History(place, eps=0.01) as history:
        for _ in range(2):
            history.append([1.0, 2.0])
            history.end_step()
    found = document(["history", str(place)], capsys)
    assert (found["values"], found["steps"], found["eps"], found["keys"]) == (4, 2, 0.01, [])
    assert found["runs"] == [{"level": 0, "first_step": step, "last_step": step, "values": 2} for step in (1, 2)]
    assert found["last_steps"] == [1, 2]


def test_verify_ends_with_1_when_a_file_is_damaged(tmp_path: Path, capsys: Out) -> None:
    place = tmp_path / "s"
    with History(place) as history:
        history.append(np.arange(1000.0))
        history.end_step()
    assert main(["history", "verify", str(place)]) == 0
    assert "is all right: 1 files, 1,000 values" in capsys.readouterr().out
    assert document(["history", "verify", str(place)], capsys) == {
        "path": str(place),
        "ok": True,
        "files": 1,
        "values": 1000,
    }
    [file] = (place / "runs").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert main(["history", "verify", str(place)]) == 1
    assert file.name in capsys.readouterr().out
    assert main(["history", "verify", str(place), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert file.name in found["damaged"]
    assert "there is no history" in refused(["history", "verify", str(tmp_path / "none")], capsys)


def test_tokens(tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    assert main(["token", "list", config]) == 0
    assert "There are no tokens" in capsys.readouterr().out
    assert main(["token", "create", config, "--role", "reader", "--name", "grafana", "--expires", "90 days"]) == 0
    token, told = capsys.readouterr()
    assert re.fullmatch(r"qt_[0-9a-f]+_[\w-]{40,}\n", token), "alone on standard output, for scripts"
    assert "shown only now" in told
    assert token.strip() not in told
    made = document(["token", "create", config, "--role", "admin"], capsys)
    assert (made["name"], made["role"], made["expires"]) == ("admin", "admin", None)
    tokens = document(["token", "list", config], capsys)["tokens"]
    assert [(one["name"], one["role"], one["expired"]) for one in tokens] == [
        ("grafana", "reader", False),
        ("admin", "admin", False),
    ]
    first = tokens[0]
    ends = datetime.fromisoformat(first["expires"]) - datetime.fromisoformat(first["created"])
    assert round(ends.total_seconds() / 86400) == 90
    assert main(["token", "list", config]) == 0
    listed = capsys.readouterr().out
    assert first["id"] in listed
    assert token.strip() not in listed
    assert "never" in listed
    assert main(["token", "revoke", config, first["id"]]) == 0
    assert first["id"] in capsys.readouterr().out
    assert "there is no token" in refused(["token", "revoke", config, first["id"]], capsys)
    assert document(["token", "revoke", config, made["id"]], capsys) == {"id": made["id"], "revoked": True}
    assert document(["token", "list", config], capsys) == {"tokens": []}


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        (["--role", "boss"], "'boss'"),
        (["--role", "reader", "--expires", "soon"], "'soon' is not a length of time"),
        (["--role", "reader", "--expires", "-1"], "length of time"),
        (["--role", "reader", "--name", ""], "needs a name"),
    ],
)
def test_a_token_that_cannot_be_made(rest: list[str], told: str, tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    assert told in refused(["token", "create", config, *rest], capsys)
    assert document(["token", "list", config], capsys) == {"tokens": []}


def test_quarantine_of_nothing_for_programs(tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    found = document(["quarantine", "list", config], capsys)
    assert found == {
        "streams": [{"stream": "latency", "begun": False, "files": [], "rows": [], "waiting": [], "changed": []}]
    }
    assert "there is no stream 'x'" in refused(["quarantine", "list", config, "--stream", "x"], capsys)
