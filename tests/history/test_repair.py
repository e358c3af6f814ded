"""Every kind of file missing, empty, truncated or zeroed: opening, reading, writing and repair."""

import json
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable

from quantide import History
from quantide.cli import main
from quantide.errors import CorruptBytesError, RepairWarning, StorageError, WriterConflictError
from quantide.history import HistoryReader
from quantide.history.store_repair import repair
from quantide.history.verify import check_log
from quantide.live import LiveStream
from quantide.store import writable_table
from quantide.store.checkpoint_file import is_readable
from quantide.store.delta_library import DeltaError, panics_as_errors
from quantide.store.folder_storage import FolderStorage
from quantide.store.log_repair import LogFinding
from quantide.store.recent_manifest import RecentManifest
from tests.history.writer_workload import (
    ROWS,
    SETTINGS,
    Work,
    active,
    all_of,
    batch,
    check_stored,
    compact_chunks_early,
    recent,
    small,
)
from tests.sampling import one_in

NUMBERS = range(11)
CHECKPOINT = 9

DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "a line short": lambda data: data[: data.rfind(b"\n")],
    "zeros": lambda data: bytes(len(data)),
    "zeros at the end": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
}
TORN = [name for name in DAMAGE if name != "missing"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with runs and chunks, a checkpoint, entries after it, recent files; the last commit is batch 10."""
    folder = tmp_path_factory.mktemp("made") / "store"
    with pytest.MonkeyPatch.context() as patch:
        small(patch.setattr)
        work = Work(str(folder), SETTINGS | {"window": 10**9})
        for number in NUMBERS:
            work.append(number)
            work.history._writer.join()
            if number in (2, 4):
                work.step(0)
        work.close(0)
    assert newest(folder) > CHECKPOINT
    assert (folder / "_delta_log" / f"{CHECKPOINT:020}.checkpoint.parquet").exists()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store"))


def entry(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def newest(folder: Path) -> int:
    return max(int(path.stem) for path in (folder / "_delta_log").glob("*.json"))


def hurt(path: Path, damage: str) -> None:
    """Damage a file. It is replaced, with the same time: readers that have mapped the old one keep it."""
    data, times = DAMAGE[damage](path.read_bytes()), path.stat()
    path.unlink()
    if data is not None:
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def check_writable(folder: Path, numbers: list[int]) -> None:
    """Check that the data is right, also for other readers of Delta, and that another batch can be added."""
    check_stored(folder, numbers)
    with History(folder) as history:
        assert history.n == len(all_of(numbers))
        history.append(batch(50), batch_id=50)
        history.end_step()
        assert history.verify().values == len(all_of([*numbers, 50]))
    check_stored(folder, [*numbers, 50])
    assert len(pl.read_delta(str(folder))) == len(all_of([*numbers, 50]))
    assert repair(folder) == []


# The log


@pytest.mark.parametrize("damage", TORN)
def test_a_torn_newest_entry(damage: str, folder: Path) -> None:
    """A reader stays at the version before; the next writer sets the entry aside, with its data."""
    version = newest(folder)
    hurt(entry(folder, version), damage)
    reader, live = HistoryReader(folder), LiveStream(folder, follow=False)
    assert reader.n == live.answer(0.5).n == len(all_of(NUMBERS[:-1]))
    assert not reader.refresh()
    assert not live.poll()
    with History(folder) as history:
        with pytest.warns(RepairWarning, match=f"{version:020}.json is torn.*{ROWS} rows.*may be lost.*append_files"):
            history.open()
        assert history.n == len(all_of(NUMBERS[:-1]))
        assert history.stats()["set_aside"] == 1
        assert not history.batch_seen(NUMBERS[-1])
        assert reader.refresh()
        assert live.poll()
        set_aside = list((folder / "_quantide/aside").glob("*.parquet"))
        assert history.append_files([str(path) for path in set_aside], batch_id=NUMBERS[-1]) == ROWS
        assert (history.n, history.verify().values) == (len(all_of(NUMBERS)),) * 2
    check_stored(folder, NUMBERS)


def test_torn_at_every_byte(made: Path, tmp_path: Path) -> None:
    """A reader of an entry that ends anywhere is at the version before."""
    folder = Path(shutil.copytree(made, tmp_path / "store"))
    path = entry(folder, newest(folder))
    data = path.read_bytes()
    reader = HistoryReader(folder)
    for end in range(len(data)):
        path.write_bytes(data[:end])
        reader._holder.reload()
        assert reader.version == newest(folder) - 1, end
    path.write_bytes(data)
    assert reader.refresh()


@pytest.fixture
def compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a store whose open step has compacted chunks, still on disk; its newest commit, of batch 9, is zeros."""
    compact_chunks_early(monkeypatch.setattr)
    folder = tmp_path / "compacted"
    work = Work(str(folder), SETTINGS)
    for number in range(10):
        work.append(number)
        work.history._writer.join()
    work.close(0)
    assert set((folder / "runs").iterdir()) > set(active(folder)[0])
    hurt(entry(folder, newest(folder)), "zeros")
    return folder


def copied(folder: Path, runs: float, log: float) -> None:
    """Give files the times of a copy, made so many seconds later."""
    for path in folder.rglob("*"):
        times, later = path.stat(), log if path.parent.name == "_delta_log" else runs
        os.utime(path, (times.st_mtime + later, times.st_mtime + later) if later else None)


@pytest.mark.parametrize(("runs", "log"), [(0, 0), (3600, 3600), (3600, 7200), (7200, 3600)])
def test_a_torn_append_of_a_copy(runs: float, log: float, compacted: Path) -> None:
    """Repair a copy, whose files have other times: it reports the lost chunk, and no compacted one."""
    copied(compacted, runs, log)
    [finding] = repair(compacted, dry_run=True)
    assert (finding.lost, finding.rows) == (True, ROWS)
    assert "of the batches 9 may be lost" in finding.action
    with History(compacted) as history:
        with pytest.warns(RepairWarning):
            history.open()
        set_aside = list((compacted / "_quantide/aside").glob("*.parquet"))
        assert history.append_files([str(path) for path in set_aside], batch_id=9) == ROWS
    check_stored(compacted, range(10))


def test_several_torn_entries(folder: Path) -> None:
    version = newest(folder)
    for number, damage in zip(range(version - 2, version + 1), ("zeros", "empty", "cut"), strict=True):
        hurt(entry(folder, number), damage)
    findings = repair(folder, dry_run=True)
    assert [(finding.kind, finding.lost) for finding in findings] == [("log entry", True)] * 3
    assert newest(folder) == version
    before = HistoryReader(folder).version
    assert len(repair(folder)) == 3
    assert newest(folder) == before + 1
    check_writable(folder, [n for n in NUMBERS if n < NUMBERS[-3]])


def test_the_writer_goes_on_after_a_reader_saw_a_torn_entry(folder: Path) -> None:
    reader = HistoryReader(folder)
    assert reader.n == len(all_of(NUMBERS))
    entry(folder, newest(folder) + 1).write_bytes(b"")
    assert not reader.refresh()
    with History(folder) as history, pytest.warns(RepairWarning, match="no data of it was found"):
        history.append(batch(50), batch_id=50)
    assert reader.refresh()
    assert reader.n == len(all_of([*NUMBERS, 50]))


def test_a_torn_merge_loses_nothing(folder: Path) -> None:
    """Repair a torn merge: its inputs are active again."""
    with History(folder) as history:
        history.end_step()
    path = entry(folder, newest(folder))
    assert b'"remove"' in path.read_bytes()
    hurt(path, "one byte short")
    [finding] = repair(folder, dry_run=True)
    assert not finding.lost
    with pytest.warns(RepairWarning, match="nothing is lost"), History(folder) as history:
        history.open()
    check_writable(folder, list(NUMBERS))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_torn_entry_with_commits_after_it(damage: str, folder: Path) -> None:
    """The repair drops no intact commit without --roll-back."""
    version = newest(folder) - 1
    hurt(entry(folder, version), damage)
    assert HistoryReader(folder).version == version - 1
    with History(folder) as history, pytest.raises(CorruptBytesError, match="quantide history repair"):
        history.append(batch(50))
    [finding] = repair(folder)
    assert finding.lost
    assert "--roll-back" in finding.action
    assert f"up to {2 * ROWS if damage != 'missing' else ROWS} rows" in finding.problem
    assert newest(folder) == version + 1
    findings = repair(folder, roll_back=True)
    assert [one.kind for one in findings if one.lost] == ["log entry"] * (1 if damage == "missing" else 2)
    assert list((folder / "_quantide/aside").glob("*.parquet"))
    check_writable(folder, list(NUMBERS[:-2]))


def test_a_missing_newest_entry_is_a_commit_that_never_was(folder: Path) -> None:
    hurt(entry(folder, newest(folder)), "missing")
    assert repair(folder) == []
    check_writable(folder, list(NUMBERS[:-1]))


def test_a_torn_entry_that_a_checkpoint_covers(folder: Path) -> None:
    hurt(entry(folder, CHECKPOINT - 1), "zeros")
    hurt(entry(folder, CHECKPOINT), "empty")
    check_writable(folder, list(NUMBERS))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_torn_first_entry(damage: str, tmp_path: Path) -> None:
    """A store whose first entry is torn does not exist, and can be created."""
    folder = tmp_path / "store"
    History(folder, **SETTINGS).close()
    hurt(entry(folder, 0), damage)
    with pytest.raises(StorageError, match="no history"):
        HistoryReader(folder)
    with pytest.raises(StorageError, match="nothing to repair"):
        repair(folder)
    if damage == "missing":
        history = History(folder, **SETTINGS)
    else:
        with pytest.warns(RepairWarning, match="first entry"):
            history = History(folder, **SETTINGS)
    history.append(batch(0), batch_id=0)
    history.close()
    check_writable(folder, [0])


def test_a_log_whose_beginning_is_lost(folder: Path) -> None:
    for version in range(CHECKPOINT):
        entry(folder, version).unlink()
    hurt(folder / "_delta_log" / f"{CHECKPOINT:020}.checkpoint.parquet", "zeros")
    with pytest.raises(CorruptBytesError, match="quantide history repair"):
        HistoryReader(folder)
    [finding] = repair(folder)
    assert finding.lost
    assert "restore _delta_log" in finding.action


# Checkpoints


@pytest.mark.parametrize(
    ("what", "damage"),
    one_in(
        5,
        product(
            ["checkpoint", "_last_checkpoint", "both"],
            ["missing", "empty", "cut", "one byte short", "zeros", "zeros at the end"],
        ),
    ),
)
@pytest.mark.filterwarnings("ignore::quantide.errors.RepairWarning")
def test_a_checkpoint(what: str, damage: str, folder: Path) -> None:
    """Readers use the older entries instead of a damaged checkpoint, and the writer makes a new one."""
    paths = [folder / "_delta_log" / f"{CHECKPOINT:020}.checkpoint.parquet", folder / "_delta_log" / "_last_checkpoint"]
    paths[1].write_bytes(paths[1].read_bytes().rstrip())
    for path in paths if what == "both" else [paths[what == "_last_checkpoint"]]:
        hurt(path, damage)
    reader = HistoryReader(folder)
    assert reader.n == LiveStream(folder, follow=False).answer(0.5).n == len(all_of(NUMBERS))
    findings = repair(folder, dry_run=True)
    assert {finding.kind for finding in findings} <= {"checkpoint"}
    assert not any(finding.lost for finding in findings)
    assert bool(findings) == (damage != "missing" or what == "checkpoint")
    if findings:
        repair(folder)
        last = json.loads((folder / "_delta_log/_last_checkpoint").read_text())["version"]
        assert last == DeltaTable(folder).version() == newest(folder)
    check_writable(folder, list(NUMBERS))
    assert reader.refresh()
    assert reader.n == len(all_of([*NUMBERS, 50]))


FLIPPED = {"file": b".parquet", "transaction": b"quantide.writer", "settings": b"quantide.settings"}


def flip(folder: Path, text: bytes) -> Path:
    """Flip a bit of a text in the checkpoint. pyarrow still reads the file; Delta's reader does not."""
    path = folder / "_delta_log" / f"{CHECKPOINT:020}.checkpoint.parquet"
    data = bytearray(path.read_bytes())
    data[data.index(text) + 1] ^= 0x80
    path.write_bytes(data)
    assert is_readable(0, path.read_bytes())
    return path


@pytest.mark.parametrize("what", FLIPPED)
def test_a_checkpoint_that_only_deltas_reader_refuses(what: str, folder: Path) -> None:
    path = flip(folder, FLIPPED[what])
    reader = HistoryReader(folder)
    assert reader.n == LiveStream(folder, follow=False).answer(0.5).n == len(all_of(NUMBERS))
    with pytest.raises(CorruptBytesError, match="quantide history repair"):
        check_log(FolderStorage(str(folder)))
    [finding] = [one for one in repair(folder, dry_run=True) if one.name == path.name]
    assert (finding.kind, finding.problem, finding.lost) == ("checkpoint", "cannot be read", False)
    with History(folder) as history, pytest.warns(RepairWarning) as warned:
        history.open()
    assert [path.name in str(one.message) for one in warned].count(True) == 1
    assert (folder / "_quantide/aside" / path.name).exists()
    assert DeltaTable(folder).transaction_version("quantide.writer") == 2
    check_writable(folder, list(NUMBERS))


@pytest.mark.parametrize("what", FLIPPED)
def test_repair_of_a_checkpoint_that_only_deltas_reader_refuses(what: str, folder: Path) -> None:
    path = flip(folder, FLIPPED[what])
    assert next(one.name for one in repair(folder) if one.kind == "checkpoint") == path.name
    assert not path.exists()
    check_writable(folder, list(NUMBERS))


def test_a_flipped_checkpoint_without_older_entries(folder: Path) -> None:
    for version in range(CHECKPOINT):
        entry(folder, version).unlink()
    flip(folder, FLIPPED["transaction"])
    with pytest.raises(CorruptBytesError, match="quantide history repair"):
        HistoryReader(folder)
    [finding] = repair(folder)
    assert finding.lost


def test_the_log_is_not_trimmed_to_a_checkpoint_that_deltas_reader_refuses(folder: Path) -> None:
    with History(folder) as history:
        history.open()
        flip(folder, FLIPPED["file"])
        history.table.clear_log(0)
        assert entry(folder, 0).exists()


def test_a_panic_of_deltas_reader_is_an_error() -> None:
    class PanicException(BaseException):
        """Stand-in for the library's exception, whose class cannot be imported."""

    with pytest.raises(DeltaError, match="crashed"), panics_as_errors():
        raise PanicException("executor has crashed")
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt


def test_the_log_is_not_trimmed_to_a_checkpoint_that_is_damaged(folder: Path) -> None:
    with History(folder) as history:
        history.open()
        hurt(folder / "_delta_log" / f"{CHECKPOINT:020}.checkpoint.parquet", "zeros at the end")
        history.table.clear_log(0)
        assert entry(folder, 0).exists()


# Manifests and recent files


def manifest_of(folder: Path) -> Path:
    [name] = [name for name in recent(folder) if name.endswith("manifest")]
    return folder / name


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a line short"])
def test_a_lost_manifest_comes_back_from_the_log(damage: str, folder: Path) -> None:
    path = manifest_of(folder)
    good = path.read_bytes()
    hurt(path, damage)
    assert LiveStream(folder, follow=False).answer(0.5, last=ROWS).n == ROWS
    with pytest.raises(CorruptBytesError, match="manifest"):
        HistoryReader(folder).verify()
    assert [one.kind for one in repair(folder, dry_run=True)] == ["manifest"]
    with History(folder) as history, pytest.warns(RepairWarning, match="copy in the log"):
        history.open()
    assert path.read_bytes() == good
    assert LiveStream(folder, follow=False).answer(0.5, last=len(all_of(NUMBERS))).n == len(all_of(NUMBERS))
    check_writable(folder, list(NUMBERS))


def without_copies(folder: Path, monkeypatch: pytest.MonkeyPatch, numbers: range = range(11, 14)) -> Path:
    """Commit a manifest that is too large for the log; the newest one is lost."""
    monkeypatch.setattr(writable_table, "MAX_COPY_BYTES", 10)
    with History(folder) as history:
        for number in numbers:
            history.append(batch(number), batch_id=number)
    return manifest_of(folder)


def test_a_lost_manifest_without_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the command; older rows are listed by the copy before, windows over the rest are refused."""
    path = without_copies(folder, monkeypatch)
    for old in path.parent.glob("*.manifest"):
        old.unlink()
    with History(folder) as history, pytest.raises(CorruptBytesError, match="quantide history repair"):
        history.append(batch(50))
    assert [one.lost for one in repair(folder, dry_run=True)] == [True]
    assert not path.exists()
    findings = repair(folder)
    assert [(one.kind, one.rows) for one in findings if one.lost] == [("manifest", 3 * ROWS), ("recent file", 3 * ROWS)]
    assert "3 rows" not in findings[0].problem
    with History(folder) as history:
        history.append(batch(50), batch_id=50)
        live = LiveStream(folder, follow=False)
        assert live.answer(0.5, last=ROWS).n == ROWS
        questions: list[dict[str, Any]] = [{"last": ROWS + 1}, {"within": 10**9}]
        for question in questions:
            with pytest.raises(CorruptBytesError, match="this window needs"):
                live.answer(0.5, **question)
        history.end_step()
    check_stored(folder, [*range(14), 50])


def test_an_older_manifest_is_the_base(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repair uses an older manifest as base: only rows appended after it are missing."""
    path = without_copies(folder, monkeypatch, range(11, 12))
    older = path.read_bytes()
    with History(folder) as history:
        history.append(batch(12), batch_id=12)
    manifest_of(folder).unlink()
    path.write_bytes(older)
    [lost, _] = repair(folder)
    assert (lost.kind, lost.rows) == ("manifest", ROWS)
    manifest = RecentManifest.from_json(manifest_of(folder).read_text(), "")
    assert manifest.entries[:-1] == RecentManifest.from_json(older.decode(), "").entries
    assert manifest.arrived == 13 * ROWS


def test_no_manifest_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without manifests no times are known: windows start empty, and the finding names that."""
    monkeypatch.setattr(writable_table, "MAX_COPY_BYTES", 10)
    with History(tmp_path, **SETTINGS) as history:
        for number in range(3):
            history.append(batch(number), times=np.arange(ROWS) + 1.0, batch_id=number)
    for path in tmp_path.glob("_quantide/recent/*.manifest"):
        path.unlink()
    with pytest.raises(CorruptBytesError):
        LiveStream(tmp_path, follow=False)
    with History(tmp_path) as history, pytest.raises(CorruptBytesError, match="quantide history repair"):
        history.append(batch(3), times=1.0)
    [finding] = repair(tmp_path)
    assert (finding.kind, finding.lost, finding.rows) == ("manifest", True, 3 * ROWS)
    assert f"none of the {3 * ROWS} before" in finding.problem
    with History(tmp_path) as history:
        history.append(batch(3), batch_id=3)  # without times, which it had before
        assert LiveStream(tmp_path, follow=False).answer(0.5, last=ROWS).n == ROWS
    check_stored(tmp_path, range(4))


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a line short"])
def test_a_recent_file_is_named(damage: str, folder: Path) -> None:
    """The finding names a lost recent file, whose rows have no other times; the file ages like others."""
    first = RecentManifest.from_json(manifest_of(folder).read_text(), "").entries[0]
    hurt(folder / first.name, damage)
    for dry_run in (True, False):
        [finding] = repair(folder, dry_run)
        assert (finding.kind, finding.name, finding.lost) == ("recent file", first.name, True)
        assert (finding.rows, f"{first.rows:,} rows" in finding.action) == (first.rows, True)
    with History(folder) as history:
        history.append(batch(50), batch_id=50)
        assert history.n == len(all_of([*NUMBERS, 50]))
    check_stored(folder, [*NUMBERS, 50])


# Data and side files


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a line short"])
def test_a_side_file_is_rebuilt(damage: str, folder: Path) -> None:
    path = active(folder)[1][-1]
    hurt(path, damage)
    damaged = path.read_bytes() if path.exists() else None
    [finding] = repair(folder, dry_run=True)
    assert "would be rebuilt" in finding.action
    assert (path.read_bytes() if path.exists() else None) == damaged
    [finding] = repair(folder)
    assert (finding.kind, finding.name, finding.lost) == ("side file", f"_quantide/side/{path.name}", False)
    check_writable(folder, list(NUMBERS))


def test_a_side_file_is_not_rebuilt_from_damaged_data(folder: Path) -> None:
    data, side = active(folder)[0][-1], active(folder)[1][-1]
    hurt(side, "missing")
    hurt(data, "zeros at the end")
    [finding] = repair(folder)
    assert (finding.kind, finding.lost) == ("data file", True)
    assert not side.exists()


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "a line short"])
def test_a_data_file_is_named(damage: str, folder: Path) -> None:
    path = active(folder)[0][0]
    rows = pl.read_parquet(path).height
    hurt(path, damage)
    before = sorted(str(p) for p in folder.rglob("*") if p.is_file())
    [finding] = repair(folder, dry_run=True)
    assert sorted(str(p) for p in folder.rglob("*") if p.is_file()) == before
    assert repair(folder) == [finding]
    assert (finding.kind, finding.name, finding.lost, finding.rows) == ("data file", f"runs/{path.name}", True, rows)
    assert "rows of step" in finding.action
    with History(folder) as history:
        history.append(batch(50), batch_id=50)
        assert history.n == len(all_of([*NUMBERS, 50]))
    path.unlink(missing_ok=True)
    active(folder)[1][0].unlink()
    assert [one.kind for one in repair(folder)] == ["data file"]


# The command


def run(capsys: pytest.CaptureFixture[str], *argv: Any) -> tuple[int, Any]:
    code = main(["history", "repair", *map(str, argv), "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, folder) == (
        0,
        {"path": str(folder), "ok": True, "dry_run": False, "findings": [], "future": None},
    )
    hurt(active(folder)[1][0], "empty")
    (folder / "_delta_log/00000000000000000077.json#1").write_bytes(b"x")
    code, body = run(capsys, folder, "--dry-run")
    assert (code, [one["kind"] for one in body["findings"]]) == (0, ["side file"])
    code, body = run(capsys, folder)
    assert (code, [one["kind"] for one in body["findings"]]) == (0, ["side file", "garbage"])
    assert set(body["findings"][0]) == set(LogFinding.__dataclass_fields__)
    hurt(active(folder)[0][0], "missing")
    assert run(capsys, folder)[0] == 1
    assert main(["history", "repair", str(folder)]) == 1
    assert "1 of 1 findings are losses" in capsys.readouterr().out
    hurt(active(folder)[1][1], "missing")
    assert main(["history", "repair", str(folder)]) == 1
    assert "it is rebuilt" in capsys.readouterr().out


def test_exit_codes_of_a_dry_run(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 where a repair loses nothing, with findings where there is something to repair; 1 for losses; 2 without a
    store.
    """
    code, output = run(capsys, folder, "--dry-run")
    assert (code, output["ok"], output["findings"]) == (0, True, [])
    index_path = active(folder)[1][-1]
    hurt(index_path, "cut")
    code, output = run(capsys, folder, "--dry-run")
    assert (code, output["ok"], [one["kind"] for one in output["findings"]]) == (0, True, ["side file"])
    assert main(["history", "verify", str(folder)]) == 1
    capsys.readouterr()
    hurt(active(folder)[0][0], "cut")
    code, output = run(capsys, folder, "--dry-run")
    assert (code, output["ok"]) == (1, False)
    assert [one["lost"] for one in output["findings"]].count(True) == 1
    assert main(["history", "repair", str(folder), "--dry-run"]) == 1
    assert "1 of 2 findings are losses" in capsys.readouterr().out
    assert main(["history", "repair", str(tmp_path / "none"), "--dry-run"]) == 2
    assert not (tmp_path / "none").exists()


def test_repair_needs_the_lease(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History(folder) as history:
        history.open()
        with pytest.raises(WriterConflictError):
            repair(folder)
        assert repair(folder, dry_run=True) == []
    assert main(["history", "repair", str(tmp_path / "none")]) == 2
    assert "no history" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_store_of_an_older_version(folder: Path) -> None:
    """Entries without a checksum, as Delta's library writes them."""
    for version in range(newest(folder) + 1):
        text = entry(folder, version).read_bytes()
        head, *rest = text.split(b"\n")
        entry(folder, version).write_bytes(b"\n".join([head.split(b',"quantide.crc"')[0] + b"}}", *rest]))
    check_writable(folder, list(NUMBERS))
    path = entry(folder, newest(folder))
    data = path.read_bytes()
    for end in np.linspace(0, len(data) - 1, 20).astype(int):
        path.write_bytes(data[:end])
        assert HistoryReader(folder).version == newest(folder) - 1
