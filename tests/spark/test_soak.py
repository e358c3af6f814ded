"""The soak itself runs, for a short while."""

import pytest

from tests.spark import soak


@pytest.mark.slow
def test_a_short_soak(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SOAK", "20 s")
    code = soak.main(["--seed", "3"])
    assert code == 0, capsys.readouterr().out
    assert "All right: every row is there once" in capsys.readouterr().out
