"""Health of streams: newest time, lag, bad rows, held files and clock problems, in /readyz, /metrics and the log."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.errors import CorruptBytesError
from quantide.server.stream_health import HealthLog, StreamHealth
from quantide.store.ingest_status import EARLIEST, INGEST_STATUS, LATEST, IngestStatus, publish_status
from quantide.windows.wall_clock import VARIABLE, wall_clock
from tests.server.running_server import configure, make_store, run_server
from tests.server.test_metrics import measured

YEAR = 365 * 86_400


def now(seconds: float = 0) -> np.datetime64:
    return np.datetime64(int((wall_clock() + seconds) * 1e9), "ns")


def store_with_times(folder: Path, *seconds: float) -> Any:
    store = make_store(folder, keys=None, filters=[])
    store.append(np.arange(len(seconds), dtype=float), times=np.array([now(one) for one in seconds]))
    return store


def test_lag_and_newest_time_are_shown(tmp_path: Path) -> None:
    with store_with_times(tmp_path, -300.0, -120.0), run_server(configure(tmp_path)) as client:
        response = client.get("/readyz")
        assert response.status_code == 200
        health = response.json()["streams"]["latency"]
        assert health["newest"] is not None
        assert 119 < health["lag"] < 600
        assert (health["ingest"], health["problems"]) == (None, [])
        gauges = measured(client)
        assert 119 < gauges["quantide_stream_lag_seconds", "stream=latency"] < 600
        assert abs(gauges["quantide_stream_newest_time_seconds", "stream=latency"] - (wall_clock() - 120)) < 600
        assert gauges["quantide_stream_problems", "stream=latency"] == 0


def test_a_newest_time_ahead_of_the_clock_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_with_times(tmp_path, -10.0), run_server(configure(tmp_path)) as client:
        monkeypatch.setenv(VARIABLE, str(-2 * YEAR))
        response = client.get("/readyz")
        assert response.status_code == 503
        assert "ahead of this machine's clock" in response.json()["waiting"]["latency"]
        assert response.json()["streams"]["latency"]["lag"] < -YEAR
        gauges = measured(client)
        assert gauges["quantide_stream_lag_seconds", "stream=latency"] < -YEAR
        assert gauges["quantide_stream_clock_problem", "stream=latency"] == 1
        [stream] = client.get("/api/streams").json()["streams"]
        assert stream["lag"]["newest"] < -YEAR
        assert "ahead of this machine's clock" in stream["problems"][0]


def test_the_status_of_ingestion_is_shown(tmp_path: Path) -> None:
    with store_with_times(tmp_path, -10.0) as store, run_server(configure(tmp_path)) as client:
        publish_status(
            store.table.storage,
            IngestStatus(wall_clock(), True, 100, 7, 3, 2, "a batch failed", "the clock moved by 60 d"),
        )
        response = client.get("/readyz")
        assert response.status_code == 200, "questions can be answered"
        health = response.json()["streams"]["latency"]
        assert (health["ingest"]["bad_rows"], health["ingest"]["held_files"]) == (7, 3)
        assert "a batch failed" not in response.text, "anyone may ask, and the text may name files"
        [stream] = client.get("/api/streams").json()["streams"]
        assert stream["problems"][:2] == ["the clock moved by 60 d", "a batch failed"]
        assert "quarantine list" in stream["problems"][2]
        assert "GET /api/streams" in health["problems"][0]
        gauges = measured(client)
        names = ("bad_rows", "held_files", "waiting_files", "clock_problem", "problems")
        assert [gauges[f"quantide_stream_{name}", "stream=latency"] for name in names] == [7, 3, 2, 1, 3]


@pytest.mark.parametrize(
    ("age", "running", "problems"),
    [
        (1800, True, ["ingestion has not reported for 30 min; see whether it runs"]),
        (1800, False, []),
        (-2 * YEAR, True, ["ingestion's status is dated 2 years ahead of this machine's clock; compare both clocks"]),
    ],
)
def test_an_ingestion_that_fell_silent_is_a_problem(
    tmp_path: Path, age: float, running: bool, problems: list[str]
) -> None:
    with store_with_times(tmp_path, -10.0) as store, run_server(configure(tmp_path)) as client:
        publish_status(store.table.storage, IngestStatus(wall_clock() - age, running))
        assert client.get("/readyz").json()["streams"]["latency"]["problems"] == problems


def test_a_damaged_status_is_a_problem_and_harms_no_answer(tmp_path: Path) -> None:
    with store_with_times(tmp_path, -10.0) as store, run_server(configure(tmp_path)) as client:
        (Path(store.path) / INGEST_STATUS).write_bytes(b'{"time": "yesterday"}')
        assert "ingest.json is damaged" in client.get("/readyz").json()["streams"]["latency"]["problems"][0]
        assert client.get("/api/streams/latency/quantiles", params={"phi": 0.5}).status_code == 200
        assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    "found",
    [
        b"",
        b"\0" * 100,
        b"[1]",
        b"null",
        b"[" * 10_000,
        b'{"time": NaN}',
        b'{"time": 1e300}',
        b'{"time": true}',
        b'{"time": 253402300800}',
        b'{"time": -62135596801}',
        b'{"time": 1, "rows": -1}',
        b'{"time": 1, "rows": 1e5}',
        b'{"time": 1, "held_files": 9999999999999999999999}',
        b'{"time": 1, "problem": ["x"]}',
        b'{"time": 1, "running": "yes"}',
        json.dumps({"time": 1, "problem": "x" * (1 << 17)}).encode(),
    ],
)
def test_hostile_statuses_get_a_named_error(found: bytes) -> None:
    with pytest.raises(CorruptBytesError, match="can be removed"):
        IngestStatus.from_bytes(found)


def test_the_time_of_a_status_is_text(tmp_path: Path) -> None:
    """The time of a status is ISO 8601 in UTC, as all times of the server."""
    with store_with_times(tmp_path, -10.0) as store, run_server(configure(tmp_path)) as client:
        publish_status(store.table.storage, IngestStatus(1769860800.5, running=False))
        health = client.get("/readyz").json()["streams"]["latency"]
        [stream] = client.get("/api/streams").json()["streams"]
        assert health["ingest"]["time"] == stream["ingest"]["time"] == "2026-01-31T12:00:00.500000Z"


@pytest.mark.parametrize("time", [EARLIEST, LATEST])
def test_every_time_of_a_status_can_be_shown(time: float) -> None:
    status = IngestStatus.from_bytes(IngestStatus(time).to_bytes())
    assert StreamHealth(ingest=status).to_json()["ingest"]["time"][4:] in ("-01-01T00:00:00Z", "-12-31T23:59:59Z")


def test_a_status_survives_its_bytes_and_a_later_version() -> None:
    status = IngestStatus(12.5, False, 1, 2, 3, 4, "a" * 10_000, "b")
    read = IngestStatus.from_bytes(status.to_bytes())
    assert (read.time, read.running, read.rows, len(read.problem)) == (12.5, False, 1, 500)
    assert IngestStatus.from_bytes(b'{"time": 1.0, "later": {}}') == IngestStatus(1.0)


def test_the_log_has_each_problem_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from quantide.server.served_streams import ServedStreams

    with store_with_times(tmp_path, -10.0) as store:
        streams = ServedStreams(configure(tmp_path))
        try:
            log = HealthLog(streams)
            with caplog.at_level(logging.INFO, "quantide.server"):
                for result in (1, 2, 0):
                    publish_status(store.table.storage, IngestStatus(wall_clock(), True, held_files=result))
                    log.check()
            results = [record.getMessage() for record in caplog.records]
            assert len(results) == 2
            assert "files held in quarantine: 1" in results[0]
            assert "no problems any more" in results[1]
        finally:
            streams.close()
