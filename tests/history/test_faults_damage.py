"""Damaged and lost files: verify() names them, no answer is made of damaged bytes, side files come back."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from quantide.errors import CorruptBytesError
from quantide.history import History
from quantide.history.merge import Merge
from tests.history.work import HOSTS, KEYED, SETTINGS, SIDES, Work, active, all_of, check_stored, key_of, small
from tests.oracle import bound_faults, exact_quantile

STORES = {"plain": SETTINGS, "keyed": KEYED}
NUMBERS = range(5)
DATA = all_of(NUMBERS)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with a run of level 1, one of level 0, and a chunk."""
    work = Work(str(tmp_path), STORES[request.param])
    for number in NUMBERS:
        work.append(number)
        if number < NUMBERS[-1]:
            work.step(0)
    work.vacuum(0)
    work.close(0)
    return tmp_path


@contextmanager
def damaged(path: Path, place: int, bit: int) -> Iterator[None]:
    """One bit of a file is another. The file is a new one: what has mapped the old one keeps that."""
    good = path.read_bytes()
    bad = bytearray(good)
    bad[place] ^= 1 << bit
    path.unlink()
    path.write_bytes(bad)
    yield
    path.unlink()
    path.write_bytes(good)


def asked(history: History) -> int:
    """Ask much; how many questions were refused. Those that were not have right answers."""
    refused = 0
    places = product(HOSTS, (0.3, 0.9)) if history.settings.keys else [(None, phi) for phi in (0.02, 0.3, 0.55, 0.8, 1)]
    for (host, phi), mode in product(places, ("quick", "accurate", "exact")):
        data = DATA if host is None else DATA[key_of(DATA) == host]
        try:
            answer = history.answer(phi, mode, key=host)
        except CorruptBytesError:
            refused += 1
        else:
            assert not bound_faults(data, answer)
            assert mode != "exact" or answer.value == exact_quantile(data, phi)
    return refused


def flip(folder: Path, path: Path, place: int, bit: int) -> int:
    before = History(folder)
    assert before.n == len(DATA)
    with damaged(path, place, bit):
        assert asked(before) == 0 or path.suffix == ".parquet"
        history = History(folder)
        for one in (history, before):
            with pytest.raises(CorruptBytesError, match=path.name):
                one.verify()
        return asked(history)


@pytest.mark.parametrize("kind", ["data", "side"])
def test_a_flipped_bit(kind: str, folder: Path, rng: np.random.Generator) -> None:
    refused = 0
    for path in active(folder)[kind == "side"]:
        refused += flip(folder, path, int(rng.integers(path.stat().st_size)), int(rng.integers(8)))
    if kind == "data":
        refused += flip(folder, path, path.read_bytes().index(b"value"), 7)  # a name that is no text any more
    assert refused
    assert (History(folder).verify().values, asked(History(folder))) == (len(DATA), 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["data", "side"])
def test_every_byte(kind: str, folder: Path, rng: np.random.Generator) -> None:
    for path in (active(folder)[kind == "side"][0], active(folder)[kind == "side"][-1]):
        for place in range(path.stat().st_size):
            flip(folder, path, place, int(rng.integers(8)))


