"""Configuration of streams and server: a TOML file, checked completely before anything starts."""

from quantide.config.config_file import read_config
from quantide.config.kafka_source import Decode
from quantide.config.server_config import Limits, ServerConfig, Webhooks
from quantide.config.stream_config import Config, PushSettings, Source, Step, StreamConfig

__all__ = [
    "Config",
    "Decode",
    "Limits",
    "PushSettings",
    "ServerConfig",
    "Source",
    "Step",
    "StreamConfig",
    "Webhooks",
    "read_config",
]
