"""Streams on Spark: data that keeps arriving becomes history, every value exactly once."""
