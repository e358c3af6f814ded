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
from quantide.cli.command import EXTRA_PACKAGES, describe_import_error
from quantide.cli.command_line import COMMANDS, GROUPS
from quantide.errors import SparkSetupError
from quantide.summary.ranks import DEFAULT
from tests.server.running_server import configure

Out = pytest.CaptureFixture[str]


def help_of(argv: list[str], capsys: Out) -> str:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 0
    return capsys.readouterr().out


def error_of(argv: list[str], capsys: Out) -> str:
    """Run a command that fails; return its one line of error."""
    assert main(argv) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("quantide: ")
    assert error.count("\n") == 1
    return error


def document(argv: list[str], capsys: Out) -> Any:
    """Run a command with --json; return the JSON document on standard output."""
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
    assert COMMANDS[name].summary in " ".join(shown.split())
    assert f"quantide {name} " in shown.partition("for example:\n")[2] or f"quantide {name}\n" in shown
    assert "--json" in shown
    assert "--parent" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_parsed(name: str) -> None:
    """Every option of an example exists."""
    for example in COMMANDS[name].examples:
        arguments = [word.strip('"') for word in re.findall(r'"[^"]*"|[^\s()$]+', example)]
        COMMANDS[name].make_parser().parse(arguments[arguments.index("quantide") + 1 + len(name.split()) :])


def test_help_of_half_a_name(capsys: Out) -> None:
    assert main(["token", "--help"]) == 0
    assert re.findall(r"^quantide (token \w+)", capsys.readouterr().out, re.MULTILINE) == [
        "token create",
        "token list",
        "token revoke",
        "token open",
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("quantil a 0.5", "'quantil' is not a command; did you mean: quantide quantile"),
        ("tokn list", "did you mean: quantide token"),
        (
            "token",
            "choose one of: quantide token create, quantide token list, quantide token revoke, quantide token open",
        ),
        ("token frobnicate", "choose one of"),
        ("token creat quantide.toml", "did you mean: quantide token create"),
        ("history biuld a b", "did you mean: quantide history build"),
        ("nothing-like-it", "`quantide --help` lists"),
        ("--eps", "'--eps' is not a command"),
        ("quantile", "required: PATH, PHI; see: quantide quantile --help"),
        ("quantile a x", "'x'"),
        ("quantile a 0.5 --mod exact", "did you mean --mode?"),
        ("quantile a 0.5 --wholly-other", "see: quantide quantile --help"),
        ("quantile a 0.5 --mode best", "'best'"),
        ("history build a b --tail wide", "write a number between 0 and 1, such as 0.01, or none, not 'wide'"),
        ("history s3://b/s --storage-option region", "write it as NAME=VALUE, such as region=eu-central-1"),
        ("history s3://b/s --storage-option =eu", "write it as NAME=VALUE"),
        ("history verify s3://b/s --storage-option token=abc", 'token is a credential in plain text; .*"env:TOKEN"'),
        ("quantile s3://b/s 0.5 --storage-option region=env:NOT_SET_HERE", "variable NOT_SET_HERE is not set"),
        ("history build lake s3://b/s?sig=abc", "PATH is more than a location"),
        ("history s3://key:secret@b/s", "PATH is more than a location"),
        ("history a --storage-option region=eu", "'a' is a folder"),
        ("demo --seconds soon", "'soon'"),
        ("demo now", "'now' is not understood"),
        ("token create quantide.toml", "required: --role"),
    ],
)
def test_usage_errors_say_what_to_do(argv: str, message: str, capsys: Out) -> None:
    shown = error_of(argv.split(), capsys)
    assert message in shown or re.search(message, shown)
    assert "abc" not in shown
    assert "secret" not in shown


