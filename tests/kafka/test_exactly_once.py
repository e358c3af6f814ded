"""Every record is stored once: drivers and the broker are killed, topics grow, are deleted, and lose their records."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.broker import Broker, missing, running_broker, wait_for
from tests.kafka.kafka_stage import JSON, QUICK, KafkaStage
from tests.object_servers.object_location import ObjectLocation
from tests.spark.process_groups import wait_until
from tests.spark.streams import configure_store, credentials

pytestmark = pytest.mark.slow
SMALL = f"{JSON}, max_rows = 400"
POINTS = ["write.data@2", "append.written@2", "commit.before@3", "commit.after@4", "ingest.recorded@2"]


@pytest.fixture
def mortal_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of this test alone, which may be killed."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        yield broker


@pytest.mark.parametrize("fault", POINTS)
def test_a_driver_is_killed(stage: KafkaStage, fault: str) -> None:
    stage.configure(SMALL)
    stage.broker.create(stage.topic, 2)
    stage.produce(1500)
    stage.ingest_until_killed(fault)
    assert stage.stored < 1500
    stage.ingest()
    stage.check()


def test_the_broker_is_killed_and_started_again(mortal_broker: Broker, tmp_path: Path) -> None:
    stage = KafkaStage(mortal_broker, tmp_path, "latency")
    stage.configure(SMALL)
    mortal_broker.create("latency", 2)
    stage.produce(1000)
    log = stage.next_log()
    with stage.driver(log=log) as driver:
        wait_until(lambda: stage.stored == 1000, [driver], log)
        mortal_broker.kill()
        wait_until(lambda: "do not answer" in log.read_text() or "failed" in log.read_text(), [driver], log)
        mortal_broker.start()
        stage.produce(1000)
        wait_until(lambda: stage.stored == 2000, [driver], log)
    stage.check()


def test_new_partitions_and_a_reset(stage: KafkaStage) -> None:
    stage.configure(SMALL)
    stage.broker.create(stage.topic, 1)
    stage.produce(500)
    stage.ingest()
    stage.broker.expand(stage.topic, 3)
    stage.produce(300, partition=1)
    stage.produce(300, partition=2)
    stage.ingest("--reset")  # Spark alone refuses to start with offsets of one partition when there are three
    stage.produce(300)
    stage.ingest()
    stage.check()


def test_records_that_retention_removed(stage: KafkaStage) -> None:
    stage.configure()
    stage.broker.create(stage.topic, 1)
    stage.produce(500)
    stage.ingest()
    stage.produce(1000)
    stage.broker.delete_before(stage.topic, 0, 1200)
    error = stage.ingest_error()
    assert "700 offsets are lost" in error
    assert f"{stage.topic}-0 begins at offset 1,200, and the store continues at 500" in error
    stage.check(stage.rows[:500])
    stage.configure(f'{JSON}, on_data_loss = "continue"')
    assert "700 offsets lost" in stage.ingest()
    stage.produce(100)
    assert "700 offsets lost" in stage.ingest()
    stage.check(stage.rows[:500] + stage.rows[1200:])


def test_a_topic_that_is_deleted_and_made_again(stage: KafkaStage) -> None:
    stage.configure()
    stage.broker.create(stage.topic, 2)
    stage.produce(500)
    stage.ingest()
    stage.broker.delete(stage.topic)
    stage.broker.create(stage.topic, 1)
    stage.produce(900)  # more than the store has read of the former topic
    assert "was deleted and made again" in stage.ingest_error()
    stage.configure(f'{JSON}, on_data_loss = "continue"')
    stage.ingest()
    stage.check()


def test_a_topic_that_is_made_again_while_it_is_read(stage: KafkaStage) -> None:
    """The new topic has more records than the former one had: by offsets alone it looks like the same."""
    stage.configure(f'{JSON}, on_data_loss = "continue"')
    stage.broker.create(stage.topic, 1)
    stage.produce(100)
    log = stage.next_log()
    with stage.driver(log=log) as driver:
        wait_until(lambda: stage.stored == 100, [driver], log)
        os.killpg(driver.pid, signal.SIGSTOP)
        stage.broker.delete(stage.topic)
        stage.broker.create(stage.topic, 1)
        stage.produce(300)
        os.killpg(driver.pid, signal.SIGCONT)
        wait_until(lambda: stage.stored >= 400, [driver], log)
    stage.ingest()
    stage.check()


def test_topics_come_and_go(stage: KafkaStage) -> None:
    """Add a topic whose first records are gone, leave it out, and read it again: its records are stored once."""
    other = f"{stage.topic}-other"
    stage.configure(f'{JSON}, start = "latest"')
    stage.broker.create(stage.topic, 1)
    stage.ingest()
    stage.produce(10)
    stage.ingest()
    stage.broker.create(other, 2)
    stage.produce(30, 0, other)
    stage.produce(20, 1, other)
    stage.broker.delete_before(other, 0, 5)
    only, stage.selected = stage.selected, f'topic_pattern = "{stage.topic}.*"'
    stage.configure(f'{JSON}, start = "latest"')
    stage.ingest()
    expected = stage.rows[:10] + stage.rows[15:]
    stage.check(expected)
    stage.selected = only
    stage.configure()
    stage.produce(10)
    stage.ingest()
    stage.produce(10, 1, other)
    stage.selected = f'topic = ["{other}", "{stage.topic}"]'
    stage.configure()
    stage.ingest()
    stage.check(expected + stage.rows[-20:])
    stage.selected = f'topic_pattern = "{stage.topic}.*"'
    stage.broker.delete(other)
    stage.configure()
    assert f"the topic {other} was deleted" in stage.ingest_error()
    stage.configure(f'{JSON}, on_data_loss = "continue"')
    stage.ingest()
    stage.configure()
    stage.ingest()
    stage.check(expected + stage.rows[-20:])


def test_assigned_partitions_change(stage: KafkaStage) -> None:
    stage.broker.create(stage.topic, 2)
    for partitions in ("[0, 1]", "[0]", "[0, 1]"):
        stage.produce(10, 0)
        stage.produce(10, 1)
        stage.selected = 'start = "earliest"'
        stage.configure(options=f"{QUICK}, assign = '{{\"{stage.topic}\": {partitions}}}'")
        stage.ingest()
    stage.check()


@pytest.mark.parametrize("name", ["offsets", "commits", "metadata"])
def test_a_checkpoint_is_torn(stage: KafkaStage, name: str) -> None:
    stage.configure()
    stage.broker.create(stage.topic, 1)
    stage.produce(10)
    stage.ingest()
    checkpoint = stage.store / "_quantide" / "checkpoints" / "c0"
    torn = checkpoint / name if name == "metadata" else checkpoint / name / "0"
    torn.write_bytes(torn.read_bytes()[:-7])
    stage.produce(10)
    assert "is lost, damaged, or older than the store" in stage.ingest_error()
    stage.ingest("--reset")
    stage.check()


def test_bad_records_stop_the_stream_if_it_is_configured_so(stage: KafkaStage) -> None:
    stage.configure(JSON, 'value = "ms"\nbad_records = "fail"')
    stage.broker.create(stage.topic, 1)
    stage.broker.produce(stage.topic, [b"{oops"])
    assert "1 bad records (the record is not JSON)" in stage.ingest_error()


def test_the_checkpoint_of_an_object_store_is_lost(
    stage: KafkaStage, s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine continues after the offsets that the store has."""
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    stage.configure(SMALL)
    stage.config.write_text(stage.config.read_text().replace('store = "data"\n', configure_store(s3_store)))
    stage.broker.create(stage.topic, 2)
    stage.produce(1000)
    stage.ingest(QUANTIDE_STATE=str(stage.folder / "one"))
    stage.produce(500)
    stage.ingest(QUANTIDE_STATE=str(stage.folder / "other"))
    stage.check()


@pytest.mark.slow
def test_a_second_driver_is_refused(stage: KafkaStage) -> None:
    """The second driver of one stream ingests nothing, and the first one continues."""
    stage.configure()
    stage.broker.create(stage.topic, 2)
    stage.produce(100)
    log = stage.next_log()
    with stage.driver(log=log):
        wait_until(lambda: stage.stored == 100, [], log)
        stage.produce(100)
        assert "is being written by" in stage.ingest_error()
        wait_until(lambda: stage.stored == 200, [], log)
    stage.ingest()
    stage.check()


def test_brokers_that_do_not_answer_are_named(stage: KafkaStage) -> None:
    stage.configure()
    stage.config.write_text(stage.config.read_text().replace(stage.broker.servers, "127.0.0.1:1"))
    assert "the Kafka brokers 127.0.0.1:1 do not answer" in stage.ingest_error()


def test_a_topic_that_does_not_exist_is_named(stage: KafkaStage) -> None:
    stage.configure()
    wait_for(lambda: not stage.broker.partitions(stage.topic), "there is no such topic")
    assert "do not have the topic" in stage.ingest_error()
