"""Summaries of whole growing streams: StreamSketch, the fast one, and GKSketch, the classic."""
