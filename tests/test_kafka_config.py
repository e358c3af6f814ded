"""Settings of a Kafka source: every mistake is named with its key and the fix, and secrets are never shown."""

from pathlib import Path

import pytest

from quantide.config import Config, Decode, read_config
from quantide.errors import ConfigError

SOURCE = 'format = "kafka", servers = "a:9092,b:9092", topic = "latency"'
JSON = 'decode = { format = "json", schema = "ms DOUBLE" }'


def read(tmp_path: Path, source: str) -> Config:
    (tmp_path / "quantide.toml").write_text(f'store = "data"\n[streams.s]\nsource = {{ {source} }}\nvalue = "ms"\n')
    return read_config(tmp_path / "quantide.toml")


def test_servers_topics_and_decoding(tmp_path: Path) -> None:
    source = read(tmp_path, f"{SOURCE}, {JSON}").streams["s"].source
    assert source.options == {"kafka.bootstrap.servers": "a:9092,b:9092", "subscribe": "latency"}
    assert source.decode == Decode("json", "ms DOUBLE")
    assert (source.start, source.on_data_loss) == ("earliest", "fail")
    several = read(tmp_path, SOURCE.replace('"latency"', '["a", "b"]')).streams["s"].source
    assert several.options["subscribe"] == "a,b"
    pattern = read(tmp_path, SOURCE.replace('topic = "latency"', 'topic_pattern = "l.*"')).streams["s"].source
    assert pattern.options["subscribePattern"] == "l.*"
    (tmp_path / "r.avsc").write_text('"double"')
    avro = read(tmp_path, SOURCE + ', decode = { format = "avro", schema_file = "r.avsc" }').streams["s"].source
    assert avro.decode == Decode("avro", '"double"')


def test_secrets_come_from_the_environment_and_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAAS", "hidden-password")
    options = 'options = { "kafka.sasl.jaas.config" = "env:JAAS", "kafka.sasl.mechanism" = "PLAIN" }'
    config = read(tmp_path, f"{SOURCE}, {options}")
    source = config.streams["s"].source
    assert source.options["kafka.sasl.jaas.config"] == "hidden-password"
    assert source.secrets == ["hidden-password"]
    assert "hidden" not in repr(config)
    with pytest.raises(ConfigError) as failure:
        read(tmp_path, SOURCE + ', options = { "kafka.ssl.key.password" = "hidden" }')
    assert "KAFKA_SSL_KEY_PASSWORD" in str(failure.value)
    assert "hidden" not in str(failure.value)
    with pytest.raises(ConfigError, match="NOWHERE is not set"):
        read(tmp_path, SOURCE + ', options = { "kafka.ssl.key.password" = "env:NOWHERE" }')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('format = "kafka", topic = "a"', "source.servers is missing; add servers"),
        ('format = "kafka", servers = "broker"', "source.servers is .broker.; write host:port"),
        ('format = "kafka", servers = "a:1"', "source.topic is missing; add topic"),
        (SOURCE + ', topic_pattern = "x"', "source.topic and streams.s.source.topic_pattern both select"),
        (SOURCE + ', options = { subscribe = "x" }', "both select topics"),
        (SOURCE + ', options = { "kafka.bootstrap.servers" = "x:1" }', "are the same setting"),
        (SOURCE + ", options = { maxOffsetsPerTrigger = 5 }", "is set by streams.s.source.max_rows"),
        (SOURCE + ', on_data_loss = "ignore"', 'write one of "fail", "continue"'),
        (SOURCE + ', start = "begin"', 'start is "begin": give "earliest", "latest", or offsets in JSON by topic'),
        (SOURCE + ', start = "{}"', r"such as '{.latency.:{.0.:17}}' \(it has no offsets\)"),
        (SOURCE + ', start = "begin"', 'Write it as start = "earliest"'),
        (SOURCE.replace('"latency"', "[]"), 'source.topic is .*; write "latency"'),
        (SOURCE + ", decode = { }", "source.decode.format is missing"),
        (SOURCE + ', decode = { format = "jsn" }', 'did you mean "json"'),
        (SOURCE + ', decode = { format = "json" }', "source.decode.schema is missing"),
        (SOURCE + ', decode = { format = "avro" }', "source.decode needs an Avro schema|needs the Avro schema"),
        (SOURCE + ', decode = { format = "avro", schema = "{" }', "source.decode.schema is not JSON"),
        (SOURCE + ', decode = { format = "avro", schema_file = "no" }', "source.decode.schema_file: there is no file"),
        (SOURCE + ', decode = { format = "protobuf", message = "m" }', "descriptor_file is missing"),
        (SOURCE + ', decode = { format = "number", message = "m" }', 'of no use with format = "number"'),
        (SOURCE + ', decode = { format = "number", schema = "m" }', 'of no use with format = "number"'),
        (SOURCE + ', decode = { format = "number", headers = "m" }', "headers is .m.; write a list"),
        (SOURCE + ', decode = { format = "number", headers = ["kafka_key"] }', "kafka_key is there already"),
        (SOURCE + ', decode = { format = "number", shema = "x" }', "is not a setting"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, source)
