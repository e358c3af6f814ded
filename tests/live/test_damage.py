"""Damaged and missing recent files and manifests: an answer is right, or an error names the file."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.errors import CorruptBytesError, RepairWarning, StorageError
from quantide.live import LiveStream
from quantide.store import fault_points, writable_table
from quantide.store.recent_file import RecentFile
from quantide.store.recent_manifest import RecentManifest
from tests.history.writer_workload import leftovers
from tests.live.live_model import Grown, Rng, check, check_question, small

RECENT = "_quantide/recent"
QUESTIONS: list[dict[str, Any]] = [
    {"last": 20},
    {"last": 140, "filter": "f"},
    {"key": ("a",), "last": 3},
    {"filter": "g"},
]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "cut": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "zeros": lambda data: bytes(len(data)),
    "another": lambda data: b"QTSF" + data[4:],
    "text": lambda data: b"\xff\xfe{}" * 10,
}


def store(path: Path, rng: Rng, rows: int = 50) -> Grown:
    """Three recent files with every kind of content, and as many batches."""
    grown = Grown(path / "store", keys=["host"], filters=["f", "g"])
    for number in range(3):
        keys = [("a",) if x else ("b",) for x in rng.random(rows) < 0.5]
        filters = {"f": rng.random(rows) < 0.5, "g": rng.random(rows) < 0.9}
        grown.append(rng.integers(-900, 900, rows), np.arange(rows) + number * rows, keys, **filters)
    return grown


def names(grown: Grown, kind: str) -> list[Path]:
    found = Path(grown.path, RECENT).glob(f"*.{kind}")
    return sorted(found, key=lambda path: int(path.stem.rpartition("-")[2]))


def read_all(file: RecentFile) -> list[Any]:
    """All results of reading a recent file."""
    out: list[Any] = [file.info, file.keys.to_pylist(), file.bounds.tolist()]
    for place in (None, 0, 1):
        lane = file.row_range(place)
        out += [file.values(lane).tolist(), file.times(lane).tolist(), file.numbers(lane).tolist()]
        for filter in (None, "f", "g"):
            summary = file.summary(place, filter)
            out.append(None if summary is None else (summary.values.tolist(), summary.rmin.tolist(), summary.n))
            out.append(None if filter is None else file.satisfies(lane, filter).tolist())
    return out


def test_every_byte_of_a_recent_file(tmp_path: Path, rng: Rng) -> None:
    """Flip one bit: reads give the same, or the error names the file; check() always finds the bit."""
    with small(fan=100):
        grown = store(tmp_path, rng)
        grown.history.close()
        data = names(grown, "recent")[1].read_bytes()
        whole = RecentFile(data, "x.recent")
        whole.check()
        right = read_all(whole)
        assert sum(one is not None for one in right) > 15
        for at in range(0, len(data), 1 + len(data) // 700):
            damaged = bytearray(data)
            damaged[at] ^= 1 << int(rng.integers(8))
            found: Any = None
            try:
                found = read_all(RecentFile(bytes(damaged), "x.recent"))
            except CorruptBytesError as error:
                found = str(error)
            assert "x.recent" in found if isinstance(found, str) else found == right, f"byte {at}"
            with pytest.raises(CorruptBytesError):
                RecentFile(bytes(damaged), "x.recent").check()


def test_every_byte_of_a_manifest(tmp_path: Path, rng: Rng) -> None:
    """Change every byte of a manifest: a wrong digit would move a window."""
    with small(fan=100):
        grown = store(tmp_path, rng)
        grown.history.close()
        text = names(grown, "manifest")[-1].read_bytes()
        right = RecentManifest.from_json(text.decode(), "x.manifest")
        assert (right.arrived, len(right.entries)) == (150, 3)
        for at in range(len(text)):
            for bit in rng.choice(8, 1, replace=False):
                damaged = bytearray(text)
                damaged[at] ^= 1 << int(bit)
                with pytest.raises(CorruptBytesError, match=r"x\.manifest"):
                    RecentManifest.from_json(bytes(damaged).decode(errors="surrogateescape"), "x.manifest")
        for end in range(len(text)):
            with pytest.raises(CorruptBytesError, match=r"x\.manifest"):
                RecentManifest.from_json(text[:end].decode(), "x.manifest")


@pytest.mark.parametrize("damage", [*DAMAGE, "missing"])
def test_a_recent_file(damage: str, tmp_path: Path, rng: Rng) -> None:
    """Windows that need it fail and name it; all others, and all of history, are answered."""
    with small(fan=100):
        grown = store(tmp_path, rng)
        path = names(grown, "recent")[1]
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        live = LiveStream(grown.path, follow=False)
        sound: list[dict[str, Any]] = [{}, {"key": ("a",)}, {"last": 50}, {"last": 7}, {"last_steps": 0}]
        for good in sound:
            check_question(live, grown.model, rng, good)
        assert live.answer(0.5, within=6).n == 24
        wrong: list[dict[str, Any]] = [{"last": 51}, {"filter": "f"}, {"key": ("a",), "last": 45}]
        for scope in wrong:
            if damage in ("half", "cut", "longer"):  # part of the file can be read
                with suppress(CorruptBytesError):
                    check_question(live, grown.model, rng, scope)
            else:
                with pytest.raises(CorruptBytesError, match=path.name):
                    check_question(live, grown.model, rng, scope)
        with pytest.raises(CorruptBytesError, match=path.name):
            grown.history.verify()
        grown.append([1] * 60, np.full(60, 900), [("b",)] * 60, f=np.ones(60, bool), g=np.ones(60, bool))
        live.poll()
        check_question(live, grown.model, rng, {"last": 60})
        grown.history.close()
        assert History(grown.path).answer(0.5).n == 210


@pytest.mark.parametrize("damage", [*DAMAGE, "missing"])
def test_a_manifest(damage: str, tmp_path: Path, rng: Rng) -> None:
    """The log has a copy: readers go on with it, verify() names the file, and the next writer writes it again."""
    with small(fan=100):
        grown = store(tmp_path, rng)
        live = LiveStream(grown.path, follow=False)
        grown.history.close()
        path = names(grown, "manifest")[-1]
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        check(live, grown.model, rng)
        check(LiveStream(grown.path, follow=False), grown.model, rng)
        with History(grown.path) as history:
            assert history.answer(0.5).n == 150
            with pytest.raises(CorruptBytesError, match="manifest"):
                history.verify()
            with pytest.warns(RepairWarning, match="copy in the log"):
                history.append([1.0], key="a", times=1.0, filters={"f": True, "g": True})
            assert (history.n, history.verify().values) == (151, 151)


@pytest.mark.parametrize("damage", [*DAMAGE, "missing"])
def test_a_manifest_without_a_copy(damage: str, tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a store without its manifest raises when it opens; the history stays as it was."""
    monkeypatch.setattr(writable_table, "MAX_COPY_BYTES", 10)
    with small(fan=100):
        grown = store(tmp_path, rng)
        live = LiveStream(grown.path, follow=False)
        grown.history.close()
        path = names(grown, "manifest")[-1]
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(DAMAGE[damage](path.read_bytes()))
        with pytest.raises(CorruptBytesError, match="manifest"):
            LiveStream(grown.path, follow=False)
        check(live, grown.model, rng)
        with History(grown.path) as history:
            assert history.answer(0.5).n == 150
            with pytest.raises(CorruptBytesError, match="manifest"):
                history.verify()
            with pytest.raises(CorruptBytesError, match="quantide history repair"):
                history.append([1.0], key="a", times=1.0, filters={"f": True, "g": True})
            assert history.n == 150


