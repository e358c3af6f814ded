"""Ingestion with Spark Structured Streaming: data that arrives becomes history, every value exactly once."""
