"""Subscriptions to a live stream: one call after every poll that changed something, none after others."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quantide import History
from quantide.errors import StorageError
from quantide.live.live_stream import LiveStream


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)


def test_poll_calls_subscribers_after_commits_only(tmp_path: Path) -> None:
    with History(tmp_path / "s", eps=0.1) as history, LiveStream(tmp_path / "s", follow=False) as live:
        versions: list[int] = []
        live.subscribe(lambda: versions.append(live.version))
        assert (live.poll(), versions) == (False, [])
        history.append([1.0])
        history.append([2.0])
        assert live.poll()
        assert versions == [live.version], "several commits, one call"
        assert (live.poll(), len(versions)) == (False, 1)


def test_the_polling_thread_calls_subscribers_when_it_begins_and_ceases_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise StorageError("the disk is away")

    with History(tmp_path / "s", eps=0.1) as history, LiveStream(tmp_path / "s") as live:
        calls: list[tuple[int, bool]] = []
        live.subscribe(lambda: calls.append((live.version, live.last_error is None)))
        history.append([1.0])
        wait_until(lambda: live.n == 1 and calls[-1:] == [(live.version, True)])
        version, calls[:] = live.version, []
        with monkeypatch.context() as patch:
            patch.setattr(live._reader, "refresh", fail)
            wait_until(lambda: len(calls) == 1)
        wait_until(lambda: len(calls) == 2)
        assert calls == [(version, False), (version, True)]


def test_a_subscriber_that_raises_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A subscriber that raises stops no other one, no monitor, no query and no poll."""

    def fail() -> None:
        raise ValueError("a bug of the subscriber")

    with History(tmp_path / "s", eps=0.1) as history, LiveStream(tmp_path / "s") as live:
        calls: list[int] = []
        changes: list[float] = []
        live.subscribe(fail)
        live.subscribe(lambda: calls.append(live.version))
        monitor = live.monitor()
        monitor.register(0.5, 0.2, on_change=lambda _, value: changes.append(float(value)))
        for n in (1, 2, 3):
            history.append([float(n)] * 10**n)
            wait_until(lambda: bool(calls) and calls[-1] == history.version)
        wait_until(lambda: changes[-1:] == [3.0])
        assert live.last_error is None
        assert live.quantile(0.5) == 3.0
    assert "a subscriber raised" in caplog.text
