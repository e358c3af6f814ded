"""Bulk loads: a batch is loaded once, and only while the load is open."""

from pathlib import Path

import numpy as np
import pytest

from quantide import History
from quantide.errors import InvalidArgumentError
from quantide.history.appended_rows import ParquetPiece
from quantide.history.bulk_load import BulkLoad, write_chunks
from quantide.summary.value_column import read_column


def load_values(load: BulkLoad, count: int) -> int:
    names = load.reserve(1)
    piece = ParquetPiece(None, read_column(np.arange(float(count))), None)
    return load.commit(names, write_chunks(names, 0, [piece], "refuse"))


def test_a_repeated_batch_is_refused(tmp_path: Path) -> None:
    with History(tmp_path / "s") as history:
        with history.bulk_load(batch_id="b1") as load:
            assert not load.is_repeat
            assert load_values(load, 10) == 10
        with history.bulk_load(batch_id="b1") as repeat:
            assert repeat.is_repeat
            with pytest.raises(InvalidArgumentError, match="in the table already"):
                load_values(repeat, 10)
        assert history.n == 10


def test_a_load_that_has_ended_is_refused(tmp_path: Path) -> None:
    with History(tmp_path / "s") as history:
        with history.bulk_load() as load:
            pass
        with pytest.raises(InvalidArgumentError, match="has ended"):
            load_values(load, 10)
        assert history.n == 0
