"""Pushed rows: formats, checks, landing files, repeats, back-pressure, full disks and security, by real requests."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from quantide import History
from quantide.server.http.tokens import create_token
from quantide.server.push import group_commit
from quantide.server.server_registry import ServerRegistry
from quantide.store import fault_points
from quantide.store.landing_file import arrival_time, digest_key
from tests.server.push_landing import landed, landed_requests, landing_files, push_config, read_file
from tests.server.running_server import run_server

ROWS = "/api/streams/latency/rows"
LINES = {"content-type": "application/x-ndjson"}
TABLE = pa.table({"value": [1.5, 2.5], "endpoint": ["/pay", "/cart"]})
EXPECTED = [(1.5, "/pay"), (2.5, "/cart")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[httpx.Client]:
    with run_server(push_config(tmp_path)) as client:
        yield client


def arrow_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


BODIES = {
    "application/json": b'[{"value": 1.5, "endpoint": "/pay"}, {"value": 2.5, "endpoint": "/cart"}]',
    "application/x-ndjson": b'{"value": 1.5, "endpoint": "/pay"}\n\n{"endpoint": "/cart", "value": 2.5}\n',
    "application/jsonl": b'{"value": 1.5, "endpoint": "/pay"}\r\n{"endpoint": "/cart", "value": 2.5}',
    "text/csv": b"value,endpoint\n1.5,/pay\n2.5,/cart\n",
    "text/csv; charset=utf-8": b"endpoint,value\n/pay,1.5\n/cart,2.5\n",
    "application/vnd.apache.arrow.stream": arrow_bytes(TABLE),
    "application/vnd.apache.parquet": parquet_bytes(TABLE),
}


@pytest.mark.parametrize("content_type", BODIES)
def test_formats(server: httpx.Client, tmp_path: Path, content_type: str) -> None:
    response = server.post(ROWS, content=BODIES[content_type], headers={"content-type": content_type})
    assert response.status_code == 201, response.text
    body = response.json()
    assert (body["stream"], body["rows"]) == ("latency", 2)
    rows = landed(tmp_path, "latency")
    assert [(row["value"], row["endpoint"]) for row in rows] == EXPECTED
    arrived = [row["time"] for row in rows]
    assert abs((datetime.now(UTC) - arrived[0]).total_seconds()) < 600
    (path,) = landing_files(tmp_path, "latency")
    assert path.name == f"{body['id']}.parquet"
    assert [(request.digest, request.rows) for request in landed_requests(path)] == [(None, 2)]


def test_one_json_object_is_one_row(server: httpx.Client, tmp_path: Path) -> None:
    assert server.post("/api/streams/plain/rows", json={"value": 3, "host": "a"}).json()["rows"] == 1
    (row,) = landed(tmp_path, "plain")
    assert (row["value"], row["host"]) == (3.0, "a")
    assert read_file(landing_files(tmp_path, "plain")[0]).schema.field("value").type == pa.float64()


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ('"2026-01-01T00:00:00Z"', "2026-01-01T00:00:00+00:00"),
        ('"2026-01-01 01:00:00+01:00"', "2026-01-01T00:00:00+00:00"),
        ('"2026-01-01T00:00:00.25"', "2026-01-01T00:00:00.250000+00:00"),
        ("1767225600", "2026-01-01T00:00:00+00:00"),
        ("1767225600.5", "2026-01-01T00:00:00.500000+00:00"),
    ],
)
def test_rows_may_have_a_time(server: httpx.Client, tmp_path: Path, time: str, expected: str) -> None:
    body = f'{{"value": 1, "time": {time}}}\n{{"value": 2}}\n'
    assert server.post("/api/streams/plain/rows", content=body, headers=LINES).status_code == 201
    first, second = (row["time"] for row in landed(tmp_path, "plain"))
    assert first.isoformat() == expected
    assert abs((datetime.now(UTC) - second).total_seconds()) < 600


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        (np.array(["2026-01-01"], "datetime64[us]"), "timestamps without a zone"),
        ([0.0], "numbers of seconds"),
        (None, "times of their arrival"),
    ],
)
def test_rows_that_the_store_cannot_have_are_not_acknowledged(tmp_path: Path, times: Any, reason: str) -> None:
    """The server rejects rows at which ingestion would stop for good."""
    config = push_config(tmp_path)
    with History(tmp_path / "data" / "plain", window="1 day") as history:
        history.append([1.0], times=times)
    with run_server(config) as client:
        response = client.post("/api/streams/plain/rows", json={"value": 1})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_argument")
        assert reason in response.json()["error"]["message"]
    assert not landing_files(tmp_path, "plain")


def test_rows_join_those_of_a_store_with_times_in_utc(tmp_path: Path) -> None:
    config = push_config(tmp_path)
    with History(tmp_path / "data" / "plain", window="1 day") as history:
        history.append([1.0], times=pa.array([0], pa.timestamp("us", "UTC")))
    with run_server(config) as client:
        assert client.post("/api/streams/plain/rows", json={"value": 1}).status_code == 201


def test_a_configured_time_is_needed_and_has_its_unit(server: httpx.Client, tmp_path: Path) -> None:
    path = "/api/streams/timed/rows"
    assert server.post(path, json={"ms": 1, "ts": 1767225600250}).status_code == 201
    (row,) = landed(tmp_path, "timed")
    assert row["ts"].isoformat() == "2026-01-01T00:00:00.250000+00:00"
    for rows in ({"ms": 1}, [{"ms": 1, "ts": 1767225600250}, {"ms": 2}]):
        response = server.post(path, json=rows)
        assert response.status_code == 400
        assert "'ts'" in response.json()["error"]["message"]


def test_rows_have_a_weight_where_one_is_configured(server: httpx.Client, tmp_path: Path) -> None:
    path = "/api/streams/weighted/rows"
    assert server.post(path, json=[{"value": 1, "copies": 3}, {"value": 2, "copies": 0}]).status_code == 201
    csv = server.post(path, content=b"value,Copies\n7,2.0\n", headers={"content-type": "text/csv"})
    assert csv.status_code == 201, csv.text
    assert [(row["value"], row["copies"]) for row in landed(tmp_path, "weighted")] == [(1, 3), (2, 0), (7, 2)]
    wrong = {"[1]": "'copies'", "null": "null", "-1": "-1", "0.5": "0.5", "true": "bool", '"x"': "'copies'"}
    wrong |= {"1048577": "row 1", "1e300": "'copies'"}
    for weight, part in wrong.items():
        body = f'[{{"value": 1, "copies": {weight}}}]'
        response = server.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 400, weight
        assert part in response.json()["error"]["message"]
    many = [{"value": 1, "copies": 2**20} for _ in range(65)]
    assert "at most 67108864" in server.post(path, json=many).json()["error"]["message"]
    assert "'copies'" in server.post(path, json={"value": 1}).json()["error"]["message"]
    assert len(landed(tmp_path, "weighted")) == 3


BAD = {
    "not JSON": ("application/json", b"[{", 400, "invalid_argument", "not JSON"),
    "a bad line": ("application/x-ndjson", b'{"value": 1}\n{"value"\n', 400, "invalid_argument", "line 2"),
    "two rows in a line": ("application/x-ndjson", b'{"value": 1}, {"value": 2}\n', 400, "invalid_argument", "line 1"),
    "no object": ("application/json", b"[1, 2]", 400, "invalid_argument", "row 1"),
    "no rows": ("application/json", b"[]", 400, "invalid_argument", "no rows"),
    "no value": ("application/json", b'{"endpoint": "/pay", "ms": 1}', 400, "invalid_argument", "'value'"),
    "no key": ("application/json", b'{"value": 1}', 400, "invalid_argument", "'endpoint'"),
    "a missing key": (
        "application/json", b'[{"value": 1, "endpoint": "a"}, {"value": 1}]', 400, "invalid_argument", "row 2",
    ),
    "text": ("application/json", b'{"value": "fast", "endpoint": "a"}', 400, "type_mismatch", "'value'"),
    "true": ("application/json", b'{"value": true, "endpoint": "a"}', 400, "type_mismatch", "'value'"),
    "types": (
        "application/json", b'[{"value": 1, "endpoint": "a"}, {"value": 1, "endpoint": 2}]', 400, "type_mismatch",
        "'endpoint'",
    ),
    "nested": ("application/json", b'{"value": 1, "endpoint": "a", "more": {"a": 1}}', 400, "type_mismatch", "'more'"),
    "time": ("application/json", b'{"value": 1, "endpoint": "a", "time": "noon"}', 400, "type_mismatch", "'time'"),
    "unit": ("application/json", b'{"value": 1, "endpoint": "a", "time": 1767225600250}', 400, "type_mismatch", "unit"),
    "year": (
        "application/x-ndjson",
        b'{"value": 1, "endpoint": "a", "time": null}\n{"value": 1, "endpoint": "a", "time": "0001-01-01T00:00:00Z"}',
        400,
        "type_mismatch",
        "row 2: the time 'time' is outside the years",
    ),
    "later year": ("text/csv", b"value,endpoint,time\n1,a,2262-04-12\n", 400, "type_mismatch", "outside the years"),
    "NaN": ("text/csv", b"value,endpoint\n1,a\nnan,b\n", 400, "nan", "row 2"),
    "CSV": ("text/csv", b"value,endpoint\n1,a,3\n", 400, "invalid_argument", "text/csv"),
    "columns": ("text/csv", b"value,endpoint,VALUE\n1,a,3\n", 400, "invalid_argument", "'value'"),
    "Arrow": ("application/vnd.apache.arrow.stream", b"no", 400, "invalid_argument", "arrow"),
    "Parquet": ("application/vnd.apache.parquet", parquet_bytes(TABLE)[:-9], 400, "invalid_argument", "parquet"),
    "form": ("application/x-www-form-urlencoded", b"value=1", 415, "not_rows", "'application/x-www-form-urlencoded'"),
    "plain text": ("text/plain", b"value\n1\n", 415, "not_rows", "Content-Type"),
    "multipart": ("multipart/form-data; boundary=a", b"--a--", 415, "not_rows", "Content-Type"),
    "charset": ("text/csv; charset=latin-1", b"value\n1\n", 415, "not_rows", "Content-Type"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_refused_and_change_nothing(server: httpx.Client, tmp_path: Path, name: str) -> None:
    content_type, content, status, code, part = BAD[name]
    response = server.post(ROWS, content=content, headers={"content-type": content_type})
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), error
    assert part in error["message"]
    assert not landing_files(tmp_path, "latency")


def test_only_push_streams_accept_rows(server: httpx.Client) -> None:
    for name, status, code in (("nowhere", 404, "unknown_stream"), ("files", 400, "invalid_argument")):
        response = server.post(f"/api/streams/{name}/rows", json={"value": 1})
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert server.get(ROWS).status_code == 405


def test_a_body_has_a_limit(tmp_path: Path) -> None:
    with run_server(push_config(tmp_path, "[server.limits]\nbody = 1_000")) as client:
        response = client.post("/api/streams/plain/rows", json=[{"value": 1.0}] * 100)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
        table = pa.table({"value": pa.array([1.0] * 10_000)})
        response = client.post(
            "/api/streams/plain/rows",
            content=parquet_bytes(table),
            headers={"content-type": "application/vnd.apache.parquet"},
        )
        assert response.status_code in (400, 413)  # few bytes, many rows
    assert not landing_files(tmp_path, "plain")


def test_a_page_of_another_site_cannot_push(server: httpx.Client, tmp_path: Path) -> None:
    csv = {"content-type": "text/csv"}
    for headers in ({"origin": "https://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
        response = server.post("/api/streams/plain/rows", content=b"value\n1\n", headers=csv | headers)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "wrong_origin")
    response = server.options("/api/streams/plain/rows", headers={"access-control-request-method": "POST"})
    assert "access-control-allow-origin" not in response.headers  # a preflight fails
    assert not landing_files(tmp_path, "plain")


def test_requests_share_a_file(server: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LINGER", 1.0)
    results: list[dict[str, Any]] = []

    def push(number: int) -> None:
        key = {"idempotency-key": f"key-{number}"} if number % 2 else {}
        body = [{"value": number + 0.25}] * (number + 1)
        results.append(server.post("/api/streams/plain/rows", json=body, headers=key).json())

    threads = [threading.Thread(target=push, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = landing_files(tmp_path, "plain")
    assert len(files) < 8
    assert {result["id"] for result in results} == {path.stem for path in files}
    assert sorted(result["rows"] for result in results) == list(range(1, 9))
    for path in files:
        values = read_file(path)["value"].to_pylist()
        for request in landed_requests(path):
            own, values = values[: request.rows], values[request.rows :]
            number = int(own[0])
            assert own == [number + 0.25] * (number + 1)
            assert request.digest == (digest_key(f"key-{number}") if number % 2 else None)


def test_a_repeat_is_acknowledged_and_adds_nothing(server: httpx.Client, tmp_path: Path) -> None:
    body = [{"value": 1.0}, {"value": 2.0}]
    first = server.post("/api/streams/plain/rows", json=body, headers={"idempotency-key": "a-1"})
    repeat = server.post("/api/streams/plain/rows?idempotency_key=a-1", json=body)
    assert first.status_code == repeat.status_code == 201
    assert first.json() == repeat.json()
    assert len(landed(tmp_path, "plain")) == 2
    assert server.post("/api/streams/latency/rows", json={"value": 1, "endpoint": "a"}, headers={
        "idempotency-key": "a-1"}).json()["id"] != first.json()["id"]  # fmt: skip


def test_a_repeat_with_other_rows_gets_the_response_of_the_first(server: httpx.Client, tmp_path: Path) -> None:
    first, repeat = (
        server.post("/api/streams/plain/rows", json=body, headers={"idempotency-key": "same"})
        for body in ([{"value": 1.0}, {"value": 2.0}], [{"value": 3.0}])
    )
    assert first.json()["rows"] == 2
    assert (repeat.status_code, repeat.json()) == (201, first.json())
    assert [row["value"] for row in landed(tmp_path, "plain")] == [1.0, 2.0]


@pytest.mark.parametrize("fault", ["push.write:kill", "disk.write:kill", "disk.write:full", "push.written:kill"])
def test_a_landing_file_is_whole_or_absent(tmp_path: Path, fault: str) -> None:
    """A process that writes landing files is killed, or the disk is full: no landing file is torn."""
    code = (
        "import sys, pyarrow as pa\n"
        "from quantide.store.folder_storage import FolderStorage\n"
        "from quantide.store.landing_file import PushedRequest, prepare_landing, write_landing_file\n"
        "storage = FolderStorage(sys.argv[1])\n"
        "prepare_landing(storage)\n"
        "for size in (1, 50_000):\n"
        "    write_landing_file(storage, pa.table({'value': [float(size)] * size}), [PushedRequest(None, size)])\n"
    )
    environment = os.environ | {"QUANTIDE_FAULT": fault}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, check=False
    )
    assert done.returncode == (-signal.SIGKILL if fault.endswith("kill") else 1), done.stderr
    files = [path for path in tmp_path.rglob("*") if arrival_time(path.name) is not None]
    assert len(files) == int(fault.startswith("push.written"))
    for path in files:
        requests = landed_requests(path)
        assert [request.rows for request in requests] == [pq.read_metadata(path).num_rows]


def test_a_repeat_to_another_server_has_the_same_digest(tmp_path: Path) -> None:
    """Ingestion, the only writer, drops one of the two: tests/spark/test_push_ingest.py."""
    config = push_config(tmp_path)
    other = push_config(tmp_path, 'state = "other"')
    with run_server(config) as first, run_server(other) as second:
        for client in (first, second):
            response = client.post("/api/streams/plain/rows", json={"value": 1}, headers={"idempotency-key": "k"})
            assert response.status_code == 201
    digests = [request.digest for path in landing_files(tmp_path, "plain") for request in landed_requests(path)]
    assert digests == [digest_key("k")] * 2


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_bad_key_is_refused(server: httpx.Client, tmp_path: Path, key: str) -> None:
    response = server.post("/api/streams/plain/rows", json={"value": 1}, headers={"idempotency-key": key})
    assert response.status_code == 400
    both = server.post("/api/streams/plain/rows?idempotency_key=a", json={"value": 1}, headers={"idempotency-key": "b"})
    assert both.status_code == 400
    assert not landing_files(tmp_path, "plain")


def test_rows_are_refused_while_ingestion_lags(server: httpx.Client, tmp_path: Path) -> None:
    path, row = "/api/streams/timed/rows", {"ms": 1, "ts": 1767225600250}
    statuses = [server.post(path, json=row).status_code for _ in range(5)]
    assert statuses == [201, 201, 201, 429, 429]
    response = server.post(path, json=row)
    assert response.json()["error"]["code"] == "backlog"
    assert int(response.headers["retry-after"]) > 0
    for file in landing_files(tmp_path, "timed"):
        file.unlink()
    deadline = threading.Event()
    while server.post(path, json=row).status_code == 429:
        assert not deadline.wait(0.1)
    assert len(landing_files(tmp_path, "timed")) == 1


def test_a_full_disk_acknowledges_nothing(
    server: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for point in ("push.write", "disk.write", "push.written"):
        monkeypatch.setattr(fault_points, "_armed", f"{point}:full")
        monkeypatch.setattr(fault_points, "_passed", {})
        response = server.post("/api/streams/plain/rows", json={"value": 1}, headers={"idempotency-key": point})
        assert (response.status_code, response.json()["error"]["code"]) == (507, "disk_full")
        monkeypatch.setattr(fault_points, "_armed", "")
        assert server.post(
            "/api/streams/plain/rows", json={"value": 1}, headers={"idempotency-key": point}
        ).status_code == 201  # fmt: skip


def test_roles_and_streams_of_tokens(tmp_path: Path) -> None:
    config = push_config(tmp_path)
    registry = ServerRegistry(config.server.state)
    tokens = {role: create_token(registry, role, role)[1] for role in ("pusher", "reader", "writer", "admin")}
    limited = create_token(registry, "limited", "pusher", streams=["plain"])[1]
    registry.close()

    def status(token: str, method: str, path: str, **options: Any) -> int:
        return client.request(method, path, headers={"authorization": f"Bearer {token}"}, **options).status_code

    with run_server(config) as client:
        pushes = {
            role: status(token, "POST", "/api/streams/plain/rows", json={"value": 1}) for role, token in tokens.items()
        }
        assert pushes == {"pusher": 201, "reader": 403, "writer": 201, "admin": 201}
        for path in ("/api/streams", "/api/streams/plain", "/api/queries", "/api/alarms", "/metrics", "/openapi.json"):
            assert status(tokens["pusher"], "GET", path) == 403
        assert status(tokens["pusher"], "POST", "/api/queries", json={"stream": "plain", "phi": 0.5}) == 403
        assert status(tokens["pusher"], "GET", "/api/session") == 200
        assert status(limited, "POST", "/api/streams/plain/rows", json={"value": 1}) == 201
        for stream in ("latency", "nowhere"):
            assert status(limited, "POST", f"/api/streams/{stream}/rows", json={"value": 1, "endpoint": "a"}) == 403
    assert not landing_files(tmp_path, "latency")


def test_the_openapi_document_lists_the_formats(server: httpx.Client) -> None:
    operation = server.get("/openapi.json").json()["paths"]["/api/streams/{stream}/rows"]["post"]
    assert set(BODIES) - {"text/csv; charset=utf-8"} == set(operation["requestBody"]["content"])
    assert json.dumps(operation)
