"""LiveStream: a reader that follows a store and answers queries about history and windows."""

from quantide.live.live_stream import LiveStream
from quantide.live.live_view import LiveAnswer, LiveBand, LiveComparison

__all__ = ["LiveAnswer", "LiveBand", "LiveComparison", "LiveStream"]
