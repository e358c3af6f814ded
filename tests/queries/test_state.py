"""A monitor as bytes: it continues exactly, and foreign bytes are rejected."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest

from quantide import Monitor, Summary, errors
from tests.queries import query_model


def made(kind: str, rng: np.random.Generator) -> Monitor:
    monitor = Monitor(0.01, value_type="int64" if kind == "integers" else None, nan="skip")
    if kind == "empty":
        return monitor
    ids = monitor.register_many(1 - rng.random(30), rng.uniform(0.01, 0.1, 30))
    monitor.watch(0.5, 0.02, above=3)
    if kind == "few":
        monitor.update(rng.random(20))
        monitor.changes()
        return monitor
    monitor.update(rng.integers(0, 50, 5000))
    monitor.changes()
    if kind == "fed":
        monitor.update_summary(Summary.of(rng.integers(0, 99, 400)))
    monitor.drop_many(ids[::3])
    monitor.register_many(1 - rng.random(5), 0.03)
    monitor.update(rng.integers(0, 50, 77))
    return monitor


KINDS = ("empty", "few", "integers", "fed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("updates", ["triggers", "together"])
def test_a_monitor_continues_exactly(kind: str, updates: str, rng: np.random.Generator) -> None:
    first = made(kind, rng)
    first._evaluator.updates = updates
    second = Monitor.from_bytes(first.to_bytes())
    assert second.to_bytes() == first.to_bytes()
    for size in (1, 30, 700, 9000, 3):
        block = rng.integers(0, 80, size) if kind != "few" else rng.random(size)
        published = []
        for monitor in (first, second):
            monitor.update(block)
            new = monitor.register(0.3, 0.02)
            changes = monitor.changes()
            published.append((changes.ids.tolist(), changes.values.tolist(), changes.conditions, new))
        assert published[0] == published[1]
        assert second.to_bytes() == first.to_bytes()


def test_a_limit_may_be_given_before_the_first_value() -> None:
    monitor = Monitor(0.01)
    one = monitor.watch(0.5, 0.02, above=300)
    monitor = Monitor.from_bytes(monitor.to_bytes())
    monitor.update(np.arange(1000))
    assert monitor.condition(one) == "certain"
    monitor = Monitor(0.01)
    monitor.watch(0.5, 0.02, above=np.datetime64("2020-01-01"))
    with pytest.raises(errors.InvalidArgumentError, match="value_type"):
        monitor.to_bytes()


def test_values_beyond_all_counts_are_refused_after_bytes_too() -> None:
    half = Summary.of(np.arange(4.0))
    while half.n < 2**52:
        half = Summary.merge(half, half).compress(400)
    monitor = Monitor(0.1)
    monitor.update_summary(half)
    monitor.update_summary(half)
    for restored in (monitor, Monitor.from_bytes(monitor.to_bytes())):
        with pytest.raises(errors.CountOverflowError):
            restored.update(1.0)
        assert restored.n == 2**53


def test_float32_before_and_after_something_was_published() -> None:
    monitor = Monitor(0.01)
    one = monitor.register(0.5, 0.02)
    monitor.watch(0.5, 0.02, above=1.5)
    monitor.update(np.arange(5, dtype=np.float32))
    for _ in range(2):
        monitor = Monitor.from_bytes(monitor.to_bytes())
        monitor.changes()
    assert monitor.answer(one).value == np.float32(2)


def test_listeners_are_given_back_by_listen() -> None:
    monitor = Monitor(0.01)
    one = monitor.register(0.5, 0.02, on_change=print)
    monitor = Monitor.from_bytes(monitor.to_bytes())
    heard: list[Any] = []
    monitor.listen(one, lambda *news: heard.append(news))
    monitor.update([1.0, 2.0, 3.0])
    assert heard == [(one, 2.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_were_altered_are_refused(kind: str, rng: np.random.Generator) -> None:
    blob = made(kind, rng).to_bytes()
    for length in {0, 3, len(blob) // 2, len(blob) - 1}:
        with pytest.raises(errors.CorruptBytesError):
            Monitor.from_bytes(blob[:length])
    for place in rng.integers(0, len(blob), 200):
        altered = bytearray(blob)
        altered[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(errors.CorruptBytesError):
            Monitor.from_bytes(bytes(altered))


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_bytes_are_refused_or_harmless(kind: str, rng: np.random.Generator) -> None:
    """Hostile bytes with a correct checksum are refused by name, or read as a monitor with valid indexes."""
    blob = made(kind, rng).to_bytes()
    for _ in range(600):
        altered = bytearray(blob)
        for _ in range(int(rng.integers(1, 4))):
            place, size = int(rng.integers(3, len(blob) - 4)), int(rng.choice([1, 1, 8]))
            altered[place : place + size] = rng.bytes(size) if rng.random() < 0.7 else b"\xff" * size
        body = bytes(altered[:-4])
        try:
            monitor = Monitor.from_bytes(body + struct.pack("<I", zlib.crc32(body)))
        except errors.CorruptBytesError:
            continue
        clusters = monitor._evaluator.clusters
        if clusters is not None:
            assert [fault for fault in query_model.clusters_faults(monitor) if "in cluster" not in fault] == []
        monitor.update([1, 2, 3])
        assert len(monitor.changes()) <= len(monitor)
