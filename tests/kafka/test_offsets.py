"""Start of a stream: after its stored offsets; offsets that the brokers deleted are counted as lost."""

from dataclasses import replace
from fractions import Fraction

import pytest

from quantide.config import Config, Decode, ServerConfig, Source, StreamConfig
from quantide.errors import ConfigError, DataLossError
from quantide.spark.kafka_connector import JARS_VARIABLE, choose_version, connector_conf, connector_error
from quantide.spark.stream.kafka_offsets import (
    NO_ID,
    BrokerTopic,
    StartPlan,
    can_continue,
    check_start,
    count_between,
    format_offsets,
    merge_offsets,
    parse_offsets,
    plan_start,
)

IDS = {"t": "one"}
STREAM = StreamConfig("s", "data/s", Source("kafka"), "v", window=Fraction(60))


def topics(**partitions: tuple[int, int]) -> dict[str, BrokerTopic]:
    return {"t": BrokerTopic("one", {int(name[1:]): ends for name, ends in partitions.items()})}


def plan(stored: str, now: dict[str, BrokerTopic], start: str = "earliest") -> StartPlan:
    return plan_start(start, parse_offsets(stored), IDS, now)


def test_a_new_stream_begins_where_it_is_configured_to() -> None:
    now = topics(p0=(3, 9), p1=(0, 4))
    assert plan("", now).offsets == {"t": {0: 3, 1: 0}}
    assert plan("", now, "latest").offsets == {"t": {0: 9, 1: 4}}
    assert plan("", now, '{"t":{"0":5,"1":-1}}').offsets == {"t": {0: 5, 1: 4}}
    assert plan("", now, '{"t":{"0":-2}}').offsets == {"t": {0: 3, 1: 0}}


def test_a_stream_continues_after_its_offsets_and_reads_new_partitions_from_their_beginning() -> None:
    continued = plan('{"t":{"0":5}}', topics(p0=(0, 9), p1=(2, 4)), "latest")
    assert continued.offsets == {"t": {0: 5, 1: 2}}
    assert (continued.lost, continued.reasons, continued.topics) == (0, (), IDS)
    assert plan('{"t":{"0":9}}', topics(p0=(9, 9))).reasons == ()


def test_offsets_that_retention_removed_are_counted() -> None:
    late = plan('{"t":{"0":5,"1":3}}', topics(p0=(12, 20), p1=(4, 4)))
    assert (late.offsets, late.lost) == ({"t": {0: 12, 1: 4}}, 8)
    with pytest.raises(
        DataLossError, match=r"8 offsets are lost.*t-0 begins at offset 12.*continues at 5.*on_data_loss"
    ):
        late.check(STREAM)
    late.check(StreamConfig("s", "data/s", Source("kafka", on_data_loss="continue"), "v"))


@pytest.mark.parametrize(
    "now",
    [
        BrokerTopic("two", {0: (0, 900), 1: (0, 900)}),  # with more records than were ever read
        BrokerTopic(NO_ID, {0: (0, 2), 1: (0, 3)}),  # of a broker without ids
        BrokerTopic(NO_ID, {0: (0, 5)}),
    ],
)
def test_a_topic_that_was_made_again_is_read_from_its_beginning(now: BrokerTopic) -> None:
    ids = {"t": NO_ID if now.id == NO_ID else "one"}
    again = plan_start("earliest", parse_offsets('{"t":{"0":5,"1":3}}'), ids, {"t": now})
    assert again.offsets == {"t": dict.fromkeys(now.partitions, 0)}
    assert (again.lost, again.replaced) == (0, frozenset({"t"}))
    with pytest.raises(DataLossError, match="the topic t was deleted and made again"):
        again.check(STREAM)


def test_a_log_that_lost_its_end_is_not_read_again() -> None:
    """The id shows that it is the same topic: its first records are in the store."""
    shorter = plan('{"t":{"0":5,"1":3}}', topics(p0=(0, 2), p1=(0, 3)))
    assert (shorter.offsets, shorter.lost, shorter.replaced) == ({"t": {0: 2, 1: 3}}, 0, frozenset())
    with pytest.raises(DataLossError, match="t-0 ends at offset 2, and the store continues at 5"):
        shorter.check(STREAM)


def test_partitions_that_are_not_assigned_any_more_keep_their_offsets() -> None:
    stored = parse_offsets('{"t":{"0":5,"1":3}}')
    fewer = plan_start("earliest", stored, IDS, topics(p0=(0, 9)))
    assert (fewer.offsets, fewer.reasons) == ({"t": {0: 5}}, ())
    assert merge_offsets(stored, {"t": {0: 9}, "u": {0: 1}}) == {"t": {0: 9, 1: 3}, "u": {0: 1}}


