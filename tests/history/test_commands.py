"""`quantide quantile` and `quantide history` on the command line."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantide import History
from quantide.cli import main
from quantide.live import LiveStream
from quantide.store.ingest_status import IngestStatus, publish_status
from quantide.store.location import open_storage

Out = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Make thirteen steps of a hundred values, 1 to 1300, of four hosts; two values in the open step."""
    folder = tmp_path / "store"
    with History(folder, kappa=2, keys=["host", "port"]) as history:
        for step in range(13):
            values = np.arange(100) * 13.0 + step + 1
            history.append(values, key=[("ab"[i % 2], i // 50) for i in range(100)])
            history.end_step()
        history.append([0.0, 2000.0], key=("c", 5))
    return str(folder)


def lines(out: Out) -> list[list[str]]:
    return [line.split() for line in out.readouterr().out.splitlines()]


def test_quantiles_with_their_bounds(store: str, capsys: Out) -> None:
    assert main(["quantile", store, "0.5", "0.99", "1"]) == 0
    output = lines(capsys)
    assert [line[:2] for line in output[1:4]] == [["0.5", "650.0"], ["0.99", "1288.0"], ["1", "2000.0"]]
    assert output[1][2:5] == ["651", "to", "651"]
    assert "1,302 values of 13 steps and the open one, 2 of them in the open step; mode accurate" in " ".join(output[4])


@pytest.mark.parametrize("mode", ["quick", "accurate", "exact"])
def test_the_mode(mode: str, store: str, capsys: Out) -> None:
    assert main(["quantile", store, "0.25", "--mode", mode]) == 0
    output = capsys.readouterr().out
    assert f"mode {mode}" in output
    assert "325.0" in output


def test_a_key_of_text_and_number(store: str, capsys: Out) -> None:
    assert main(["quantile", store, "1", "--key", "b", "--key", "0", "--mode", "exact"]) == 0
    assert lines(capsys)[1][1] == str(49 * 13 + 13.0)
    assert main(["quantile", store, "1", "--key", "c", "--key", "5"]) == 0
    assert lines(capsys)[1][1] == "2000.0"


def test_the_last_steps(store: str, capsys: Out) -> None:
    assert main(["quantile", store, "0.5", "--last-steps", "1"]) == 0
    assert "102 values of 1 step and the open one" in capsys.readouterr().out
    assert main(["quantile", store, "0.5", "--last-steps", "2", "--widen"]) == 0
    assert "302 values of 3 steps and the open one (more than asked" in capsys.readouterr().out
    assert main(["quantile", store, "0.5", "--last-steps", "2"]) == 2
    assert "1, 3, 5, 9, 13" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["1.5"], "1.5"),
        (["0.5", "--key", "a"], "2 parts: host, port"),
        (["0.5", "--key", "zz", "--key", "1"], "'zz'"),
        (["0.5", "--key", "a", "--key", "one"], "one"),
        (["0.5", "--last-steps", "-1"], "-1"),
    ],
)
def test_errors_are_one_line(rest: list[str], message: str, store: str, capsys: Out) -> None:
    assert main(["quantile", store, *rest]) == 2
    error = capsys.readouterr().err
    assert error.startswith("quantide: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["quantile", "history"])
def test_a_place_without_a_history_is_left_alone(command: str, tmp_path: Path, capsys: Out) -> None:
    missing = tmp_path / "missing"
    assert main([command, str(missing), *(["0.5"] if command == "quantile" else [])]) == 2
    assert f"no history in {missing}" in capsys.readouterr().err
    assert not missing.exists()


def test_a_picture_of_the_runs(store: str, capsys: Out) -> None:
    """Draw a bar for each run: 1 to 4 and 5 to 8 on level 2, 9 to 10 and 11 to 12 on level 1, 13 on level 0."""
    assert main(["history", store]) == 0
    output = capsys.readouterr().out.splitlines()
    assert re.match(r"1,302 values in 13 steps, 5 runs, 6 files, .* MB; 2 values in the open step", output[0])
    assert [line.split()[:2] for line in output[1:4]] == [["level", "2"], ["level", "1"], ["level", "0"]]
    bars = [match.span() for line in output[1:4] for match in re.finditer(r"\[=*\]", line)]
    assert [start for start, _ in bars[1:]] == [end for _, end in bars[:-1]]
    widths = [end - start for start, end in bars]
    assert min(widths[:2]) > 1.5 * max(widths[2:4])
    assert min(widths[2:4]) > 1.5 * widths[4]
    runs = [line.split("  ")[-1].strip() for line in output[1:4]]
    assert runs == ["2 runs, 800 values", "2 runs, 400 values", "1 run, 100 values"]
    assert output[-1] == "last_steps that can be asked about: 1, 3, 5, 9, 13"


def test_a_picture_of_nothing_and_of_very_much(tmp_path: Path, capsys: Out) -> None:
    History(tmp_path / "none")
    assert main(["history", str(tmp_path / "none")]) == 0
    assert "none yet" in capsys.readouterr().out
    with History(tmp_path / "many", kappa=200) as history:
        for _ in range(130):
            history.append([1.0])
            history.end_step()
    assert main(["history", str(tmp_path / "many")]) == 0
    output = capsys.readouterr().out.splitlines()
    assert "130 runs, 130 values" in output[1]
    assert max(map(len, output[:3])) < 120


@pytest.mark.parametrize("argv", [["history", "build"], ["history", "build", "a"], ["history", "a", "b"]])
def test_a_wrong_call(argv: list[str], capsys: Out) -> None:
    assert main(argv) == 2
    assert "see: quantide history" in capsys.readouterr().err


def test_as_a_module_beside_a_writer(store: str) -> None:
    """Reading needs no lease: the command answers while another process writes."""
    with History(store) as history:
        history.append([5000.0], key=("d", 1))
        result = subprocess.run(
            [sys.executable, "-m", "quantide", "quantile", store, "1"], check=True, capture_output=True, text=True
        )
    assert "5000.0" in result.stdout


@pytest.mark.parametrize(("how", "left", "newest"), [("remove", 2, 20.0), ("redate", 3, 20.0)])
def test_rows_of_the_future_are_repaired(how: str, left: int, newest: float, tmp_path: Path, capsys: Out) -> None:
    """A row dated in 2096 moves all windows there; after it is removed or redated, windows are those of now."""
    with History(tmp_path / "s", eps=0.1, max_ahead="off") as history:
        history.append([1.0, 2.0, 3.0], times=[10.0, 4e9, 20.0])
    path = str(tmp_path / "s")
    with LiveStream(path, follow=False) as live:
        assert live.answer(0.5, within="1 min").n == 1
    assert main(["history", "repair", path, "--newer-than", "1e9"]) == 2
    assert "add --future remove or redate" in capsys.readouterr().err
    assert main(["history", "repair", path, "--future", how, "--newer-than", "1e9", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["future"]["action"], report["future"]["rows"]) == (True, how, 1)
    with LiveStream(path, follow=False) as live:
        assert (live.newest, live.answer(0.5, within="1 min").n, live.n) == (newest, left, 3)


# --- deleting -----------------------------------------------------------------------------------------------


def test_delete_a_key(store: str, capsys: Out) -> None:
    key = ["--key", "b", "--key", "0"]
    assert main(["history", "delete", store, *key, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert re.fullmatch(rf"{re.escape(store)}: 325 rows in \d+ files of [\d,]+ bytes would be deleted\n", text)
    assert main(["history", "delete", store, *key]) == 0
    done = capsys.readouterr().out.splitlines()
    assert done[0] == text.strip().replace("would be deleted", "deleted")
    assert "--vacuum does so at once" in done[1]
    assert main(["history", "delete", store, *key, "--vacuum"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[0] == f"{store}: 0 rows in 0 files of 0 bytes deleted"
    assert re.fullmatch(r"[1-9]\d* files of [\d,]+ bytes removed from disk", again[1])
    assert main(["quantile", store, "1", *key]) == 2
    assert History(store).n == 1302 - 325


def test_more_steps_than_there_are_means_all(store: str, capsys: Out) -> None:
    assert main(["quantile", store, "0.5", "--last-steps", "99"]) == 0
    assert "1,302 values of 13 steps and the open one, 2 of them in the open step" in capsys.readouterr().out
    assert main(["quantile", store, "0.5", "--last-steps", "99", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["last_steps"] == 13


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_delete_asks_in_a_terminal(store: str, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["history", "delete", store, "--key", "b", "--key", "0"]
    for answer in ("\n", "no\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        assert main(command) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert re.search(
            r": 325 rows in \d+ files of [\d,]+ bytes would be deleted for good. Delete them\? \[y/N\]", error
        )
        assert error.endswith("quantide: nothing was deleted, because the answer was not yes; --yes does not ask\n")
    assert History(store).n == 1302
    assert main([*command, "--dry-run"]) == 0, "nothing to ask about"
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    out, error = capsys.readouterr()
    assert (json.loads(out)["rows"], "[y/N]" in error) == (325, True)
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert main(command) == 0, "no rows are left to ask about"
    assert main([*command[:3], "--key", "b", "--key", "1", "--yes"]) == 0
    assert "[y/N]" not in capsys.readouterr().err
    assert History(store).n < 1302 - 325


def test_delete_steps(store: str, capsys: Out) -> None:
    first = History(store).runs()[1].id.first
    assert main(["history", "delete", store, "--before", str(first), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body.pop("bytes") > 0
    assert body.pop("files") > 0
    rows = 100 * (first - 1)
    expected = {"path": store, "key": None, "before": str(first), "dry_run": False, "rows": rows}
    assert body == expected | {"unchecked": [], "removed_files": 0}
    assert History(store).n == 1302 - rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of them"),
        (["--key", "a", "--before", "2"], "one of them"),
        (["--key", "a"], "2 parts"),
        (["--before", "99"], "is not a step"),
        (["--before", "2"], "it can be 1, which leaves the run"),
        (["--before", "2026-03-01T12:00"], "number of a step"),
        (["--before", "noon"], "neither the number of a step nor a time"),
        (["--before", "9" * 5_000], "neither the number of a step nor a time"),
    ],
)
def test_deletions_that_are_refused(arguments: list[str], message: str, store: str, capsys: Out) -> None:
    assert main(["history", "delete", store, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert History(store).n == 1302


def test_delete_makes_no_store(tmp_path: Path, capsys: Out) -> None:
    assert main(["history", "delete", str(tmp_path / "none"), "--before", "1"]) == 2
    assert "no history" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.fixture
def recent(tmp_path: Path) -> str:
    """Make ten values of two hosts, a second apart, half of them slow."""
    with History(tmp_path / "recent", keys="host", filters=["slow"]) as history:
        history.append(np.arange(10.0), key=["a", "b"] * 5, times=np.arange(10.0), filters={"slow": np.arange(10) >= 5})
    return str(tmp_path / "recent")


@pytest.mark.parametrize(
    ("options", "value", "n"),
    [
        (["--within", "4 s"], "7.0", "4"),
        (["--last", "6"], "6.0", "6"),
        (["--filter", "slow", "--key", "a"], "6.0", "2"),
        (["--last", "6", "--within", "4 s", "--key", "b", "--mode", "exact"], "7.0", "2"),
    ],
)
def test_quantiles_of_windows(recent: str, options: list[str], value: str, n: str, capsys: Out) -> None:
    assert main(["quantile", recent, "0.5", *options]) == 0
    _, answer, note = lines(capsys)
    assert answer[1] == value
    assert note[0] == n
    assert main(["quantile", recent, "0.5", *options, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["n"], str(output["answers"][0]["value"])) == (int(n), value)


def test_windows_are_not_widened(recent: str, capsys: Out) -> None:
    assert main(["quantile", recent, "0.5", "--last", "3", "--widen"]) == 2
    assert "--widen" in capsys.readouterr().err
    assert main(["quantile", recent, "0.5", "--last", "3", "--last-steps", "1"]) == 2
    assert main(["quantile", recent, "0.5", "--filter", "fast"]) == 2


def test_ranks_on_the_command_line(store: str, recent: str, capsys: Out) -> None:
    assert main(["rank", store, "650", "-1", "inf", "--mode", "accurate"]) == 0
    _, middle, least, most, note = lines(capsys)
    assert middle == ["650.0", "651", "to", "651", "50.0000", "%", "to", "50.0000", "%"]
    assert (least[1:4], most[1:4]) == (["0", "to", "0"], ["1,302", "to", "1,302"])
    assert " ".join(note).startswith("a rank is the number of values at most a value; 1,302 values of")
    assert main(["rank", store, "650", "--below", "--key", "a", "--key", "0", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["key"], output["n"], output["inclusive"]) == (["a", "0"], 325, False)
    with LiveStream(store, follow=False) as live:
        low, high = live.rank(650.0, ("a", "0"), inclusive=False)
    assert output["ranks"] == [{"value": 650.0, "rank_lo": low, "rank_hi": high}]
    assert main(["rank", recent, "6", "--within", "4 s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["within"] == "4 s"
    assert main(["rank", store, "many"]) == 2
    assert "'many' cannot be compared with values of type float64; write 12.5" in capsys.readouterr().err


def test_a_comparison_on_the_command_line(store: str, recent: str, capsys: Out) -> None:
    sides = ["--key", "a", "--key", "0", "--against-key", "b", "--against-key", "0"]
    assert main(["compare", store, *sides, "--phi", "0.5", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [(side["key"], side["n"]) for side in (output, output["against"])] == [(["a", "0"], 325), (["b", "0"], 325)]
    with LiveStream(store, follow=False) as live:
        expected = live.compare(live.summary(("b", "0")), key=("a", "0"), phis=[0.5])
    [shift] = output["shifts"]
    assert (output["ks"]["low"], output["ks"]["high"]) == expected.ks
    assert (shift["phi"], shift["low"], shift["high"]) == (0.5, *expected.shifts[0.5])
    assert main(["compare", store, "--against", recent]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[:4]] == ["ks", "psi", "wasserstein", "shift"]
    assert "shift 0.5" in text
    assert "higher, proved\n" in text


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ([], "both sides are the same; give a window or a key"),
        (["--key", "zz", "--key", "1"], "'zz'"),
        (["--against-last", "5", "--against-last-steps", "1"], "last_steps= is about history"),
    ],
)
def test_what_cannot_be_compared(rest: list[str], reason: str, store: str, capsys: Out) -> None:
    assert main(["compare", store, *rest]) == 2
    assert reason in capsys.readouterr().err


def test_the_configured_unit_is_shown(recent: str, store: str, capsys: Out) -> None:
    window = ["--last", "6", "--against-last", "3"]
    commands = [["quantile", recent, "0.5"], ["quantile", recent, "0.5", "--last", "6"], ["rank", recent, "6"]]
    commands += [["worst-keys", recent, "0.5"], ["compare", recent, *window]]
    for unit, header in ((None, "value"), ("ms", "value (ms)"), ("\x1b[2J", "value")):
        publish_status(open_storage(recent), IngestStatus(1.0, unit=unit))
        for command in commands[:4]:
            assert main(command) == 0
            assert f" {header} " in capsys.readouterr().out
        for command in commands:
            assert main([*command, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["unit"] == ("ms" if unit == "ms" else None)
        assert main(commands[-1]) == 0
        shown = {line.split()[0]: " ms" in line for line in capsys.readouterr().out.splitlines()[:4]}
        assert shown == {"ks": False, "psi": False, "wasserstein": unit == "ms", "shift": unit == "ms"}
    publish_status(open_storage(recent), IngestStatus(1.0, unit="ms"))
    assert main(["compare", recent, "--last", "6", "--against", store]) == 0
    assert " ms" not in capsys.readouterr().out  # the other store has no unit


def test_times_have_units_of_their_own(tmp_path: Path, capsys: Out) -> None:
    path = str(tmp_path / "times")
    with History(path, value_type="duration[us]") as history:
        history.append(np.arange(10).astype("m8[us]"))
    publish_status(open_storage(path), IngestStatus(1.0, unit="ms"))
    assert main(["quantile", path, "0.5"]) == 0
    assert main(["compare", path, "--last", "3"]) == 0
    assert " ms" not in (text := capsys.readouterr().out)
    assert "(ms)" not in text


def test_a_unit_that_the_terminal_cannot_show(recent: str) -> None:
    publish_status(open_storage(recent), IngestStatus(1.0, unit="\N{MICRO SIGN}s"))
    command = [sys.executable, "-m", "quantide", "quantile", recent, "0.5"]
    done = subprocess.run(command, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"value (\xb5s)" in done.stdout


def test_worst_keys_on_the_command_line(recent: str, store: str, capsys: Out) -> None:
    assert main(["worst-keys", recent, "0.5", "--within", "4 s"]) == 0
    _, first, second, note = lines(capsys)
    assert (first[0], first[-1], second[0], second[-1], note[0]) == ("7.0", "b", "6.0", "a", "2")
    assert "proved" not in note  # all keys are listed
    assert main(["worst-keys", store, "1", "--most", "1", "--min-n", "3"]) == 0
    assert "among the 1 with the largest quantile" in (text := capsys.readouterr().out)
    assert text.endswith("; 1 more with too few values\n")
    assert main(["worst-keys", recent, "0.5", "--last", "1"]) == 0
    assert "1 key of the last 1 value\n" in capsys.readouterr().out
    assert main(["worst-keys", store, "1", "--most", "1", "--smallest", "--min-n", "3", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in output["listed"]] == [["a", 0]]
    assert (output["keys"], output["too_few"], output["last_steps"]) == (4, 1, 13)
    assert main(["worst-keys", store, "1", "--mode", "exact"]) == 2
    assert "mode='quick'" in capsys.readouterr().err
