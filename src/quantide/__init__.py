"""Quantiles of data that never stops arriving, with a proved error for every answer."""

from quantide import errors
from quantide.sketches.gk import GKSketch
from quantide.sketches.stream import StreamSketch
from quantide.summary.answer import Answer
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary

__version__ = "0.1.0"
__all__ = ["Answer", "GKSketch", "StreamSketch", "Summaries", "Summary", "errors"]