@pytest.mark.parametrize("start", ["earliest", "latest", '{"t":{"0":2}}'])
def test_a_topic_that_is_new_in_a_stream_is_read_from_its_beginning(start: str) -> None:
    now = {**topics(p0=(0, 9)), "new": BrokerTopic("two", {0: (4, 8)})}
    assert plan('{"t":{"0":5}}', now, start).offsets == {"t": {0: 5}, "new": {0: 4}}
    given = plan('{"t":{"0":5}}', now, '{"new":{"0":6}}')
    assert (given.offsets["new"], given.reasons) == ({0: 6}, ())


def test_offsets_to_start_with_that_are_gone_are_lost() -> None:
    late = plan("", topics(p0=(12, 20)), '{"t":{"0":5}}')
    assert (late.offsets, late.lost) == ({"t": {0: 12}}, 7)


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ('{"t":{"0":21}}', "offset 21 of t-0, which ends at 20"),
        ('{"t":{"1":3}}', "offsets of t-1, which the stream does not read; there are t-0"),
        ('{"other":{"0":3}}', "offsets of other-0, which the stream does not read"),
    ],
)
def test_offsets_to_start_with_are_those_of_the_topics(start: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_start(replace(STREAM, source=Source("kafka", start=start)), topics(p0=(0, 20)))


def test_offsets_to_start_with_may_be_first_and_last() -> None:
    for start in ("latest", '{"t":{"0":20}}', '{"t":{"0":-1}}', '{"t":{"0":-2}}'):
        check_start(replace(STREAM, source=Source("kafka", start=start)), topics(p0=(0, 20)))


@pytest.mark.parametrize(
    ("checkpoint", "planned", "can"),
    [
        ({}, {"t": {0: 5}}, True),
        ({"t": {0: 7}}, {"t": {0: 5}}, True),  # a batch that was not committed is repeated
        ({"t": {0: 7}}, {"t": {0: 5, 1: 0}, "new": {0: 0}}, True),
        ({"t": {0: 7}}, {"t": {0: 5, 1: 3}}, False),  # Spark would read the partition from 0
        ({"t": {0: 7}}, {"t": {0: 5}, "again": {0: 9}}, False),
        ({"t": {0: 7, 1: 3}}, {"t": {0: 5}}, False),
        ({"t": {0: 7}, "former": {0: 1}}, {"t": {0: 5}}, False),
    ],
)
def test_a_checkpoint_continues_if_spark_reads_what_is_planned(
    checkpoint: dict[str, dict[int, int]], planned: dict[str, dict[int, int]], can: bool
) -> None:
    assert can_continue(checkpoint, planned) is can


def test_offsets_are_written_as_spark_reads_them() -> None:
    assert format_offsets({"t": {0: 5}}) == '{"t": {"0": 5}}'
    assert count_between(parse_offsets('{"t":{"0":5}}'), parse_offsets('{"t":{"0":7,"1":3}}')) == 5


def config(spark: dict[str, str], decode: str = "json", form: str = "kafka") -> Config:
    stream = StreamConfig("s", "data/s", Source(form, decode=Decode(decode)), "v")
    return Config("quantide.toml", "data", {"s": stream}, ServerConfig("data/_server"), spark)


def test_the_connector_is_added_once(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    name = "spark.jars.packages"
    assert connector_conf(config({}, form="rate")) == {}
    assert connector_conf(config({name: "org.example:one:1"}))[name].startswith(
        "org.example:one:1,org.apache.spark:spark-sql-kafka-0-10_2.13:"
    )
    assert "spark-avro" in connector_conf(config({}, "avro"))[name]
    assert connector_conf(config({"spark.jars": "/opt/spark-sql-kafka-0-10_2.13-4.1.0.jar"})) == {}
    folder = tmp_path_factory.mktemp("jars")
    (folder / "one.jar").touch()
    monkeypatch.setenv(JARS_VARIABLE, str(folder))
    assert connector_conf(config({"spark.jars": "/a.jar"})) == {"spark.jars": f"/a.jar,{folder}/one.jar"}


def test_a_connector_that_cannot_be_fetched_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    error = connector_error(config({}), "[JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert error is not None
    assert all(word in str(error) for word in ("spark-sql-kafka-0-10_2.13", "spark.jars.ivySettings", JARS_VARIABLE))
    assert connector_error(config({}, form="rate"), "[JAVA_GATEWAY_EXITED]") is None
    assert connector_error(config({}), "the port is in use") is None
    assert choose_version("5.0.0.dev1") == "4.2.0"
