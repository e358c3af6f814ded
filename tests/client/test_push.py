"""Pushing with the client: rows of every kind, the buffered pusher, timed blocks, the log handler, and the command."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from quantide.cli import main
from quantide.client import BufferedPusher, Client
from quantide.errors import (
    BacklogError,
    InvalidArgumentError,
    ServerError,
    TokenError,
    TypeMismatchError,
    UnknownStreamError,
)
from tests.client.scripted_server import response, scripted_server
from tests.server.push_landing import landed, landing_files, push_config
from tests.server.running_server import run_server

TABLE = pa.table({"value": [1.5, 2.5], "endpoint": ["/pay", "/cart"]})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with run_server(push_config(tmp_path)) as http, Client(str(http.base_url)) as client:
        yield client


ROWS: dict[str, Any] = {
    "dicts": TABLE.to_pylist(),
    "pyarrow": TABLE,
    "pyarrow batch": TABLE.to_batches()[0],
    "pandas": TABLE.to_pandas(),
    "polars": pl.DataFrame(TABLE.to_pydict()),
}


@pytest.mark.parametrize("kind", ROWS)
def test_kinds_of_rows(client: Client, tmp_path: Path, kind: str) -> None:
    receipt = client.push("latency", ROWS[kind])
    assert (receipt.stream, receipt.rows) == ("latency", 2)
    assert [(row["value"], row["endpoint"]) for row in landed(tmp_path, "latency")] == [(1.5, "/pay"), (2.5, "/cart")]


def test_values_and_times(client: Client, tmp_path: Path) -> None:
    assert client.push("plain", np.array([1, 2, 3])).rows == 3
    assert client.push("plain", {"value": np.float64(4), "time": pd.Timestamp("2026-01-01", tz="UTC")}).rows == 1
    assert [row["value"] for row in landed(tmp_path, "plain")] == [1, 2, 3, 4]
    assert landed(tmp_path, "plain")[-1]["time"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_a_repeat_adds_nothing(client: Client, tmp_path: Path) -> None:
    first = client.push("plain", [{"value": 1}], idempotency_key="k")
    assert client.push("plain", [{"value": 1}], idempotency_key="k") == first
    assert len(landed(tmp_path, "plain")) == 1


def test_errors_are_named(client: Client) -> None:
    with pytest.raises(UnknownStreamError):
        client.push("nowhere", [{"value": 1}])
    with pytest.raises(InvalidArgumentError, match="'value'"):
        client.push("plain", [{"other": 1}])
    with pytest.raises(TypeMismatchError):
        client.push("plain", [{"value": "fast"}])
    for rows in ("text", 5, [1, 2], np.zeros((2, 2)), [{"value": object()}], [{"value": float("nan")}]):
        with pytest.raises(InvalidArgumentError):
            client.push("plain", rows)
    row = {"ms": 1, "ts": 1767225600250}
    for _ in range(3):
        client.push("timed", row)
    with pytest.raises(BacklogError) as error:
        client.push("timed", row)
    assert error.value.retry_after == 2


def test_a_broken_connection_is_retried_with_the_same_key() -> None:
    body = b'{"stream": "s", "rows": 1, "id": "x"}'
    with scripted_server([b""], [response(body, status="201 Created")]) as server, Client(server.address) as client:
        assert client.push("s", [{"value": 1}], idempotency_key="k").rows == 1
    assert [b"idempotency-key: k" in request.lower() for request in server.requests] == [True, True]


# Buffered pusher


class RecordingSender:
    """Client that records requests, after raising some errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.requests = list(errors), list[tuple[str, list[dict[str, Any]]]]()
        self.gate = threading.Event()
        self.gate.set()

    def push_encoded(self, stream: str, content_type: str, content: bytes, idempotency_key: str) -> None:
        assert self.gate.wait(60)
        rows = pa.ipc.open_stream(content).read_all().to_pylist()
        if any(row["value"] == -1 for row in rows):
            raise InvalidArgumentError("a value is refused")
        self.requests.append((idempotency_key, rows))
        if self.errors:
            raise self.errors.pop(0)

    def reconnect(self) -> None:
        pass


