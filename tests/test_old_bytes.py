"""Bytes that versions 0.1 and 0.2 (names with a 2) wrote are read, and the sketches go on within their promise."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import GKSketch, Monitor, RecentWindow, SlidingWindow, StreamSketch, Summary
from tests.oracle import wrong_answers

STORED = json.loads((Path(__file__).parent / "old_bytes.json").read_text())
CLASSES: dict[str, Any] = {
    "stream": StreamSketch,
    "gk": GKSketch,
    "sliding": SlidingWindow,
    "recent": RecentWindow,
    "summary": Summary,
    "monitor": Monitor,
}
PHIS = [0.01, 0.25, 0.5, 0.9, 0.99, 1.0]


def restored(name: str) -> Any:
    return CLASSES[name.partition(" ")[0]].from_bytes(zlib.decompress(base64.b64decode(STORED[name]["bytes"])))


@pytest.mark.parametrize("name", sorted(name for name in STORED if "n" in STORED[name]))
def test_old_bytes_are_read(name: str) -> None:
    sketch, stored = restored(name), STORED[name]
    assert sketch.n == stored["n"]
    summary = sketch if isinstance(sketch, Summary) else sketch.summary()
    if name.startswith(("stream", "monitor")):  # they have another structure now: answers may differ within eps
        assert summary.error <= stored["eps"]
    else:
        assert [float(x) for x in summary.quantiles(PHIS)] == stored["values"]


@pytest.mark.parametrize("name", ["stream float64 60000", "stream float64 1500", "stream 2 float64 60000"])
def test_a_restored_stream_goes_on(name: str) -> None:
    """The values behind the stored bytes are known, so every answer is compared with the truth."""
    sketch, n = restored(name), STORED[name]["n"]
    values = (np.arange(n, dtype=np.int64) * 2654435761 + 97) % 1000003
    more = np.arange(30_000.0)
    sketch.update(more)
    again = StreamSketch.from_bytes(sketch.to_bytes())
    everything = np.sort(np.concatenate((values.astype(np.float64), more)))
    phis = np.linspace(0.001, 1, 333)
    assert not wrong_answers(everything, again.quantiles(phis), phis, 0.05)
    assert again.to_bytes() == sketch.to_bytes()


def test_an_empty_one() -> None:
    sketch = restored("stream empty")
    sketch.update([1.0])
    assert (sketch.n, sketch.quantile(1)) == (1, 1.0)
