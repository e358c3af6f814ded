"""A stream reads a topic of a real broker: JSON records with metadata and headers; bad ones go to the quarantine."""

import socket
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quantide import History
from quantide.config import read_config
from quantide.doctor.kafka_checks import check_kafka
from quantide.spark.kafka_connector import JARS_VARIABLE
from tests.kafka.kafka_stage import KafkaStage


def bad_records(stage: KafkaStage) -> dict[tuple[str, int], tuple[str, str]]:
    """Return reason and content of the bad records, by partition and offset."""
    groups = stage.quarantine()
    return {(row["path"], e["line"]): (row["reason"], e["content"]) for row in groups for e in row["examples"]}


def test_json_records(stage: KafkaStage) -> None:
    stage.configure(
        'decode = { format = "json", schema = "ms DOUBLE, path STRING", headers = ["region"] }',
        'value = "ms"\ntime = "kafka_timestamp"\nkeys = ["region"]\n'
        "filters = { first = \"kafka_partition = 0 AND kafka_key = 'k'\" }",
    )
    stage.broker.create(stage.topic, 2)
    good = [{"ms": float(i), "path": "/a"} for i in range(100)]
    stage.broker.produce(stage.topic, good, "k", {"region": "eu"}, partition=0)
    stage.broker.produce(stage.topic, [{"ms": 5.0}, b"{oops", None, b"\xff\xfe", {"ms": "x"}], "k", {"region": "us"}, 1)
    stage.ingest()
    history = History(stage.store)
    assert history.n == 101
    assert history.answer(0.5, mode="exact", key="eu").value == 49.0
    assert history.answer(0.5, mode="exact", key="us").value == 5.0
    bad = bad_records(stage)
    reason, content = bad.pop((f"{stage.topic}-1", 2))
    assert reason == "the record has no value (a tombstone)"
    assert '"region": "us"' in content
    assert bad == {
        (f"{stage.topic}-1", 1): ("the record is not JSON", "{oops"),
        (f"{stage.topic}-1", 3): ("the record is not UTF-8", "//4="),
        (f"{stage.topic}-1", 4): ("the column ms is not DOUBLE", '{"ms": "x"}'),
    }
    assert "offset 1: {oops" in stage.quarantine_text()


@pytest.mark.slow
def test_keys_headers_and_timestamps(stage: KafkaStage) -> None:
    """Keys and headers need not be text, names of headers repeat, and a timestamp may be missing or in the future."""
    stage.configure(
        'decode = { format = "number", headers = ["h"] }',
        'value = "value"\ntime = "kafka_timestamp"\nkeys = ["h", "kafka_key"]',
    )
    stage.broker.create(stage.topic, 1, message_timestamp_after_max_ms=str(2**63 - 1))
    producer, soon = Producer({"bootstrap.servers": stage.broker.servers}), int(time.time() * 1000) + 10**10
    producer.produce(stage.topic, b"1", b"\xff\xfe", headers=[("h", b"a"), ("h", b"b")])
    producer.produce(stage.topic, b"2", b"", headers=[("h", b"\xff")])
    producer.produce(stage.topic, b"3", headers=[("other", b"x"), ("h", None)])
    producer.produce(stage.topic, b"4", b"k", timestamp=soon)
    producer.produce(stage.topic, b"5", b"k", timestamp=-1)
    assert producer.flush(60) == 0
    stage.ingest()
    history = History(stage.store)
    for value, key in ((1.0, ("b", "//4=")), (2.0, ("/w==", "")), (3.0, (None, None))):
        assert history.answer(1.0, mode="exact", key=key).value == value
    assert {line: reason[:15] for (_, line), (reason, _) in bad_records(stage).items()} == {
        3: "the time is ahe",
        4: "the row has no ",
    }


def test_the_doctor_finds_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        servers = f"127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}"
        source = f'{{ format = "kafka", servers = "{servers}", topic = "t", decode = {{ format = "number" }} }}'
        (tmp_path / "q.toml").write_text(f'store = "data"\n[streams.s]\nsource = {source}\nvalue = "value"\n')
        config = read_config(tmp_path / "q.toml")
        broker, connector = check_kafka(config)
        assert (broker.state, connector.state) == ("ok", "ok")
        assert "spark-sql-kafka-0-10_2.13" in connector.found
    assert [finding.state for finding in check_kafka(config)] == ["failed", "ok"]
    assert list(check_kafka(None)) == []