@pytest.mark.parametrize(("options", "tail"), [("", DEFAULT), ("--tail 0.02", 0.02), ("--tail none", None)])
def test_the_tail_of_a_build(options: str, tail: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("quantide.spark.history_build.build", lambda *arguments: calls.append(arguments))
    assert main(["history", "build", "a", "b", *options.split()]) == 0
    assert calls[0][-2] is tail or calls[0][-2] == tail


def test_the_weights_of_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("quantide.spark.history_build.build", lambda *arguments: calls.append(arguments))
    assert main(["history", "build", "a", "b", "--weights", "copies"]) == main(["history", "build", "a", "b"]) == 0
    assert [call[-1] for call in calls] == ["copies", None]


@pytest.mark.parametrize("command", ["quantile", "worst-keys"])
def test_a_percentile_instead_of_phi(command: str, tmp_path: Path, capsys: Out) -> None:
    with History(tmp_path / "s", keys=["k"]) as history:
        history.append([1.0, 2.0], key=["a", "b"])
    path = str(tmp_path / "s")
    for text, given, fix in (
        ("99", "phi must be in [0, 1], not 99.0", "for p99 write 0.99"),
        ("99.9", "phi must be in [0, 1], not 99.9", "for p99.9 write 0.999"),
        ("100", "not 100.0", "for p100 write 1"),
        ("p99", "phi must be a number in [0, 1], not 'p99'", "for p99 write 0.99"),
        ("P50", "not 'P50'", "for p50 write 0.5"),
        ("99%", "not '99%'", "for p99 write 0.99"),
        ("median", "not 'median'", "the median is phi=0.5"),
        ("101", "not 101.0", "the median is phi=0.5"),
    ):
        message = error_of([command, path, text], capsys)
        assert f"{given}; {fix}" in message


def test_a_shift_of_decimals_is_shown_as_a_decimal(tmp_path: Path, capsys: Out) -> None:
    for name, value in (("a", 8.6), ("b", 5.2)):
        with History(tmp_path / name) as history:
            history.append([value] * 3)
    assert main(["compare", str(tmp_path / "a"), "--against", str(tmp_path / "b")]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "shift 0.99 about 3.4 higher, proved" in shown
    assert "ks 1 to 1" in shown


def test_phi_of_a_comparison_is_an_option(capsys: Out) -> None:
    assert "'0.99' is not understood; did you mean --phi 0.99?" in error_of(["compare", "data/s", "0.99"], capsys)
    assert "see: quantide compare --help" in error_of(["compare", "data/s", "other"], capsys)
    assert "for p99 write 0.99" in error_of(["compare", "data/s", "--phi", "p99"], capsys)


def test_a_file_to_push_that_is_missing(capsys: Out) -> None:
    message = error_of(["push", "latency", "no-such.csv"], capsys)
    assert message == (
        "quantide: no-such.csv cannot be read: No such file or directory; check the path, or write - to read standard "
        "input\n"
    )


def test_a_registry_that_cannot_be_made(tmp_path: Path, capsys: Out) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "quantide.toml").write_text(
        'store = "file/data"\n[streams.s]\nvalue = "v"\nsource = { format = "parquet", path = "in" }\n'
    )
    message = error_of(["serve", str(tmp_path / "quantide.toml")], capsys)
    assert "registry.db cannot be opened: Not a directory; the server keeps its tokens" in message
    assert "check store, and state under [server]" in message


def test_a_build_notices_a_missing_path_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("quantide.spark.history_build.start_session", fail)
    message = error_of(["history", "build", str(tmp_path / "no.parquet"), str(tmp_path / "s")], capsys)
    assert "no.parquet; name a Parquet file, folder, glob or Delta table" in message
    assert "no file matches" in error_of(["history", "build", str(tmp_path / "*.parquet"), str(tmp_path / "s")], capsys)


def test_ingest_announces_that_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    (tmp_path / "quantide.toml").write_text(
        'store = "data"\n[streams.s]\nvalue = "v"\nsource = { format = "parquet", path = "in" }\n'
    )

    def fail(*_: object) -> None:
        raise SparkSetupError("no Spark here")

    monkeypatch.setattr("quantide.spark.ingest.session_for", fail)
    monkeypatch.setattr("quantide.spark.ingest.SparkSession.getActiveSession", lambda: None)
    for options, line in (([], "Starting Spark, which ingests the data ...\n"), (["--json"], "")):
        monkeypatch.setattr("quantide.spark.ingest.LATE_SIGNAL", 0.0)
        assert main(["ingest", str(tmp_path / "quantide.toml"), *options]) == 2
        out, error = capsys.readouterr()
        assert out == line
        assert "no Spark here" in error


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
        body = json.loads(error)
        assert body["error"]["code"] == code
        assert set(body["error"]) == {"code", "message"}


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
    error = error_of(["demo", "--seconds", "0.1", option, value], capsys)
    assert option.strip("-") in error
    assert value in error


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Out) -> None:
    monkeypatch.setitem(sys.modules, "quantide.history.history_report", None)
    assert "quantide doctor" in error_of(["history", str(tmp_path)], capsys)
    wrapped = ImportError("quantide.spark needs PySpark")
    wrapped.__cause__ = ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    assert describe_import_error(wrapped).endswith('run: pip install "quantide[spark]"')


def test_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/private/x")

    monkeypatch.setattr("quantide.history.history_report.show_history", fail)
    assert "Permission denied: '/private/x'" in error_of(["history", "x"], capsys)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quantide.history.history_report.show_history", interrupt)
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