@pytest.mark.parametrize("damage", ["zeros", "missing"])
def test_a_damaged_file_is_not_compacted(damage: str, tmp_path: Path, rng: Rng) -> None:
    """An unreadable file stays as it is, all others are compacted, and closing the writer raises the error."""
    with small(fan=5, most=1000):
        grown = store(tmp_path, rng, 20)
        path = names(grown, "recent")[1]
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(bytes(100))
        for number in range(3, 30):
            more(grown, number)
            with suppress(CorruptBytesError):
                grown.settle()
        live = LiveStream(grown.path, follow=False)
        assert live.stats()["recent_files"] < 12
        check_question(live, grown.model, rng, {"last": 28 * 20})
        with pytest.raises(CorruptBytesError, match=path.name):
            live.answer(0.5, last=28 * 20 + 1)
        grown.history.close()
        for _ in range(2):
            with History(grown.path) as history:
                assert history.n == 600


def more(grown: Grown, number: int) -> None:
    every = np.ones(20, bool)
    grown.append([number] * 20, np.arange(20) + number * 20, [("a",)] * 20, f=every, g=every)


def test_a_damaged_file_is_reported_once(tmp_path: Path, rng: Rng) -> None:
    with small(fan=3, most=1000):
        grown = store(tmp_path, rng, 20)
        grown.settle()
        path = names(grown, "recent")[-1]
        path.write_bytes(bytes(100))
        for number in range(3, 20):
            more(grown, number)
        with pytest.raises(CorruptBytesError, match=path.name):
            grown.history.close()
        grown.history.close()


