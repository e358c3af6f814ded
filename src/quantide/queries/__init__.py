"""Continuous queries: very many quantiles of a stream, each with its own precision, evaluated only when due."""
