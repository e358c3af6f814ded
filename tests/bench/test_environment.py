"""The processor of a measurement: AMD names many generations alike, so the generation is added."""

import subprocess
from pathlib import Path

import pytest

from bench import environment
from bench.environment import describe, processor
from bench.report import about

INTEL = "Intel(R) Xeon(R) Processor"


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "name"),
    [
        ("AuthenticAMD", "26", "avx2 avx512f", "AMD EPYC (Zen 5)"),
        ("AuthenticAMD", "25", "avx2 avx512f", "AMD EPYC (Zen 4)"),
        ("AuthenticAMD", "25", "avx2", "AMD EPYC (Zen 3)"),
        ("AuthenticAMD", "99", "avx2", "AMD EPYC (family 99)"),
    ],
)
def test_generations_of_amd(vendor: str, family: str, flags: str, name: str) -> None:
    assert processor({"model name": "AMD EPYC", "vendor_id": vendor, "cpu family": family, "flags": flags}) == name


def test_other_processors() -> None:
    assert processor({"model name": INTEL, "vendor_id": "GenuineIntel", "cpu family": "6"}) == INTEL
    assert processor({})  # of an ARM processor Linux has no name
    assert describe()["cpu"]


def test_results_name_the_commit_that_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert "commit" not in about("python -m bench"), "no checkout"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "src/a.py"], ["commit", "--quiet", "--no-gpg-sign", "-m", "first"]):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "a.py").touch()
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    named = about("python -m bench")["commit"]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "stream.json").touch()
    assert about("python -m bench")["commit"] == named, "results do not change the code"
    (tmp_path / "src" / "a.py").write_text("1", encoding="utf-8")
    assert about("python -m bench")["commit"] == f"{named}-dirty"
