"""Stores that earlier versions wrote are read, answered within their promise, and continued."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from quantide import History
from quantide.errors import SettingsError
from quantide.typing import Floats
from tests.oracle import wrong_answers

GOLDEN = Path(__file__).parent / "golden" / "stores-0.2.tar.xz"
EPS = 0.05
PHIS = np.linspace(0.001, 1, 200)


def values(n: int) -> Floats:
    return ((np.arange(n, dtype=np.int64) * 2654435761 + 97) % 1000003).astype(np.float64)


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.mark.parametrize("mode", ["accurate", "quick"])
def test_a_store_of_version_0_2(stores: Path, mode: str) -> None:
    expected = np.sort(np.concatenate([*(values(4000 + k) + k for k in range(5)), values(1000)]))
    with History(stores / "store") as history:
        assert history.n == len(expected)
        assert history.tail is None
        assert not wrong_answers(expected, history.quantiles(PHIS, mode=mode), PHIS, EPS)
        history.append(np.full(2000, -1.0))
        history.end_step()
        expected = np.sort(np.concatenate((expected, np.full(2000, -1.0))))
        assert not wrong_answers(expected, history.quantiles(PHIS, mode=mode), PHIS, EPS)


def test_a_store_with_keys_of_version_0_2(stores: Path) -> None:
    with History(stores / "keyed") as history:
        assert history.n == 9000
        for key in range(3):
            expected = np.sort(np.concatenate([values(3000)[key::3] + k for k in range(3)]))
            assert not wrong_answers(expected, history.quantiles(PHIS, key=key), PHIS, EPS)


def test_a_store_without_a_tail_stays_so(stores: Path) -> None:
    with pytest.raises(SettingsError, match="tail=None"):
        History(stores / "store", tail=0.1)
    with History(stores / "store", eps=EPS, max_ahead="2 hours") as history:
        history.append([1.0])  # a commit of the changed setting, in the present version
    with History(stores / "store") as history:
        assert (history.tail, history.settings.max_ahead) == (None, "7200")
        assert history.span_view().quick.tail is None
