"""The configuration of streams: a TOML file, checked as a whole before anything starts."""

from quantide.config.reader import read_config
from quantide.config.server import Limits, ServerConfig, Webhooks
from quantide.config.stream import Config, Source, Step, StreamConfig

__all__ = ["Config", "Limits", "ServerConfig", "Source", "Step", "StreamConfig", "Webhooks", "read_config"]