@pytest.mark.parametrize("kind", ["data", "side"])
def test_cut_short(kind: str, folder: Path) -> None:
    path = active(folder)[kind == "side"][-1]
    good = path.read_bytes()
    for size in (0, 1, 10, len(good) // 2, len(good) - 1):
        path.unlink()
        path.write_bytes(good[:size])
        with pytest.raises(CorruptBytesError, match=path.name):
            History(folder).verify()
        asked(History(folder))
    path.write_bytes(good + b"more")
    with pytest.raises(CorruptBytesError, match=path.name):
        History(folder).verify()


def test_damage_is_not_merged(folder: Path, rng: np.random.Generator) -> None:
    """Merged values have new checksums: damage that went in would never be found again."""
    for path in active(folder)[0]:
        place = int(rng.integers(path.stat().st_size))
        with damaged(path, place, int(rng.integers(8))), History(folder) as history:
            history._begin()
            runs = tuple(history.runs())
            with pytest.raises(CorruptBytesError, match=path.name):
                history._writer.merger._merge(_all(history), history.settings.run_eps)
            assert tuple(history.runs()) == runs
    check_stored(folder, NUMBERS)
    with History(folder) as history:
        history._begin()
        history._writer.merger._merge(_all(history), history.settings.run_eps)
        assert history.verify().values == len(DATA)
    check_stored(folder, NUMBERS)


def _all(history: History) -> Merge:
    snapshot = history.snapshot
    return Merge((*snapshot.runs, *snapshot.chunks), 2)


def test_a_lost_side_file(folder: Path) -> None:
    """A reader makes do without it; the next writer writes it again."""
    before = [str(History(folder).answer(phi)) for phi in (0.1, 0.5, 0.9)]
    for path in active(folder)[1]:
        path.unlink()
    reader = History(folder)
    assert asked(reader) == 0
    assert [str(reader.answer(phi)) for phi in (0.1, 0.5, 0.9)] == before
    assert not list((folder / SIDES).iterdir())
    with pytest.raises(CorruptBytesError, match=f"{path.name} is missing"):
        reader.verify()
    with History(folder) as writer:
        writer.vacuum(0)
        assert {*active(folder)[1]} == {*(folder / SIDES).iterdir()}
        assert writer.verify().values == reader.verify().values == len(DATA)
    assert asked(History(folder)) == 0


def test_a_damaged_side_file_is_written_again(folder: Path) -> None:
    """Where opening finds it. Readers that have the old one mapped keep it: it is not written over."""
    path = active(folder)[1][-1]
    reader = History(folder)
    assert asked(reader) == 0
    good = path.read_bytes()
    path.unlink()
    path.write_bytes(good[: len(good) // 8])
    late = History(folder)
    assert asked(late) == 0
    with History(folder) as writer:
        writer.end_step()
    assert asked(reader) == asked(late) == 0
    assert History(folder).verify().values == len(DATA)


def test_a_side_file_damaged_where_it_is_looked_at_later(folder: Path) -> None:
    """The error says what to do, and that helps."""
    path = active(folder)[1][-1]
    with damaged(path, path.stat().st_size - 8, 0):
        history = History(folder)
        for ask in (history.verify, lambda: history.quantile(0.5, mode="quick")):
            with pytest.raises(CorruptBytesError, match="remove it, and it is rebuilt"):
                ask()
        path.unlink()
        with History(folder) as writer:
            writer.vacuum()
            assert (writer.verify().values, asked(writer)) == (len(DATA), 0)


def test_a_side_file_of_a_file_that_is_gone(folder: Path) -> None:
    """Lost, then its data file merged and vacuumed away by another: there is nothing to write again."""
    for path in active(folder)[1]:
        path.unlink()
    first = History(folder)
    assert asked(first) == 0
    with History(folder) as other:
        other._begin()
        other._writer.merger._merge(_all(other), other.settings.run_eps)
        other.vacuum(0)
    first.end_step()
    assert (first.verify().values, asked(first)) == (len(DATA), 0)
    first.close()


def test_a_lost_data_file(folder: Path) -> None:
    path = active(folder)[0][-1]
    path.unlink()
    history = History(folder)
    with pytest.raises(CorruptBytesError, match=f"{path.name} is missing"):
        history.verify()
    assert asked(history)
    active(folder)[1][-1].unlink()
    with pytest.raises(CorruptBytesError, match=path.name):
        History(folder).n  # noqa: B018 (it is looked at)


def test_the_wrong_file(folder: Path) -> None:
    """Whole Parquet, but of another part of the run: its checksums are right, and still it is not what was written."""
    parts = [path for path in active(folder)[0] if path.name.startswith("L1-")]
    first, second = parts[1].read_bytes(), parts[2].read_bytes()
    for path, other in ((parts[1], second), (parts[2], first)):
        path.unlink()
        path.write_bytes(other)
    with pytest.raises(CorruptBytesError, match=f"{parts[1].name}.*{parts[2].name}"):
        History(folder).verify()
    assert asked(History(folder))