def test_a_compaction_that_failed_is_tried_again(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed compaction is repeated: after a full disk the number of files stops growing."""
    failed = [0]

    def point(name: str) -> None:
        if name == "recent.compacted" and failed[0] < 2:
            failed[0] += 1
            raise StorageError("no space")

    with small(fan=3, most=1000):
        grown = store(tmp_path, rng, 20)
        monkeypatch.setattr(fault_points, "point", point)
        for number in range(3, 20):
            more(grown, number)
            Event().wait(0.005)
        grown.history._writer.recent._compacting and grown.history._writer.recent._compacting.exception()
        assert LiveStream(grown.path, follow=False).stats()["recent_files"] < 15
        assert failed == [2]
        with pytest.raises(StorageError, match="no space"):
            grown.history.close()
        grown.history.vacuum(0)
        grown.history.close()
        assert leftovers(grown.path) == set()


@pytest.mark.parametrize("point", ["recent.written", "recent.manifest"])
def test_what_an_append_that_failed_leaves(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same handle vacuums all files of a failed append."""

    def fails(name: str) -> None:
        if name == point:
            raise OSError(28, "no space")

    with History(tmp_path / "store") as history:
        history.append([1.0, 2.0], times=1.0)
        with monkeypatch.context() as patch:
            patch.setattr(fault_points, "point", fails)
            with pytest.raises(OSError, match="no space"):
                history.append([3.0], times=2.0)
        history.vacuum(0)
        assert leftovers(history.path) == set()
        live = LiveStream(history.path, follow=False)
        assert live.answer(1, last=5).n == 2
        history.append([3.0], times=2.0)
        live.poll()
        assert live.answer(1, last=5).n == 3


def test_what_a_large_append_that_failed_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several recent files cannot be written: the same handle vacuums the others, too."""
    written = [0]

    def fails(name: str) -> None:
        written[0] += name == "recent.written"
        if written[0] == 3:
            raise OSError(28, "no space")

    with small(most=4), History(tmp_path / "store") as history:
        with monkeypatch.context() as patch:
            patch.setattr(fault_points, "point", fails)
            with pytest.raises(OSError, match="no space"):
                history.append(np.arange(20.0))
        history.vacuum(0)
        assert leftovers(history.path) == set()


def test_the_store_was_deleted(tmp_path: Path) -> None:
    history = History(tmp_path / "store")
    history.append(np.arange(100.0))
    history.end_step()
    history.close()
    live = LiveStream(history.path, follow=False)
    shutil.rmtree(history.path)
    with suppress(StorageError):
        live.poll()
    for mode in ("accurate", "exact"):
        with pytest.raises((StorageError, CorruptBytesError)):
            live.answer(0.5, mode=mode)


def test_flipped_bytes_under_a_stream(tmp_path: Path, rng: Rng) -> None:
    """The same through a stream: right answers or CorruptBytesError, at bytes all over the file."""
    with small(fan=100):
        grown = store(tmp_path, rng)
        path = names(grown, "recent")[2]
        data, spare = path.read_bytes(), tmp_path / "spare"
        shutil.copy(path, spare)
        for at in rng.choice(len(data), 25, replace=False):
            damaged = bytearray(data)
            damaged[at] ^= 1 << int(rng.integers(8))
            path.unlink()
            path.write_bytes(damaged)
            live = LiveStream(grown.path, follow=False)
            for scope in QUESTIONS:
                found = path.name
                try:
                    check_question(live, grown.model, rng, scope, questions=1)
                except CorruptBytesError as error:
                    found = str(error)
                assert path.name in found, f"byte {at}"
        grown.history.close()


@pytest.mark.parametrize("steps", [3, 4, 6])
def test_a_recreated_store_is_not_mixed_with_the_old_one(tmp_path: Path, steps: int) -> None:
    """Files of the new store have the names that those of the old one had."""
    place = tmp_path / "store"

    def make(value: float, count: int) -> None:
        with History(place, keys="k") as history:
            for _ in range(count):
                history.append([value] * 1000, key="a")
                history.end_step()

    make(100.0, 3)
    with LiveStream(place, follow=False) as live:
        assert live.rank(300.0, key="a") == (3000, 3000)
        shutil.rmtree(place)
        with pytest.raises(StorageError, match="was removed"):
            live.poll()
        make(500.0, steps)
        with pytest.raises(StorageError, match="open it again"):
            live.poll()
    with LiveStream(place, follow=False) as live:
        assert live.rank(300.0, key="a") == (0, 0)