def test_a_pusher_sends_batches(client: Client, tmp_path: Path) -> None:
    with client.pusher("latency", batch=100, seconds=60) as pusher:
        threads = [
            threading.Thread(target=lambda: [pusher.add(i, endpoint="/pay") for i in range(1_000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pusher.flush(60)
        assert (pusher.sent, len(pusher)) == (4_000, 0)
    assert sorted(row["value"] for row in landed(tmp_path, "latency")) == sorted(4 * [float(i) for i in range(1_000)])
    assert not pusher.add(1, endpoint="/pay")  # closed


def test_a_batch_is_sent_until_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantide.client.buffered_pusher.FIRST_PAUSE", 0.001)
    backlog = BacklogError("wait")
    backlog.retry_after = 0
    sender = RecordingSender(ServerError("away"), backlog)
    with BufferedPusher(sender, "s", seconds=0.01) as pusher:
        pusher.add(1.0, 5.0)
        assert pusher.flush(60)
    assert len(sender.requests) == 3
    assert len({key for key, _ in sender.requests}) == 1
    assert (pusher.sent, pusher.refused) == (1, 0)


def test_refused_rows_are_dropped_and_others_arrive() -> None:
    sender = RecordingSender()
    with BufferedPusher(sender, "s", seconds=0.01, batch=64, max_rows=1_000) as pusher:
        for i in range(100):
            pusher.add(-1 if i in (7, 50) else i)
        pusher.add("text")
        assert pusher.flush(60)
    arrived = sorted(row["value"] for _, rows in sender.requests for row in rows if row["value"] != "text")
    assert arrived == [i for i in range(100) if i not in (7, 50)]
    assert pusher.refused >= 2
    assert pusher.last_error is not None
    keys = [key for key, _ in sender.requests]
    assert len(set(keys)) == len(keys)


def test_a_refused_token_drops_a_batch_at_once() -> None:
    sender = RecordingSender(TokenError("revoked"))
    with BufferedPusher(sender, "s", seconds=0.01) as pusher:
        pusher.add(1)
        pusher.add(2)
        assert pusher.flush(60)
        assert pusher.refused in (1, 2)  # one batch, or the first of two


def test_a_full_buffer_drops_or_blocks() -> None:
    sender = RecordingSender()
    sender.gate.clear()
    with BufferedPusher(sender, "s", batch=10, max_rows=10, seconds=0.01) as pusher:
        added = [pusher.add(i) for i in range(100)]
        assert 10 <= sum(added) <= 20  # those of the buffer, and of a batch that is being sent
        assert pusher.dropped == 100 - sum(added)
        sender.gate.set()
        assert pusher.flush(60)
    blocking = RecordingSender()
    with BufferedPusher(blocking, "s", batch=10, max_rows=10, seconds=0.01, when_full="block") as pusher:
        assert all(pusher.add(i) for i in range(500))
        assert pusher.flush(60)
    assert (pusher.sent, pusher.dropped) == (500, 0)


def test_settings_are_checked() -> None:
    for settings in ({"when_full": "wait"}, {"batch": 0}, {"seconds": 0}, {"batch": 11, "max_rows": 10}):
        with pytest.raises(InvalidArgumentError):
            BufferedPusher(RecordingSender(), "s", **settings)


def test_timed_blocks_and_functions(client: Client, tmp_path: Path) -> None:
    with client.timed("latency", endpoint="/pay"):
        pass

    @client.timed("latency", endpoint="/cart")
    def double(number: int) -> int:
        return 2 * number if number > 3 else double(number + 1)

    assert double(1) == 8
    with pytest.raises(ZeroDivisionError), client.timed("latency", endpoint="/fail"):
        _ = 1 / 0
    client.close()
    rows = landed(tmp_path, "latency")
    assert sorted(row["endpoint"] for row in rows) == ["/cart"] * 4 + ["/fail", "/pay"]
    assert all(row["value"] >= 0 for row in rows)


def test_log_records_are_pushed(client: Client, tmp_path: Path) -> None:
    logger = logging.Logger("shop")
    logger.addHandler(client.log_handler("plain", "ms"))
    logger.info("paid", extra={"ms": 12.5})
    logger.info("no number")
    logger.handlers[0].flush()
    (row,) = landed(tmp_path, "plain")
    assert (row["value"], row["logger"], row["level"]) == (12.5, "shop", "INFO")


PROGRAM = """
import os, sys
from quantide.client import Client
client = Client(sys.argv[1])
pusher = client.pusher("plain", seconds=60)
pusher.add(1.0)
child = os.fork()
if child == 0:
    pusher.add(2.0)
    assert pusher.close(60)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
pusher.add(3.0)
"""


def test_rows_are_sent_at_the_end_of_a_process_and_once_after_a_fork(client: Client, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, client.address], check=True, timeout=300, env=os.environ.copy())
    assert sorted(row["value"] for row in landed(tmp_path, "plain")) == [1, 2, 3]


# Command


def write_files(folder: Path) -> dict[str, Path]:
    paths = {suffix: folder / f"rows.{suffix}" for suffix in ("csv", "jsonl", "parquet", "arrow", "arrows")}
    paths["csv"].write_text('value,endpoint\n1.5,/pay\n2.5,"/ca\nrt"\n')
    paths["jsonl"].write_text('{"value": 1.5, "endpoint": "/pay"}\n{"value": 2.5, "endpoint": "/ca\\nrt"}\n')
    table = pa.table({"value": [1.5, 2.5], "endpoint": ["/pay", "/ca\nrt"]})
    pq.write_table(table, paths["parquet"])
    for suffix, make in (("arrow", pyarrow.ipc.new_file), ("arrows", pyarrow.ipc.new_stream)):
        with make(str(paths[suffix]), table.schema) as writer:
            writer.write_table(table)
    return paths


def test_the_command_reads_files(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("quantide.cli.push_commands.REQUEST_ROWS", 1)
    paths = write_files(tmp_path)
    for path in paths.values():
        assert main(["push", "latency", str(path), "--url", client.address, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"stream": "latency", "rows": 2}
    rows = landed(tmp_path, "latency")
    expected = [(1.5, "/pay"), (2.5, "/ca\nrt")] * len(paths)
    assert sorted((row["value"], row["endpoint"]) for row in rows) == sorted(expected)
    for _ in range(2):
        arguments = ["push", "latency", str(paths["csv"]), "--url", client.address, "--idempotency-key", "once"]
        assert main(arguments) == 0
    assert len(landed(tmp_path, "latency")) == len(rows) + 2


@pytest.mark.parametrize("key", ["\u00e9\U0001f600", "\ud800", "a\nb", "k" * 200])
def test_keys_that_no_header_can_have_are_refused(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    path = write_files(tmp_path)["csv"]
    assert main(["push", "latency", str(path), "--url", client.address, "--idempotency-key", key]) == 2
    assert "printable ASCII characters" in capsys.readouterr().err
    assert not landing_files(tmp_path, "latency")


def test_the_command_names_what_is_wrong(client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown, bad, empty = tmp_path / "rows.txt", tmp_path / "bad.parquet", tmp_path / "empty.csv"
    for path in (unknown, bad, empty):
        path.write_bytes(b"" if path is empty else b"no")
    messages = {unknown: "--format", bad: "cannot be read", empty: "is empty", tmp_path / "x.csv": "x.csv"}
    for path, message in messages.items():
        assert main(["push", "latency", str(path), "--url", client.address]) == 2
        assert message in capsys.readouterr().err
    assert not landing_files(tmp_path, "latency")
