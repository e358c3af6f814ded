"""One broker for all tests here, and a topic of its own for each test."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.kafka.broker import Broker, missing, running_broker
from tests.kafka.kafka_stage import KafkaStage


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def stage(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> KafkaStage:
    """A topic, and a stream that reads it."""
    return KafkaStage(broker, tmp_path, f"latency-{crc32(request.node.nodeid.encode())}")