def hide_packages(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("name", sorted(name for name, command in COMMANDS.items() if command.extras))
def test_all_missing_extras_are_named_at_once(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    hide_packages(monkeypatch, *EXTRA_PACKAGES.values())
    example = COMMANDS[name].examples[0].partition("quantide ")[2].rstrip(")").replace('"', "").split()
    example = example[: example.index("--expires")] if "--expires" in example else example
    message = error_of(example, capsys)
    assert f'run: pip install "quantide[{",".join(COMMANDS[name].extras)}]"' in message
    assert f"quantide {name} needs" in message


def test_a_command_that_needs_two_extras_names_the_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    hide_packages(monkeypatch, "pyspark")
    message = error_of(["ingest", "streams.toml"], capsys)
    assert message.endswith('ingest needs pyspark, which is not installed; run: pip install "quantide[spark]"\n')


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "quantide", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"quantide {__version__}\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "quantide", "--help"], check=False, stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_answers_for_programs(tmp_path: Path, capsys: Out) -> None:
    path = str(tmp_path / "s")
    with History(path, keys=["host", "port"]) as history:
        history.append([1.0, 2.0, np.inf], key=[("a", 1), ("a", 1), ("b", 2)])
        history.end_step()
        history.append([-np.inf], key=("a", 1))
    output = document(["quantile", path, "0.5", "1", "--mode", "exact"], capsys)
    assert (output["n"], output["stream_n"], output["last_steps"], output["widened"]) == (4, 1, 1, False)
    assert (output["key"], output["mode"], output["value_type"]) == (None, "exact", "float64")
    assert [(a["phi"], a["value"], a["rank_lo"], a["rank_hi"]) for a in output["answers"]] == [
        (0.5, 1.0, 2, 2),
        (1.0, "inf", 4, 4),
    ]
    output = document(["quantile", path, "0.1", "--key", "a", "--key", "1"], capsys)
    assert (output["key"], output["n"], output["answers"][0]["value"]) == (["a", "1"], 3, "-inf")


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
    path = tmp_path / "s"
    with History(path, eps=0.01) as history:
        for _ in range(2):
            history.append([1.0, 2.0])
            history.end_step()
    output = document(["history", str(path)], capsys)
    assert (output["values"], output["steps"], output["eps"], output["keys"]) == (4, 2, 0.01, [])
    assert output["runs"] == [{"level": 0, "first_step": step, "last_step": step, "values": 2} for step in (1, 2)]
    assert output["last_steps"] == [1, 2]


def test_verify_ends_with_1_when_a_file_is_damaged(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "s"
    with History(path) as history:
        history.append(np.arange(1000.0))
        history.end_step()
    assert main(["history", "verify", str(path)]) == 0
    assert "is all right: 1 file, 1,000 values" in capsys.readouterr().out
    assert document(["history", "verify", str(path)], capsys) == {
        "path": str(path),
        "ok": True,
        "files": 1,
        "values": 1000,
    }
    [file] = (path / "runs").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert main(["history", "verify", str(path)]) == 1
    assert file.name in capsys.readouterr().out
    assert main(["history", "verify", str(path), "--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["ok"] is False
    assert file.name in output["damaged"]
    assert "there is no history" in error_of(["history", "verify", str(tmp_path / "none")], capsys)


def test_tokens(tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    assert main(["token", "list", config]) == 0
    assert "There are no tokens" in capsys.readouterr().out
    assert main(["token", "create", config, "--role", "reader", "--name", "grafana", "--expires", "90 days"]) == 0
    token, notice = capsys.readouterr()
    assert re.fullmatch(r"qt_[0-9a-f]+_[\w-]{40,}\n", token), "alone on standard output, for scripts"
    assert "shown only now" in notice
    assert token.strip() not in notice
    created = document(["token", "create", config, "--role", "admin"], capsys)
    assert (created["name"], created["role"], created["expires"]) == ("admin", "admin", None)
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
    assert "there is no token" in error_of(["token", "revoke", config, first["id"]], capsys)
    assert document(["token", "revoke", config, created["id"]], capsys) == {"id": created["id"], "revoked": True}
    assert document(["token", "list", config], capsys) == {"tokens": [], "open": False}
    assert document(["token", "open", config], capsys) == {"open": True}
    assert document(["token", "list", config], capsys) == {"tokens": [], "open": True}


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--role", "boss"], "'boss'"),
        (["--role", "reader", "--expires", "soon"], "'soon' is not a length of time"),
        (["--role", "reader", "--expires", "-1"], "length of time"),
        (["--role", "reader", "--name", ""], "needs a name"),
    ],
)
def test_invalid_tokens_are_not_created(rest: list[str], message: str, tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    assert message in error_of(["token", "create", config, *rest], capsys)
    assert document(["token", "list", config], capsys) == {"tokens": [], "open": True}


def test_quarantine_of_nothing_for_programs(tmp_path: Path, capsys: Out) -> None:
    config = configure(tmp_path).path
    output = document(["quarantine", "list", config], capsys)
    assert output == {
        "streams": [{"stream": "latency", "begun": False, "files": [], "rows": [], "waiting": [], "changed": []}]
    }
    assert "there is no stream 'x'" in error_of(["quarantine", "list", config, "--stream", "x"], capsys)
