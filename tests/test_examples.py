"""The examples run as they are, and leave nothing behind."""

import runpy
import tempfile
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.name))
def test_an_example_runs_and_cleans_up(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(example), run_name="__main__")
    assert list(tmp_path.iterdir()) == []
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    if example.name == "embedded.py":
        said = [line.strip() for line in lines if "->" in line]
        assert "ALARM" in "".join(said)
        assert said[0] == said[-1] == "-> it is below 1,500 ms, proved"
