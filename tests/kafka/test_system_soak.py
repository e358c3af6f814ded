"""The soak test of Kafka, push and S3, for a short while; `make soak ARGS="--source all"` takes ten minutes."""

import pytest

from tests.kafka import system_soak
from tests.kafka.broker import missing
from tests.object_servers.servers import missing_reason
from tests.spark import soak


@pytest.mark.slow
def test_a_short_soak_of_all_sources(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if (reason := missing() or missing_reason("versitygw")) is not None:
        pytest.skip(reason)
    monkeypatch.setenv("SOAK", "60 s")
    code = soak.main(["--source", "all", "--seed", "4"])
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert "All right: every value is there once" in shown
    assert all(f"{stream}: " in shown for stream in system_soak.STREAMS)
