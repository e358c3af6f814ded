"""The kill test of Kafka and push together, with a few kills; `python -m tests.kafka.kill_soak` has 50."""

import pytest

from tests.kafka import kill_soak
from tests.kafka.broker import missing


@pytest.mark.slow
def test_drivers_the_broker_and_servers_are_killed_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    code = kill_soak.main(["--kills", "6", "--seed", "2"])
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert all(f"2  kill the {kind}" in shown for kind in kill_soak.KINDS)
    assert "All right: every value is there once" in shown
