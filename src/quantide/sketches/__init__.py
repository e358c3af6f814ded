"""Sketches of whole growing streams: StreamSketch (fast) and GKSketch (the classic baseline)."""
