"""Checks of Kafka sources: brokers accept connections, and Spark has a connector or will fetch one."""

import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec

from quantide.config import Config, StreamConfig
from quantide.config.kafka_source import SERVERS
from quantide.doctor.finding import FAILED, OK, Finding
from quantide.errors import ConfigError

TIMEOUT = 3.0  # seconds for a connection


def check_kafka(config: Config | None = None) -> Iterator[Finding]:
    """Check the brokers of each Kafka stream, and where the connector comes from."""
    streams = [] if config is None else [stream for stream in config.streams.values() if stream.source.is_kafka]
    for stream in streams:
        yield check_brokers(stream)
    if streams and config is not None and find_spec("pyspark"):
        yield check_connector(config)


def check_brokers(stream: StreamConfig) -> Finding:
    """Connect to one broker after the other until one accepts; Kafka's own protocol is not spoken."""
    servers = stream.source.options.get(SERVERS, "")
    reasons = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
        except (OSError, ValueError, OverflowError) as error:
            reasons.append(f"{server.strip()}: {error}")
        else:
            return Finding(stream.name, OK, f"the Kafka broker {server.strip()} accepts connections")
    fix = f"start the brokers, or correct source.servers under [{stream.key}]; check firewalls"
    return Finding(stream.name, FAILED, f"no Kafka broker accepts connections: {'; '.join(reasons)}", fix)


def check_connector(config: Config) -> Finding:
    """Say where Spark's Kafka connector comes from."""
    from quantide.spark.kafka_connector import JARS_VARIABLE, connector_conf

    try:
        added = connector_conf(config)
    except ConfigError as error:
        return Finding("kafka", FAILED, str(error), f"correct {JARS_VARIABLE}, or unset it")
    if "spark.jars.packages" in added:
        text = f"Spark will fetch the connector from Maven when it starts: {added['spark.jars.packages']}"
        return Finding("kafka", OK, text)
    folder = os.environ.get(JARS_VARIABLE)
    where = f"in {folder}" if folder else "part of the configuration or of Spark"
    return Finding("kafka", OK, f"the connector is {where}")
