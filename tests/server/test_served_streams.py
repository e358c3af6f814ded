"""Served streams: subscribers are called for every opened stream and every commit, one at a time."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import pytest

from quantide.live.live_stream import LiveStream
from quantide.server import served_streams
from quantide.server.served_streams import ServedStreams
from tests.server.running_server import configure, make_store


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)


def test_subscribers_are_called_for_an_opened_stream_and_for_commits(tmp_path: Path) -> None:
    streams, running = ServedStreams(configure(tmp_path)), Lock()
    counts: list[tuple[str, int]] = []
    overlaps: list[str] = []

    def on_commit(name: str, live: LiveStream) -> None:
        if not running.acquire(blocking=False):
            overlaps.append(name)
            return
        counts.append((name, live.n))
        time.sleep(0.01)
        running.release()
        raise ValueError("a failure is counted, and stops nothing")

    streams.subscribe(on_commit)
    streams.subscribe(on_commit)
    streams.start()
    assert list(streams.open_errors) == ["latency"], "there is no store yet"
    with make_store(tmp_path, filters=[]) as store:
        wait_until(lambda: counts[-2:] == [("latency", 0)] * 2)
        assert streams.open_errors == {}
        for count in range(1, 6):
            store.append([1.0], key="/pay", times=float(count))
            wait_until(lambda count=count: counts[-1] == ("latency", count))  # type: ignore[misc]
        streams.close()
    assert (len(counts), overlaps) == (streams.failures, [])
    assert len(counts) % 2 == 0, "both are called every time"


def test_an_unexpected_error_is_logged_once_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors, attempts = [ValueError("first"), ValueError("first"), ValueError("second")], list[Exception]()

    def fail(*arguments: object, **options: object) -> LiveStream:
        attempts.append(errors[min(len(attempts), len(errors) - 1)])
        raise attempts[-1]

    monkeypatch.setattr(served_streams, "LiveStream", fail)
    monkeypatch.setattr(served_streams, "REOPEN", 0.01)
    streams = ServedStreams(configure(tmp_path))
    streams.start()
    wait_until(lambda: len(attempts) > 4)
    streams.close()
    logged = [record.exc_info[1] for record in caplog.records if record.exc_info is not None]
    assert logged == [errors[0], errors[2]]
    assert streams.open_errors == {"latency": "second"}
