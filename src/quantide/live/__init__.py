"""A reader that follows a store and answers everything: LiveStream."""

from quantide.live.answer import LiveAnswer, LiveBand, LiveComparison
from quantide.live.stream import LiveStream

__all__ = ["LiveAnswer", "LiveBand", "LiveComparison", "LiveStream"]
