"""Spark's Kafka connector: it is not part of PySpark, so Spark fetches it when a stream reads Kafka.

Maven has a connector for each release of Spark, sometimes weeks later. The rule: the connector of exactly the running
Spark if that is known to be published, otherwise the newest published one that is not newer than Spark.
"""

import glob
import os
from collections.abc import Mapping

import pyspark

from quantide.config import Config
from quantide.errors import ConfigError, ConnectorError

CONNECTOR, AVRO = "spark-sql-kafka-0-10", "spark-avro"
PUBLISHED = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.2.0")  # versions of both that Maven has
JARS_VARIABLE = "QUANTIDE_SPARK_JARS"  # names a folder of jars to use instead
RESOLUTION_FAILURES = ("unresolved dependency", "JAVA_GATEWAY_EXITED", "failed to resolve")


def choose_version(spark: str) -> str:
    """Return the version of the connector for a version of Spark.

    >>> choose_version("4.1.1"), choose_version("4.3.0"), choose_version("4.1.7")
    ('4.1.1', '4.2.0', '4.1.1')
    """
    if spark in PUBLISHED:
        return spark
    return max((known for known in PUBLISHED if _numbers(known) <= _numbers(spark)), key=_numbers, default=PUBLISHED[0])


def connector_conf(config: Config) -> dict[str, str]:
    """Return settings of Spark that add the connector; none if no stream reads Kafka, or if it is there already."""
    streams = [stream for stream in config.streams.values() if stream.source.is_kafka]
    if not streams:
        return {}
    modules = [CONNECTOR]
    if any(stream.source.decode is not None and stream.source.decode.format == "avro" for stream in streams):
        modules.append(AVRO)
    folder = os.environ.get(JARS_VARIABLE)
    if folder:
        return {"spark.jars": _join(config.spark.get("spark.jars"), _jars_in(folder))}
    missing = [module for module in modules if not has_module(config.spark, module)]
    if not missing:
        return {}
    version = choose_version(pyspark.__version__)
    packages = [f"org.apache.spark:{module}_2.13:{version}" for module in missing]
    return {"spark.jars.packages": _join(config.spark.get("spark.jars.packages"), packages)}


def has_module(spark: Mapping[str, str], module: str) -> bool:
    """Return True if the user's settings, or the jars of Spark itself, have a module of the connector."""
    names = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
    if any(module in spark.get(name, "") for name in names):
        return True
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    return bool(glob.glob(os.path.join(glob.escape(home), "jars", f"{module}_*.jar")))


def connector_error(config: Config, reason: str) -> ConnectorError | None:
    """Return the error for a session that does not start because packages cannot be fetched; None for another cause."""
    packages = connector_conf(config).get("spark.jars.packages")
    if packages is None or not any(text in reason for text in RESOLUTION_FAILURES):
        return None
    return ConnectorError(
        f"Spark does not start: it may not have found the Kafka connector {packages} at Maven Central (its output is "
        'above). Check the network; or name a mirror with [spark] "spark.jars.ivySettings"; or download the jars, '
        f'and name them with [spark] "spark.jars", or their folder with the environment variable {JARS_VARIABLE}'
    )


def _jars_in(folder: str) -> list[str]:
    jars = sorted(glob.glob(os.path.join(glob.escape(folder), "*.jar")))
    if not jars:
        raise ConfigError(f"{JARS_VARIABLE} is {folder}, which has no jar; name a folder with the connector's jars")
    return jars


def _join(before: str | None, added: list[str]) -> str:
    """Join names with commas, the user's first."""
    return ",".join([*([before] if before else []), *added])


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without the end of such as 4.3.0.dev1."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
