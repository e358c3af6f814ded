"""docs/sources/kafka.md works as it is written, with a real broker."""

import os
import re
from pathlib import Path

import pytest

from quantide.config import read_config
from quantide.spark.kafka_connector import JARS_VARIABLE
from tests.kafka.broker import CONNECTOR, Broker
from tests.task_pages import DOCS, Reader

PAGE = "sources/kafka.md"


@pytest.mark.slow
def test_the_page_can_be_followed(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JARS_VARIABLE, str(CONNECTOR))
    broker.create("latency")
    changed = {"127.0.0.1:9092": broker.servers, "pip install confluent-kafka\n": ""}
    with Reader(tmp_path, changed) as reader:
        assert reader.follow(PAGE) == 4


def test_configurations_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KAFKA_JAAS", "secret")
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    configurations = re.findall(r"^```toml\n(.*?)^```|^cat > kafka.toml <<'END'\n(.*?)^END$", text, re.S | re.M)
    assert len(configurations) == 2
    for parts in configurations:
        (tmp_path / "kafka.toml").write_text("".join(parts))
        assert list(read_config(tmp_path / "kafka.toml").streams) == ["latency"]
