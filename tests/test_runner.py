"""The run of the tests: in random order, in several processes, each within a time limit that a test cannot swallow."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIMIT = 6  # seconds
SWALLOWS = """
import threading, time

def bystander():
    time.sleep(1000)

def test_first(): ...

def test_hangs():
    print("output of the test", flush=True)
    with open("hung", "a") as file:
        file.write("x")
    threading.Thread(target=bystander, daemon=True).start()
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass

def test_last(): ...
"""
TEARDOWN = """
import threading
import pytest

@pytest.fixture
def never_ends():
    yield
    threading.Event().wait()

def test_fails(never_ends):
    raise AssertionError("before the teardown hangs")
"""
HOLDS_THE_GIL = """
import re

def test_loops():
    re.fullmatch("(a+)+", "a" * 100 + "b")
"""
CHANCE = """
import random

def test_a(): print("drawn", "a", random.random())
def test_b(): print("drawn", "b", random.random())
def test_c(): print("drawn", "c", random.random())
def test_d(): print("drawn", "d", random.random())
"""
SKIPPED = """
import pytest

@pytest.mark.slow
def test_slow(): ...

@pytest.mark.skipif(True, reason="no such program")
def test_needs_a_program(): ...

def test_without_a_server(): pytest.skip("no server")
def test_without_another_server(): pytest.skip("no server")
def test_passes(): ...
def test_too(): ...
"""


def run(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on files, as the project configures it."""
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, folder)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "pytest", *options, "."]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_test_that_hangs_fails_and_the_rest_goes_on(tmp_path: Path, processes: int) -> None:
    files = {"swallows": SWALLOWS, "teardown": TEARDOWN, "gil": HOLDS_THE_GIL}
    for attempt in range(3):
        (folder := tmp_path / str(attempt)).mkdir()
        done = run(folder, files, "-n", str(processes), "--dist", "loadgroup", "-o", f"timeout={LIMIT}")
        if done.returncode != pytest.ExitCode.INTERNAL_ERROR:  # of xdist, if two processes crash at the same moment
            break
    assert done.returncode == 1
    assert (folder / "hung").read_text() == "x"  # it runs once
    assert "2 passed" in done.stdout
    for name in ("test_swallows.py::test_hangs", "test_gil.py::test_loops", "test_teardown.py::test_fails"):
        assert re.search(rf"^FAILED {name} - worker '\w+' crashed", done.stdout, re.M), name
    # The stacks of all threads. Two processes write them at once, so that only names stay in one piece.
    assert [name for name in ("bystander", "test_hangs", "test_loops", "never_ends") if name not in done.stderr] == []


def test_a_hanging_test_ends_a_single_process(tmp_path: Path) -> None:
    done = run(tmp_path, {"swallows": SWALLOWS}, "-o", f"timeout={LIMIT}", "-k", "hangs")
    assert done.returncode == 1
    assert "in test_hangs" in done.stderr
    assert "in bystander" in done.stderr


def test_tests_of_a_file_share_a_process_and_those_of_spark_and_the_page_run_side_by_side(tmp_path: Path) -> None:
    text = "import time\n" + "\n".join(f"def test_{i}(): time.sleep(0.05)" for i in range(5))
    files = dict.fromkeys(("one", "two", "three", "spark", "kafka", "browser"), text)
    done = run(tmp_path, files, "-n", "2", "--dist", "loadgroup", "-v")
    where: dict[str, set[str]] = {}
    for process, file in re.findall(r"\[(\w+)\] .* PASSED test_(\w+)\.py", done.stdout):
        where.setdefault(file, set()).add(process)
    assert {*where} == {*files}
    assert [len(processes) for processes in where.values()] == [1] * len(files)
    assert len(set.union(*where.values())) == 2
    assert where["spark"] == where["kafka"] != where["browser"]


def test_the_order_is_random_and_nothing_else(tmp_path: Path) -> None:
    assert "Using --randomly-seed=" in run(tmp_path, {"chance": CHANCE}, "-n", "0").stdout
    orders, drawn = set(), set()
    for seed in range(2):
        out = run(tmp_path, {"chance": CHANCE}, "-n", "0", "-s", f"--randomly-seed={seed}").stdout
        lines = re.findall(r"drawn (\w) (\S+)", out)
        orders.add(tuple(name for name, _ in lines))
        drawn |= {*lines}
    assert len(orders) > 1
    assert len(drawn) == 4


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_ends_with_the_tests_that_did_not_run(tmp_path: Path, processes: str) -> None:
    options = ("-m", "not slow", "-k", "not too", "-n", processes, "--dist", "loadgroup")
    out = run(tmp_path, {"one": SKIPPED, "two": "def test_passes(): ..."}, *options).stdout
    rows = re.findall(r"^ +(\d+) (.*)$", out.partition("tests that did not run")[2], re.M)
    reasons = [
        "skipped: no server",
        "skipped: no such program",
        "deselected by options",
        "marked slow; `make test-all` runs them",
    ]
    assert sorted(rows, key=lambda row: reasons.index(row[1])) == [*zip("2111", reasons, strict=True)]


def test_nothing_is_listed_if_all_tests_ran(tmp_path: Path) -> None:
    assert "did not run" not in run(tmp_path, {"one": "def test_passes(): ..."}, "-n", "0").stdout
