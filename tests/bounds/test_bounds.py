"""Bounds checks: they are on, do not affect other machine code, and the state machines pass with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounds.checked_process import ROOT, command, environment

MACHINES = sorted(path.name for path in (ROOT / "tests" / "machines").glob("test_*.py"))
KERNEL = """
import numpy as np
from quantide.kernels.jit import compiled, pure

@compiled
def read(values, i):
    return values[i]

@compiled
def write(values, i):
    values[i] = 7.0

@pure
def inner(values, i):
    return read(values, i) + values[i]
"""
CALL = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, wild
block = np.arange(10.0)  # the view ends inside it, so that an access past its end stays in our memory
outcome = []
for kernel in (wild.read, wild.write, wild.inner):
    try:
        kernel(block[:5], 7)
        outcome.append("passed")
    except IndexError:
        outcome.append("refused")
print(*outcome)
"""


def outcome(folder: Path, checked: bool) -> list[str]:
    """Outcome of an index past the end, in a process with or without checks, with one cache for both."""
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_BOUNDSCHECK"}
    variables = inherited | {"NUMBA_CACHE_DIR": str(folder / "cache")} | ({"NUMBA_BOUNDSCHECK": "1"} if checked else {})
    command = [sys.executable, "-c", CALL, str(folder)]
    return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout.split()


def test_checks_and_their_absence_share_no_machine_code(tmp_path: Path) -> None:
    """Run programs with and without checks in any order, also when the cache has all machine code."""
    (tmp_path / "wild.py").write_text(KERNEL, encoding="utf-8")
    for checked in (False, True, False, True):
        assert outcome(tmp_path, checked) == ["refused" if checked else "passed"] * 3, checked


def run_checked(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = environment() | variables
    return subprocess.run(arguments, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("gather_rows(np.zeros(9)[:3], np.array([0, 5]), np.array([0]), np.zeros((1, 8)))", "index is out of bounds"),
        ("gather_rows(np.zeros(9), np.array([-2, 5]), np.array([0]), np.zeros((1, 8)))", "index is negative"),
        ("gather_rows(np.zeros(9), np.array([0, 5]), np.array([0]), np.zeros((1, 8)))", ""),
    ],
)
def test_kernels_refuse_an_index(call: str, error: str) -> None:
    """Call kernels of Quantide in a process with bounds checks."""
    imports = "import numpy as np; from quantide.kernels.key_segments import gather_rows"
    run = run_checked(
        sys.executable, "-c", f"from tests.bounds.negative_indexes import install; install(); {imports}; {call}"
    )
    assert run.stderr.strip().endswith(f"IndexError: {error}" if error else ""), run.stderr
    assert run.returncode == bool(error)


@pytest.mark.parametrize("types", ["float64", pytest.param("float32 int64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machines", MACHINES)
def test_state_machines(machines: str, types: str) -> None:
    """Run the state machine of every structure; compiling kernels for each type takes longest."""
    options = ("-q", "-n", "0", "-x", "-p", "no:cacheprovider")
    run = run_checked(*command(f"tests/machines/{machines}", *options), QUANTIDE_TYPES=types)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert " passed" in run.stdout
