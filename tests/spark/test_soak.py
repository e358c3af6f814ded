"""The soak test itself, for a short while."""

from pathlib import Path

import pytest

from tests.spark import soak


@pytest.mark.slow
def test_a_short_soak(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SOAK", "20 s")
    code = soak.main(["--seed", "3"])
    assert code == 0, capsys.readouterr().out
    assert "All right: every row is there once" in capsys.readouterr().out


@pytest.mark.slow
def test_a_commit_that_is_torn_before_it_is_acknowledged(tmp_path: Path) -> None:
    """The driver dies between its commit and Spark's note of it, and the entry is cut: the batch is repeated once."""
    one = soak.Soak(tmp_path, 5, 10.0)
    try:
        one.start("ingest.committed@2:kill")
        one.wait(lambda: not one.running)
        one.end_driver("ingest.committed@2:kill")
        newest = max((one.feed.store / "_delta_log").glob("*.json"))
        assert one.is_unacknowledged(newest)
        before = one.rows()
        one.tear_commit(newest)
        one.end_old()
        one.wait(lambda: one.over)
        one.finish()
        assert one.events["tear a commit that was not acknowledged"] == 1
        assert 0 < before <= one.rows()
    finally:
        one.close()
    assert [*(one.feed.store / "_quantide").rglob("*aside*")]
