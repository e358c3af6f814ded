"""LiveStream: a reader that follows a store and answers questions about history and windows."""

from quantide.live.live_answer import LiveAnswer, LiveBand, LiveComparison
from quantide.live.live_stream import LiveStream

__all__ = ["LiveAnswer", "LiveBand", "LiveComparison", "LiveStream"]
