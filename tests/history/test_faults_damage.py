"""Damaged and lost files: verify() names them, no answer uses damaged bytes, index files are rebuilt."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from quantide.errors import CorruptBytesError
from quantide.history import History
from quantide.history.compaction_plan import Compaction
from tests.history.writer_workload import (
    HOSTS,
    KEYED,
    SETTINGS,
    SIDES,
    Work,
    active,
    all_of,
    check_stored,
    key_of,
    small,
)
from tests.oracle import bound_faults, exact_quantile

STORES = {"plain": SETTINGS, "keyed": KEYED}
NUMBERS = range(5)
ENDS = 200  # bytes at either end of a file
DATA = all_of(NUMBERS)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Make a store with a run of level 1, one of level 0, and a chunk."""
    work = Work(str(tmp_path), STORES[request.param])
    for number in NUMBERS:
        work.append(number)
        if number < NUMBERS[-1]:
            work.step(0)
    work.vacuum(0)
    work.close(0)
    return tmp_path


@contextmanager
def damaged(path: Path, offset: int, bit: int) -> Iterator[None]:
    """Flip one bit of a file. The file is replaced: readers that have mapped the old one keep it."""
    good = path.read_bytes()
    bad = bytearray(good)
    bad[offset] ^= 1 << bit
    path.unlink()
    path.write_bytes(bad)
    yield
    path.unlink()
    path.write_bytes(good)


def count_refused(history: History) -> int:
    """Run many queries; return how many were refused. The others must have right answers."""
    refused = 0
    queries = (
        product(HOSTS, (0.3, 0.9)) if history.settings.keys else [(None, phi) for phi in (0.02, 0.3, 0.55, 0.8, 1)]
    )
    for (host, phi), mode in product(queries, ("quick", "accurate", "exact")):
        data = DATA if host is None else DATA[key_of(DATA) == host]
        try:
            answer = history.answer(phi, mode, key=host)
        except CorruptBytesError:
            refused += 1
        else:
            assert not bound_faults(data, answer)
            assert mode != "exact" or answer.value == exact_quantile(data, phi)
    return refused


def flip(folder: Path, path: Path, offset: int, bit: int) -> int:
    before = History(folder)
    assert before.n == len(DATA)
    with damaged(path, offset, bit):
        count_refused(before)  # an index file is read again when it is used again
        history = History(folder)
        for one in (history, before):
            with pytest.raises(CorruptBytesError, match=path.name):
                one.verify()
        return count_refused(history)


@pytest.mark.parametrize("kind", ["data", "side"])
def test_a_flipped_bit(kind: str, folder: Path, rng: np.random.Generator) -> None:
    refused = 0
    for path in active(folder)[kind == "side"]:
        refused += flip(folder, path, int(rng.integers(path.stat().st_size)), int(rng.integers(8)))
    if kind == "data":
        refused += flip(folder, path, path.read_bytes().index(b"value"), 7)  # a name that is no text any more
    assert refused
    assert (History(folder).verify().values, count_refused(History(folder))) == (len(DATA), 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["data", "side"])
def test_very_many_flipped_bits(kind: str, folder: Path, rng: np.random.Generator) -> None:
    """Flip a bit of each byte near the ends of a file, where its header and footer are, and of every sixth between."""
    for path in (active(folder)[kind == "side"][0], active(folder)[kind == "side"][-1]):
        offsets = np.arange(path.stat().st_size)
        ends = (offsets < ENDS) | (offsets >= len(offsets) - ENDS)
        for offset in offsets[ends | (offsets % 6 == rng.integers(6))].tolist():
            flip(folder, path, offset, int(rng.integers(8)))


