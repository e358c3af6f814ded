"""Checks of a store against the values that were acknowledged: each is there once, and answers are right."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from quantide import History
from quantide.config import StreamConfig
from quantide.history.span_view import MODES
from quantide.live import LiveStream
from tests.oracle import bound_faults, exact_quantile
from tests.spark.push_clients import stored_values

PHIS = (0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0)


class StreamCheck(NamedTuple):
    """Figures of a stream whose store is right."""

    source: str
    acknowledged: int
    stored: int
    lost: int
    doubled: int
    answers: int
    worst_error: float

    def describe(self) -> str:
        return (
            f"{self.source}: {self.acknowledged:,} acknowledged, {self.stored:,} stored, {self.lost:,} lost, "
            f"{self.doubled:,} doubled; {self.answers} answers within their bounds"
        )


def check_stream(name: str, stream: StreamConfig, acknowledged: Sequence[int]) -> StreamCheck:
    """Check that every acknowledged value is stored once, and nothing else is; then answers of every mode."""
    options = dict(stream.storage_options) or None
    stored, expected = Counter(stored_values(stream.folder, options)), set(acknowledged)
    lost, doubled = expected - stored.keys(), [value for value, count in stored.items() if count > 1]
    others = stored.keys() - expected
    assert not lost, f"{name}: lost {len(lost):,}: {sorted(lost)[:20]}"
    assert not doubled, f"{name}: doubled {len(doubled):,}: {sorted(doubled)[:20]}"
    assert not others, f"{name}: never acknowledged {len(others):,}: {sorted(others)[:20]}"
    data, worst = np.sort(np.array(acknowledged, dtype=np.int64)), 0.0
    with History(stream.folder, storage_options=options) as history:
        assert history.verify().values == len(data), f"{name}: {history.verify()} of {len(data):,} values"
    with LiveStream(stream.folder, follow=False, storage_options=options) as live:
        for phi, mode in product(PHIS, MODES):
            answer = live.answer(phi, mode=mode)
            faults = bound_faults(data, answer)
            assert not faults, f"{name}: the answer of mode {mode!r} for {phi} is wrong: {', '.join(faults)}"
            assert mode != "exact" or answer.value == exact_quantile(data, phi), f"{name}: {answer} is not exact"
            worst = max(worst, answer.error)
    answers = len(PHIS) * len(MODES)
    return StreamCheck(name, len(expected), stored.total(), len(lost), len(doubled), answers, worst)
