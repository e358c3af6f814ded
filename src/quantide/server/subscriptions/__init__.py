"""Continuous queries: registration, storage, evaluation and encoding of changes."""