@pytest.mark.parametrize("kind", ["data", "side"])
def test_cut_short(kind: str, folder: Path) -> None:
    path = active(folder)[kind == "side"][-1]
    good = path.read_bytes()
    for size in (0, 1, 10, len(good) // 2, len(good) - 1):
        path.unlink()
        path.write_bytes(good[:size])
        with pytest.raises(CorruptBytesError, match=path.name):
            History(folder).verify()
        count_refused(History(folder))
    path.write_bytes(good + b"more")
    with pytest.raises(CorruptBytesError, match=path.name):
        History(folder).verify()


def test_damage_is_not_merged(folder: Path, rng: np.random.Generator) -> None:
    """A compaction refuses damaged files: new checksums would hide the damage."""
    for path in active(folder)[0]:
        offset = int(rng.integers(path.stat().st_size))
        with damaged(path, offset, int(rng.integers(8))), History(folder) as history:
            history._become_writer()
            runs = tuple(history.runs())
            with pytest.raises(CorruptBytesError, match=path.name):
                history._writer.compactor._run(_all(history), history.settings.run_profile)
            assert tuple(history.runs()) == runs
    check_stored(folder, NUMBERS)
    with History(folder) as history:
        history._become_writer()
        history._writer.compactor._run(_all(history), history.settings.run_profile)
        assert history.verify().values == len(DATA)
    check_stored(folder, NUMBERS)


def _all(history: History) -> Compaction:
    snapshot = history.snapshot
    return Compaction((*snapshot.runs, *snapshot.chunks), 2)


def test_a_lost_side_file(folder: Path) -> None:
    """A reader works without an index file; the next writer rebuilds it."""
    before = [str(History(folder).answer(phi)) for phi in (0.1, 0.5, 0.9)]
    for path in active(folder)[1]:
        path.unlink()
    reader = History(folder)
    assert count_refused(reader) == 0
    assert [str(reader.answer(phi)) for phi in (0.1, 0.5, 0.9)] == before
    assert not list((folder / SIDES).iterdir())
    with pytest.raises(CorruptBytesError, match=f"{path.name} is missing"):
        reader.verify()
    with History(folder) as writer:
        writer.vacuum(0)
        assert {*active(folder)[1]} == {*(folder / SIDES).iterdir()}
        assert writer.verify().values == reader.verify().values == len(DATA)
    assert count_refused(History(folder)) == 0


def test_a_damaged_side_file_is_written_again(folder: Path) -> None:
    """A writer that opens the store finds the damage, and leaves the old file to readers that have mapped it."""
    path = active(folder)[1][-1]
    reader = History(folder)
    assert count_refused(reader) == 0
    good = path.read_bytes()
    path.unlink()
    path.write_bytes(good[: len(good) // 8])
    late = History(folder)
    assert count_refused(late) == 0
    with History(folder) as writer:
        writer.end_step()
    assert count_refused(reader) == count_refused(late) == 0
    assert History(folder).verify().values == len(DATA)


def test_a_side_file_damaged_where_it_is_read_later(folder: Path) -> None:
    """The error names a remedy, and the remedy works."""
    path = active(folder)[1][-1]
    with damaged(path, path.stat().st_size - 8, 0):
        history = History(folder)
        for call in (history.verify, lambda: history.quantile(0.5, mode="quick")):
            with pytest.raises(CorruptBytesError, match="remove it, and it is rebuilt"):
                call()
        path.unlink()
        with History(folder) as writer:
            writer.vacuum()
            assert (writer.verify().values, count_refused(writer)) == (len(DATA), 0)


def test_a_side_file_of_a_file_that_is_gone(folder: Path) -> None:
    """After another handle compacted and vacuumed the data file, a lost side file needs no rebuilding."""
    for path in active(folder)[1]:
        path.unlink()
    first = History(folder)
    assert count_refused(first) == 0
    with History(folder) as other:
        other._become_writer()
        other._writer.compactor._run(_all(other), other.settings.run_profile)
        other.vacuum(0)
    first.end_step()
    assert (first.verify().values, count_refused(first)) == (len(DATA), 0)
    first.close()


def test_a_lost_data_file(folder: Path) -> None:
    path = active(folder)[0][-1]
    path.unlink()
    history = History(folder)
    with pytest.raises(CorruptBytesError, match=f"{path.name} is missing"):
        history.verify()
    assert count_refused(history)
    active(folder)[1][-1].unlink()
    with pytest.raises(CorruptBytesError, match=path.name):
        History(folder).n  # noqa: B018 (it is looked at)


def test_the_wrong_file(folder: Path) -> None:
    """Swap two parts of a run, whose checksums stay correct: verify() names both."""
    parts = [path for path in active(folder)[0] if path.name.startswith("L1-")]
    first, second = parts[0].read_bytes(), parts[1].read_bytes()
    for path, other in ((parts[0], second), (parts[1], first)):
        path.unlink()
        path.write_bytes(other)
    with pytest.raises(CorruptBytesError, match=f"{parts[0].name}.*{parts[1].name}"):
        History(folder).verify()
    assert count_refused(History(folder))
