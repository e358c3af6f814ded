"""Prometheus HTTP API: a small part of PromQL, series of streams, and their JSON."""
