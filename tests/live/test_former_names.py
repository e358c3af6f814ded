"""Former names of public methods work for one more release."""

from pathlib import Path

import numpy as np

from quantide import History
from quantide.live import LiveStream


def test_former_names_of_a_live_stream(tmp_path: Path) -> None:
    with History(tmp_path / "s") as history:
        history.append(np.arange(100.0))
    with LiveStream(tmp_path / "s", follow=False) as live:
        live.answer(0.5, last=10)
        assert live.at_hand([0.5], last=10) == live.is_cached([0.5], last=10)
        assert live.trouble is None
        old, new = live.course([0.5], "1 min", "5 min", 3), live.time_series([0.5], "1 min", "5 min", 3)
        assert (old.n, old.lines) == (new.n, new.lines)
